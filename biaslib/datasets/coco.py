"""COCO images as Wang et al. (2019) label them, and what six released captioners (Hendricks et al. 2018) say of them.

The gender of an image's label was read off the captions of crowd workers, who wrote what they perceived.
"""

from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd

from biaslib.datasets import _coco_imsitu as released
from biaslib.datasets import captions as matcher
from biaslib.datasets import registry
from biaslib.errors import BiaslibError

# baseline_ft is the plain captioner; the others change its data (balanced), its loss (upweight) or both halves of the
# method that Hendricks et al. propose (confusion, confident), of which equalizer is the whole
CAPTIONERS = ("baseline_ft", "balanced", "upweight", "confident", "confusion", "equalizer")

# Zhao, Andrews and Xiang 2023, appendix C.1, without "person"
PAPER_OBJECTS = (
    "bicycle", "car", "motorcycle", "bus", "truck", "traffic_light", "bench", "cat", "dog", "horse", "backpack",
    "umbrella", "handbag", "tie", "suitcase", "frisbee", "skis", "sports_ball", "kite", "surfboard", "tennis_racket",
    "bottle", "wine_glass", "cup", "fork", "knife", "spoon", "bowl", "banana", "sandwich", "pizza", "donut", "cake",
    "chair", "couch", "potted_plant", "bed", "dining_table", "tv", "laptop", "remote", "cell_phone", "microwave",
    "oven", "sink", "refrigerator", "book", "clock", "vase", "teddy_bear", "toothbrush",
)  # fmt: skip


def objects(root: Path | None = None) -> list[str]:
    """The 79 objects besides "person", in the order of the labels.

    Raises:
        BiaslibError: for a missing or a damaged file.
    """
    return released.names(root, "object_multilabel__object_id.map.json", "id2object")


def annotated(split: Literal["val", "test"], root: Path | None = None) -> pd.DataFrame:
    """Objects and perceived gender of 5,367 (val) or 5,473 (test) images of COCO's validation set.

    Labels of training images are not among the released files.

    Returns:
        one row an image, index `image_id`: column `group` (0 man, 1 woman, as crowd workers' captions word it), then a
        bool column an object.

    Raises:
        BiaslibError: for another split, a missing or a damaged file.
    """
    if split not in ("val", "test"):
        raise BiaslibError(f"the released COCO labels are of val and test, not of {split!r}.")
    names = objects(root)
    path = released.find(root, f"object_multilabel__{split}.data.json")
    rows = released.read_rows(path, "image_id", "objects", "gender")
    registry.warn(registry.get("coco"))
    try:
        table = np.array([row["objects"] for row in rows], dtype=np.int64)
        gender = np.array([row["gender"] for row in rows], dtype=np.int64)
    except (ValueError, TypeError) as error:
        raise registry.damaged(released.dataset(), path, "its images do not have as many objects each") from error
    one_hot = gender.shape == (len(rows), 2) and np.isin(gender, (0, 1)).all() and (gender.sum(axis=1) == 1).all()
    if not one_hot or table.shape != (len(rows), len(names)) or not np.isin(table, (0, 1)).all():
        raise registry.damaged(
            released.dataset(), path, f"it is not one gender and {len(names)} zeros and ones for each image"
        )
    index = pd.Index([row["image_id"] for row in rows], name="image_id")
    labels = pd.DataFrame(table == 1, columns=names, index=index)
    labels.insert(0, "group", gender[:, 1])
    return labels


def captions(captioner: str, root: Path | None = None) -> pd.Series:
    """What one captioner says of each of the 40,504 images of COCO's validation set: text by `image_id`.

    Raises:
        BiaslibError: for a captioner that is not in `CAPTIONERS`, a missing or a damaged file.
    """
    if captioner not in CAPTIONERS:
        raise BiaslibError(f"the released captioners are {', '.join(CAPTIONERS)}, not {captioner!r}.")
    path = released.find(root, f"captions_6models_val2014/{captioner}.json")
    rows = released.read_rows(path, "image_id", "caption")
    index = pd.Index([row["image_id"] for row in rows], name="image_id")
    if index.has_duplicates:
        raise registry.damaged(released.dataset(), path, "an image has two captions")
    return pd.Series([str(row["caption"]) for row in rows], index=index, name="caption")


def predicted(captioner: str, image_ids: pd.Index, root: Path | None = None) -> pd.DataFrame:
    """Objects and gender by the words of a captioner's captions (`datasets.captions`), for the images asked for.

    Returns:
        as `annotated`, in the order of `image_ids`; `group` is -1 where a caption names no gender or both.

    Raises:
        BiaslibError: for another captioner, an image without a caption, a missing or a damaged file.
    """
    texts = captions(captioner, root)
    unknown = image_ids.difference(texts.index)
    if len(unknown):
        raise BiaslibError(
            f"{captioner} has no caption of image {unknown[0]}: ask for images of COCO's validation set."
        )
    texts = texts.loc[image_ids]
    labels = matcher.objects(texts, objects(root)).set_index(image_ids)
    labels.insert(0, "group", matcher.gender(texts))
    return labels


def gender_ratios(root: Path | None = None) -> pd.DataFrame:
    """Men's share among images with each of 66 objects, as Zhao et al. (2017) released it.

    Returns:
        columns object; training (in the training labels), before and after (predicted for the development images
        before and after their corpus-level constraints, RBA), in [0, 1].

    Raises:
        BiaslibError: for a missing or a damaged file.
    """
    return released.ratios(root, "COCO_gender_ratio_dev_res.csv", "object")
