"""Intel's scenes: landscapes and streets of six kinds."""

from pathlib import Path

import numpy as np
import pandas as pd

from biaslib.datasets import decoded, pictures, registry
from biaslib.samples import Samples

KINDS = ("buildings", "forest", "glacier", "mountain", "sea", "street")
VALIDATION = 0.2  # of the training pictures, by their names


def load(split: str, *, size: int, root: Path) -> Samples:
    """The six kinds of scenes, intel-scenes/train and test, in each a folder a kind.

    Args:
        split: "train", "val" (a fifth of the official training pictures, by their names) or "test".
        size: side of the pictures in pixels; each is resized as a whole.
        root: folder of all datasets.

    Returns:
        label `kind` (int8), its place in `KINDS`; no masks.

    Raises:
        BiaslibError: for an unknown split, a missing or a damaged file.
    """
    dataset = registry.get("intel-scenes")
    pictures.check_split("Intel's scenes", split, ["train", "val", "test"])
    folder = root / "intel-scenes" / ("test" if split == "test" else "train")
    files = [file for kind in KINDS for file in pictures.kept(dataset, folder / kind, split, VALIDATION)]
    kind = np.array([KINDS.index(file.parent.name) for file in files], np.int8)
    return Samples(decoded.photos(dataset, files, size=size), pd.DataFrame({"kind": kind}))
