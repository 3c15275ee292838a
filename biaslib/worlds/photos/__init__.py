"""Biases planted in photos: a ball beside the object, or the object before another background."""

from biaslib.worlds.photos.balls import places, plain_corners, plant_balls, put
from biaslib.worlds.photos.cutouts import paste
from biaslib.worlds.photos.photos import FruitPhotos, PetPhotos, cats_and_dogs, fruits_on_scenes
from biaslib.worlds.photos.regions import boxes_of_masks, masks_of_boxes

__all__ = [
    "FruitPhotos",
    "PetPhotos",
    "boxes_of_masks",
    "cats_and_dogs",
    "fruits_on_scenes",
    "masks_of_boxes",
    "paste",
    "places",
    "plain_corners",
    "plant_balls",
    "put",
]
