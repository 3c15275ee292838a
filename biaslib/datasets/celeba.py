"""CelebA's faces, and the list files of CelebA and CelebAMask-HQ: attributes as annotated, which image is which."""

from pathlib import Path

import numpy as np
import pandas as pd

from biaslib.datasets import decoded, pictures, registry
from biaslib.samples import Samples

_SPLITS = {"train": 0, "val": 1, "test": 2}

# in the order of list_attr_celeba.txt
ATTRIBUTES = (
    "5_o_Clock_Shadow", "Arched_Eyebrows", "Attractive", "Bags_Under_Eyes", "Bald", "Bangs", "Big_Lips",
    "Big_Nose", "Black_Hair", "Blond_Hair", "Blurry", "Brown_Hair", "Bushy_Eyebrows", "Chubby", "Double_Chin",
    "Eyeglasses", "Goatee", "Gray_Hair", "Heavy_Makeup", "High_Cheekbones", "Male", "Mouth_Slightly_Open",
    "Mustache", "Narrow_Eyes", "No_Beard", "Oval_Face", "Pale_Skin", "Pointy_Nose", "Receding_Hairline",
    "Rosy_Cheeks", "Sideburns", "Smiling", "Straight_Hair", "Wavy_Hair", "Wearing_Earrings", "Wearing_Hat",
    "Wearing_Lipstick", "Wearing_Necklace", "Wearing_Necktie", "Young",
)  # fmt: skip

HAIR = ("Black_Hair", "Blond_Hair", "Brown_Hair")

# Zhao, Andrews and Xiang 2023, appendix C.3: at least 500 times with each of the three hair colours
HAIR_ATTRIBUTES = (
    "Arched_Eyebrows", "Bags_Under_Eyes", "Bangs", "Big_Nose", "Eyeglasses", "Heavy_Makeup", "High_Cheekbones", "Male",
    "Mouth_Slightly_Open", "Narrow_Eyes", "No_Beard", "Oval_Face", "Pale_Skin", "Pointy_Nose", "Receding_Hairline",
    "Rosy_Cheeks", "Smiling", "Straight_Hair", "Wavy_Hair", "Wearing_Earrings", "Wearing_Lipstick", "Wearing_Necklace",
    "Young",
)  # fmt: skip


def load(split: str, *, size: int, root: Path) -> Samples:
    """CelebA's aligned faces in the official layout, celeba/img_align_celeba/*.jpg; other people in each split.

    Pictures are resized as a whole, so that faces come out a fifth too wide.

    Returns:
        the split's pictures that are in the folder, in the official order; the 40 attributes as annotated; no masks.

    Warns:
        DatasetWarning: what is known to be wrong with these labels and with their terms; how many pictures of the
            split are not in the folder.
    """
    dataset = registry.get("celeba")
    pictures.check_split("CelebA", split, list(_SPLITS))
    table = attributes(root)
    rows = np.flatnonzero(_partition(dataset, root, len(table)) == _SPLITS[split])
    folder = registry.require(dataset, root / "celeba" / "img_align_celeba")
    here = {entry.name for entry in folder.iterdir()}
    found = np.array([row for row in rows if _name(row) in here], int)
    if not len(found):
        registry.require(dataset, folder / _name(rows[0]))
    pictures.warn_of_a_part(dataset, len(found), len(rows), folder, split)
    images = decoded.photos(dataset, [folder / _name(row) for row in found], size=size)
    return Samples(images=images, labels=table.iloc[found].reset_index(drop=True))


def attributes(root: Path) -> pd.DataFrame:
    """CelebA's 40 attributes as annotated, from celeba/list_attr_celeba.txt under the folder of all datasets.

    Returns:
        one row an image in the official order (image 000001.jpg is row 0), one bool column an attribute.

    Raises:
        BiaslibError: for a missing or a damaged file.

    Warns:
        DatasetWarning: what is known to be wrong with these labels and with their terms.
    """
    dataset = registry.get("celeba")
    path = registry.require(dataset, root / "celeba" / "list_attr_celeba.txt")
    registry.warn(dataset)
    return attribute_list(dataset, path).reset_index(drop=True)


def attribute_list(dataset: registry.Dataset, path: Path) -> pd.DataFrame:
    """A list of attributes as CelebA and CelebAMask-HQ have it: how many images, the names, a row of 1 and -1 each.

    Returns:
        one bool column an attribute, indexed by the images' names.

    Raises:
        BiaslibError: for a damaged file.
    """
    try:
        with path.open(encoding="ascii") as opened:
            n, names = int(opened.readline()), opened.readline().split()
            columns = ["image", *names]
            table = pd.read_csv(
                opened, sep=r"\s+", names=columns, index_col="image", dtype=dict.fromkeys(names, np.int8)
            )
    except ValueError as error:
        raise registry.damaged(dataset, path, f"it is no list of attributes: {error}") from error
    if len(table) != n or not np.isin(table.to_numpy(), (-1, 1)).all():
        raise registry.damaged(
            dataset, path, f"it announces {n} images and has {len(table)}, or values other than 1, -1"
        )
    return table == 1


def hair_colour(table: pd.DataFrame) -> np.ndarray:
    """The group that paper B takes: 0, 1, 2 for black, blond, brown hair as annotated.

    Args:
        table: N rows with the three columns `HAIR`.

    Returns:
        (N,) int; -1 where not exactly one of the three is given.
    """
    hair = table[list(HAIR)].to_numpy()
    return np.where(hair.sum(axis=1) == 1, hair.argmax(axis=1), -1)


def hq_to_celeba(root: Path) -> np.ndarray:
    """For each of CelebAMask-HQ's 30,000 images the row of `attributes` that it is: (30000,) int.

    Raises:
        BiaslibError: for a missing or a damaged file.
    """
    dataset = registry.get("celebamask-hq")
    path = registry.require(dataset, root / "CelebAMask-HQ" / "CelebA-HQ-to-CelebA-mapping.txt")
    rows = [line.split() for line in path.read_text(encoding="ascii", errors="replace").splitlines()]
    if rows and not rows[0][0].isdigit():  # the official file has a heading, copies lack it
        rows = rows[1:]
    try:
        table = np.array([[int(row[0]), int(row[1]), int(row[2].split(".")[0])] for row in rows])
    except (IndexError, ValueError) as error:
        raise registry.damaged(dataset, path, f"it is no mapping of images: {error}") from error
    # each line says the same twice: a row counted from 0 and a file name counted from 1
    if len(table) == 0 or (table[:, 0] != np.arange(len(table))).any() or (table[:, 2] != table[:, 1] + 1).any():
        raise registry.damaged(dataset, path, "its lines do not follow each other or contradict themselves")
    return table[:, 1]


def _partition(dataset: registry.Dataset, root: Path, n: int) -> np.ndarray:
    """(n,) the number of each image's split."""
    path = registry.require(dataset, root / "celeba" / "list_eval_partition.txt")
    rows = [line.split() for line in path.read_text(encoding="ascii", errors="replace").splitlines()]
    fine = (row[:1] == [_name(i)] and row[1:] in (["0"], ["1"], ["2"]) for i, row in enumerate(rows))
    if len(rows) != n or not all(fine):
        raise registry.damaged(dataset, path, f"it is no list of {n} images, each with the number of its split")
    splits = np.array([int(split) for _, split in rows])
    if missing := [name for name, number in _SPLITS.items() if number not in splits]:
        raise registry.damaged(dataset, path, f"it gives no image to {missing[0]}")
    return splits


def _name(row: int | np.integer) -> str:
    return f"{row + 1:06d}.jpg"
