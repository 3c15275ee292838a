"""imSitu's photographs of people who do something, in its official layout, in the folder imsitu.

Three annotators worded who does it (agent) and where (place), as nouns of WordNet. Words and places are those of Zhao,
Andrews and Xiang (2023, appendix C.2).
"""

import json
from pathlib import Path
from typing import Any

import pandas as pd

from biaslib.datasets import pictures, registry
from biaslib.datasets.coco_imsitu import captioned_gender
from biaslib.samples import Samples

_FILES = {"train": "train.json", "val": "dev.json", "test": "test.json"}
_OUTDOORS = frozenset(("outdoors", "outside", "field", "street", "road", "sidewalk", "beach", "farm", "forest", "yard"))
_INDOORS = frozenset(
    (
        "room", "inside", "kitchen", "office", "gymnasium", "shop", "house", "hospital", "classroom", "workshop",
        "stage", "bed", "living room", "bathroom",
    )
)  # fmt: skip
_LEAST = 5  # a verb stays that more training images than these have, of either group


def load(split: str, *, size: int, root: Path) -> Samples:
    """The photographs of a split whose agent is worded with one gender, and whose place is clearly indoors or outdoors.

    Labels are a bool column a verb ("verb cooking"), for the verbs that more than five such training images of either
    group have, `indoors` (bool) and `group` (0 man, 1 woman, as annotators worded the agent). Photographs are resized
    as a whole. Missing or damaged files are a `BiaslibError`.
    """
    pictures.check_split("imSitu", split)
    dataset, folder = registry.get("imsitu"), root / "imsitu"
    registry.warn(dataset)
    train = _worded(dataset, folder, "train")
    counts = pd.crosstab(train["verb"], train["group"])
    verbs = list(counts.index[(counts.reindex(columns=[0, 1], fill_value=0) > _LEAST).all(axis=1)])
    worded = train if split == "train" else _worded(dataset, folder, split)
    table = worded.query("verb in @verbs")
    labels = pd.DataFrame({f"verb {verb}": table["verb"] == verb for verb in verbs}, index=table.index)
    labels = labels.assign(indoors=table["indoors"], group=table["group"])
    paths = [dataset.require(folder / "of500_images_resized" / name) for name in table.index]
    return Samples(images=pictures.photos(dataset, paths, size=size), labels=labels.reset_index(drop=True))


def _worded(dataset: registry.Dataset, folder: Path, split: str) -> pd.DataFrame:
    """By the photographs' names: verb, group and indoors, of those for which the words decide both."""
    annotations, space = (dataset.require(folder / name) for name in (_FILES[split], "imsitu_space.json"))
    try:
        nouns = json.loads(space.read_text(encoding="utf-8"))["nouns"]
        images = json.loads(annotations.read_text(encoding="utf-8"))
        rows = {
            name: (image["verb"], *(_words(nouns, image["frames"], role) for role in ("agent", "place")))
            for name, image in images.items()
        }
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise dataset.damaged(annotations, f"with {space.name} it is not imSitu's annotations: {error!r}") from error
    table = pd.DataFrame.from_dict(rows, orient="index", columns=["verb", "agent", "place"])
    inside, outside = (~table["place"].map(places.isdisjoint).astype(bool) for places in (_INDOORS, _OUTDOORS))
    table = table.assign(group=captioned_gender(table["agent"].map(" ".join)), indoors=inside)
    return table.loc[(table["group"] >= 0) & (inside != outside), ["verb", "group", "indoors"]]


def _words(nouns: dict[str, Any], frames: list[dict[str, str]], role: str) -> set[str]:
    """The words of all annotators for a role; an empty noun says that it cannot be seen."""
    return {word for frame in frames if frame.get(role) for word in nouns[frame[role]]["gloss"]}
