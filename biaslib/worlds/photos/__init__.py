"""Cues inserted into photos: a ball beside the object, or the object before another background."""

from biaslib.worlds.photos.balls import insert_balls, plain_corners, put
from biaslib.worlds.photos.composites import BirdPhotos, PetsOnScenes, write_waterbirds
from biaslib.worlds.photos.photos import FruitPhotos, PetPhotos, boxes_of_masks, masks_of_boxes, paste

__all__ = [
    "BirdPhotos", "FruitPhotos", "PetPhotos", "PetsOnScenes", "boxes_of_masks", "insert_balls", "masks_of_boxes",
    "paste", "plain_corners", "put", "write_waterbirds",
]  # fmt: skip
