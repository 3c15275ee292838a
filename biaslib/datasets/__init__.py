"""Real data in its official layout: load it, fetch it, check it."""

import functools
import os
from collections.abc import Callable

from biaslib.datasets import celeba, coco_imsitu, mnist, photos, pictures, published, registry, waterbirds
from biaslib.datasets.registry import DatasetWarning, check, fetch, listing, root
from biaslib.errors import check_known, check_number
from biaslib.samples import Samples

__all__ = ["DatasetWarning", "check", "coco_imsitu", "fetch", "listing", "load", "published", "root"]

_LOADERS: dict[str, Callable[..., Samples]] = {
    "celeba": celeba.load,
    "celeba-cropped": functools.partial(celeba.load, cropped=True),
    "celebamask": celeba.load_hq,
    "celebamask-pairs": celeba.load_hq_pairs,
    "coco": coco_imsitu.load_coco,
    "imsitu": coco_imsitu.load_imsitu,
    "mnist": mnist.load,
    "pets": photos.pets,
    "cat-and-dog": photos.cats_and_dogs,
    "fruits360": photos.fruits,
    "scenes": photos.scenes,
    "cub": waterbirds.cub,
    "places365": waterbirds.places365,
}


def load(name: str, split: str, *, size: int, root: str | os.PathLike[str] | None = None) -> Samples:
    """Images, labels and masks of a dataset.

    Photographs are decoded once into a read-only memory map in the store; a second load reads that. A `BiaslibError` is
    raised for an unknown name, split or size, a missing file (with its official source, licence and how to get it) or a
    damaged one (which, and where from). A `DatasetWarning` tells of known problems, and of missing pictures.

    Args:
        name: "waterbirds", or "waterbirds-NN" for a set made at bias NN %; "celeba", or "celeba-cropped" for the square
            of each face; "celebamask" (CelebAMask-HQ), or "celebamask-pairs" where there are only images with a label
            map each; "coco" (2014); "imsitu"; "mnist"; "pets" (Oxford-IIIT Pet); "cat-and-dog"; "fruits360";
            "scenes" (Intel's); "cub" and "places365", of which Waterbirds is made.
        split: "train", "val" (not of mnist) or "test".
        size: side of the pictures in pixels.
        root: folder of all datasets; by default $BIASLIB_DATA, else data/raw of the checkout.
    """
    check_number("size, the side of the pictures in pixels,", size, 1, whole=True)
    if not name.startswith("waterbirds"):
        check_known("a data set whose images are loaded, waterbirds and waterbirds-NN apart,", name, _LOADERS)
    loader = _LOADERS.get(name) or functools.partial(waterbirds.load, name)
    check_known(f"a split of {name}", split, ("train", "test") if name == "mnist" else pictures.SPLITS)
    return loader(split, size=size, root=registry.root(root))
