"""imSitu images as Wang et al. (2019) label them: one of 211 verbs and the perceived gender of who does it."""

from pathlib import Path

import numpy as np
import pandas as pd

from biaslib.datasets import _coco_imsitu as released
from biaslib.datasets import registry
from biaslib.datasets._coco_imsitu import Split
from biaslib.errors import BiaslibError

SPLITS = ("train", "val", "test")


def verbs(root: Path | None = None) -> list[str]:
    """The 211 verbs, in the order of their numbers.

    Raises:
        BiaslibError: for a missing or a damaged file.
    """
    return released.names(root, "verb_classification__verb_id.map.json", "id2verb")


def annotated(split: Split, root: Path | None = None) -> pd.DataFrame:
    """Verb and perceived gender of 24,301 (train), 7,730 (val) or 7,669 (test) images.

    Returns:
        one row an image: columns image (file name), verb, group (0 man, 1 woman, as annotators word the agent).

    Raises:
        BiaslibError: for another split, a missing or a damaged file.
    """
    if split not in SPLITS:
        raise BiaslibError(f"imSitu's splits are {', '.join(SPLITS)}, not {split!r}.")
    names = verbs(root)
    path = released.find(root, f"verb_classification__{split}.data.json")
    table = pd.DataFrame(released.read_rows(path, "image_name", "verb", "gender"))
    registry.warn(registry.get("imsitu"))
    known = table["verb"].isin(range(len(names))).all() and table["gender"].isin((0, 1)).all()
    if not known:
        raise registry.damaged(released.dataset(), path, f"a verb is not 0 to {len(names) - 1} or a gender not 0 or 1")
    words = np.array(names)[table["verb"].to_numpy(dtype=np.int64)]
    return pd.DataFrame({"image": table["image_name"], "verb": words, "group": table["gender"].astype(np.int64)})


def verb_by_gender(split: Split, root: Path | None = None) -> pd.DataFrame:
    """Number of images of each verb and perceived gender: columns verb, man, woman, in the order of `verbs`.

    Raises:
        BiaslibError: as `annotated`.
    """
    images = annotated(split, root)
    counts = pd.crosstab(images["verb"], images["group"])
    counts = counts.reindex(index=verbs(root), columns=[0, 1], fill_value=0)
    return counts.set_axis(["man", "woman"], axis=1).rename_axis("verb").reset_index()


def gender_ratios(root: Path | None = None) -> pd.DataFrame:
    """Men's share among images with each of 212 verbs, as Zhao et al. (2017) released it.

    Returns:
        columns verb; training, before and after as in `coco.gender_ratios`.

    Raises:
        BiaslibError: for a missing or a damaged file.
    """
    return released.ratios(root, "imSitu_gender_ratio_dev_res.csv", "verb")
