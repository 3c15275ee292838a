"""The list files of CelebA and CelebAMask-HQ: attributes as annotated, and which image is which."""

from pathlib import Path

import numpy as np
import pandas as pd

from biaslib.datasets import registry


def attributes(root: Path) -> pd.DataFrame:
    """CelebA's 40 attributes as annotated.

    Args:
        root: folder of all datasets, with celeba/list_attr_celeba.txt.

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
    return (table == 1).reset_index(drop=True)


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
