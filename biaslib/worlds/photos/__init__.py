"""Cues inserted into photos: a ball beside the object, or the object before another background."""

from biaslib.worlds.photos.balls import PetPhotos, boxes_of_masks, insert_balls, masks_of_boxes, plain_corners, put
from biaslib.worlds.photos.photos import BirdPhotos, FruitPhotos, PetsOnScenes, paste, write_waterbirds

__all__ = [
    "BirdPhotos", "FruitPhotos", "PetPhotos", "PetsOnScenes", "boxes_of_masks", "insert_balls", "masks_of_boxes",
    "paste", "plain_corners", "put", "write_waterbirds",
]  # fmt: skip
