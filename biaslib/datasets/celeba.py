"""CelebA's faces, and CelebAMask-HQ (Lee et al. 2020): faces with drawn masks, and label-map pairs of some of them."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from PIL import Image

from biaslib.datasets import pictures, registry
from biaslib.samples import Samples

ATTRIBUTES: tuple[str, ...] = tuple(registry.WORDS["celeba_attributes"])
REGIONS: dict[str, list[str]] = registry.WORDS["celeba_regions"]
_PARTS: list[str] = registry.WORDS["celeba_parts"]
_IMAGES, _MASKS = "CelebA-HQ-img", "CelebAMask-HQ-mask-anno"
_A_FOLDER = 2000  # images in each numbered folder of masks
_PAIRS = {"val": 0.15, "train": 0.85}  # of the training pairs, by their names


def load(split: str, *, size: int, root: Path, cropped: bool = False) -> Samples:
    """CelebA's aligned faces in the official layout, celeba/img_align_celeba/*.jpg; other people in each split.

    Pictures are resized as a whole, so that faces come out a fifth too wide, or cropped: the square of `_square`, which
    has 128 pixels a side in the official pictures. Returns the split's pictures that are in the folder, in the official
    order; the 40 attributes as annotated; no masks. A `DatasetWarning` says how many are not in the folder.
    """
    dataset = registry.get("celeba")
    table = attributes(root)
    rows = np.flatnonzero(partition(root, len(table)) == pictures.SPLITS.index(split))
    folder = root / "celeba" / "img_align_celeba"
    rows = rows[pictures.are_here(dataset, folder, [_name(row) for row in rows.tolist()], split)]
    named, shape = [f"{folder}{os.sep}{_name(row)}" for row in rows.tolist()], (len(rows), size, size, 3)
    if cropped:
        images = pictures.once(dataset, "square", named, _square, size, shape=shape, dtype=np.uint8)
    else:
        images = pictures.photos(dataset, named, size=size)
    return Samples(images=images, labels=table.iloc[rows].reset_index(drop=True))


def _square(dataset: registry.Dataset, file: str, size: int) -> np.ndarray:
    """The square around (89, 121) of 178 x 218 pixels, 128 a side, of a copy of any size (Karras et al. 2018, code)."""
    picture = pictures.read_picture(dataset, file, "RGB")
    scale = picture.width / 178
    left, top, side = int(scale * (89 - 64)), int(scale * (121 - 64)), round(scale * 128)
    face = picture.crop((left, top, left + side, top + side))
    return np.asarray(face.resize((size, size), Image.Resampling.BILINEAR))


def load_hq(split: str, *, size: int, root: Path) -> Samples:
    """CelebAMask-HQ in its official layout, CelebAMask-HQ/CelebA-HQ-img and CelebAMask-HQ-mask-anno.

    "train", "val" and "test" are 70, 15 and 15 % of the images, in the random order (NumPy's `RandomState(0)`) whose
    last 4,500 are the test images of Serianni et al. (2025). Returns the split's images, by number; the 40 attributes
    as annotated (bool); masks of the 14 `REGIONS`, True where at least half of the pixel is inside, all False where no
    part is drawn. Drawn parts may overlap; the background is what no part covers.
    """
    dataset = registry.get("celebamask-hq")
    folder = root / "CelebAMask-HQ"
    path = folder / "CelebAMask-HQ-attribute-anno.txt"
    table = _attribute_list(dataset, path)
    if [str(name) for name in table.index] != [f"{number}.jpg" for number in range(len(table))]:
        raise dataset.damaged(path, f"its {len(table)} images are not numbered from 0")
    numbers = hq_numbers(len(table), split)
    images = pictures.photos(dataset, [folder / _IMAGES / f"{number}.jpg" for number in numbers], size=size)
    files = [_files(dataset.require(folder / _MASKS), int(number)) for number in numbers]
    if not any(files):
        dataset.require(folder / _MASKS / str(numbers[0] // _A_FOLDER) / f"{numbers[0]:05d}_skin.png")
    labels = table.iloc[numbers].reset_index(drop=True)
    return Samples(images=images, labels=labels, masks=_masks(dataset, files, size))


def load_hq_pairs(split: str, *, size: int, root: Path) -> Samples:
    """Pairs of an image and its label map, CelebAMask-HQ/pairs/train and test, each with images and masks.

    "val" is 15 % of the folder train, by the pictures' names. Returns the images in the order of their names; masks of
    the 14 `REGIONS`; labels without columns, as the pairs do not say whom of CelebA they show.
    """
    dataset = registry.get("celebamask-hq")
    registry.warn(dataset)
    folder = root / "CelebAMask-HQ" / "pairs" / ("test" if split == "test" else "train")
    files = pictures.listed(dataset, folder / "images")
    if split != "test":
        files = [file for file in files if pictures.part(file.name, _PAIRS) == split]
    if not files:
        dataset.require(folder / "images" / "*.jpg")
    images = pictures.photos(dataset, files, size=size)
    maps = [dataset.require(folder / "masks" / f"{file.stem}.png") for file in files]
    masks = _masks(dataset, [{"map": path} for path in maps], size)
    return Samples(images=images, labels=pd.DataFrame(index=range(len(files))), masks=masks)


def attributes(root: Path) -> pd.DataFrame:
    """CelebA's 40 attributes, a bool column each, from celeba/list_attr_celeba.txt: image 000001.jpg is row 0."""
    return _attribute_list(registry.get("celeba"), root / "celeba" / "list_attr_celeba.txt").reset_index(drop=True)


def hq_to_celeba(root: Path) -> np.ndarray:
    """For each of CelebAMask-HQ's 30,000 images the row of `attributes` that it is: (30000,) int."""
    dataset = registry.get("celebamask-hq")
    path = root / "CelebAMask-HQ" / "CelebA-HQ-to-CelebA-mapping.txt"
    with dataset.reading(path, "it is no mapping of images"):
        rows = [line.split() for line in path.read_text(encoding="ascii", errors="replace").splitlines()]
        if rows and not rows[0][0].isdigit():  # the official file has a heading, copies lack it
            rows = rows[1:]
        table = np.array([[int(row[0]), int(row[1]), int(row[2].split(".")[0])] for row in rows])
    # each line says the same twice: a row counted from 0 and a file name counted from 1
    if len(table) == 0 or (table[:, 0] != np.arange(len(table))).any() or (table[:, 2] != table[:, 1] + 1).any():
        raise dataset.damaged(path, "its lines do not follow each other or contradict themselves")
    return table[:, 1]


def _attribute_list(dataset: registry.Dataset, path: Path) -> pd.DataFrame:
    """A list of attributes, one bool column each, by the images' names: how many, the names, a row of 1 and -1 each."""
    with dataset.reading(path, "it is no list of attributes"), path.open(encoding="ascii") as opened:
        registry.warn(dataset)
        n, names = int(opened.readline()), opened.readline().split()
        types = dict.fromkeys(names, np.int8)
        table = pd.read_csv(opened, sep=r"\s+", names=["image", *names], index_col="image", dtype=types)
    if len(table) != n or not np.isin(table.to_numpy(), (-1, 1)).all():
        raise dataset.damaged(path, f"it announces {n} images and has {len(table)}, or values other than 1, -1")
    return table == 1


def partition(root: Path, n: int) -> np.ndarray:
    """(n,) the split of each of CelebA's n images, in the official order: 0 training, 1 validation, 2 test."""
    dataset = registry.get("celeba")
    path = dataset.require(root / "celeba" / "list_eval_partition.txt")
    words = path.read_text(encoding="ascii", errors="replace").split()
    if len(words) != 2 * n or words[::2] != [_name(i) for i in range(n)] or not {"0", "1", "2"}.issuperset(words[1::2]):
        raise dataset.damaged(path, f"it is no list of {n} images, each with the number of its split")
    splits = np.array(words[1::2], int)
    if missing := [name for number, name in enumerate(pictures.SPLITS) if number not in splits]:
        raise dataset.damaged(path, f"it gives no image to {missing[0]}")
    return splits


def _name(row: int | np.integer) -> str:
    return f"{row + 1:06d}.jpg"


def hq_numbers(n: int, split: str) -> np.ndarray:
    """CelebAMask-HQ's images of a split, by number, sorted; of 30,000: 21,000, 4,500 and 4,500."""
    order = np.random.RandomState(0).permutation(n)
    ends = [0, round(0.70 * n), round(0.85 * n), n]
    at = pictures.SPLITS.index(split)
    return np.sort(order[ends[at] : ends[at + 1]])


def _files(folder: Path, number: int) -> dict[str, Path]:
    """The parts that are drawn for an image."""
    inside = folder / str(number // _A_FOLDER)
    paths = {part: inside / f"{number:05d}_{part}.png" for part in _PARTS[1:]}
    return {part: path for part, path in paths.items() if path.exists()}


def _masks(dataset: registry.Dataset, files: Sequence[Mapping[str, Path]], size: int) -> dict[str, np.ndarray]:
    """(N, size, size) bool of each region, from each image's part masks or its label map ("map")."""
    shape = (len(REGIONS), len(files), size, size)
    options = [list(REGIONS.items()), _PARTS]
    covered = pictures.once(dataset, "parts", files, _regions, size, *options, shape=shape, axis=1)
    return {region: covered[at] for at, region in enumerate(REGIONS)}


def _regions(
    dataset: registry.Dataset, files: Mapping[str, Path], size: int, regions: list[Any], numbered: list[str]
) -> np.ndarray:
    """(14, size, size) bool: parts are united at their own size, then resized."""
    drawn = {name: np.asarray(pictures.read_picture(dataset, path, "L")) for name, path in files.items()}
    if "map" in drawn:
        if drawn["map"].max() >= len(numbered):
            raise dataset.damaged(files["map"], f"it has numbers above {len(numbered) - 1}")
        drawn = {part: drawn["map"] == number for number, part in enumerate(numbered) if number}
    else:
        drawn = {part: picture >= 128 for part, picture in drawn.items()}
    shape = next((part.shape for part in drawn.values()), (size, size))
    for part, inside in drawn.items():
        if inside.shape != shape:
            raise dataset.damaged(files[part], f"it is not of the size of the image's other masks, {shape}")
    none = np.zeros(shape, bool)
    united = [np.any([none, *(drawn[part] for part in parts if part in drawn)], axis=0) for _, parts in regions]
    united[-1] = ~np.any([none, *drawn.values()], axis=0)
    return np.stack([pictures.shrunk(region, size) for region in united])
