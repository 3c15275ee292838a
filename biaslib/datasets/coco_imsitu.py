"""What others released for COCO and imSitu, in the folder coco-imsitu; and their photographs, in coco and imsitu.

The former are the labels of Wang et al. (2019), what six captioners say of COCO's images, and the ratios of Zhao et al.
(2017) before and after constraints. COCO's gender was read off the captions of crowd workers, who wrote what they
perceived; imSitu's is how three annotators word, as nouns of WordNet, who does what its verb says (agent), and where
(place). Photographs are resized as a whole. Every function raises a `BiaslibError` for a missing or a damaged file, and
for a split, a captioner or an image that is not there.
"""

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from biaslib.datasets import pictures, registry
from biaslib.errors import BiaslibError, check_known, refused
from biaslib.samples import Samples

# Hendricks et al. 2018: baseline_ft is the plain captioner; the others change its data (balanced), its loss (upweight)
# or both halves of the method that is proposed (confusion, confident), of which equalizer is the whole
CAPTIONERS = ("baseline_ft", "balanced", "upweight", "confident", "confusion", "equalizer")

_NAME = "coco-imsitu"  # of the data set, and its folder
PAPER_OBJECTS: tuple[str, ...] = tuple(registry.WORDS["paper_objects"])
_RATIOS = ["training", "before", "after"]
_IMSITU_FILES = {"train": "train.json", "val": "dev.json", "test": "test.json"}
_LEAST = 5  # a verb stays that more training images than these have, of either group


def coco_objects() -> list[str]:
    """The 79 objects besides "person", in the order of COCO's labels."""
    return _names("object_multilabel__object_id.map.json", "id2object")


def coco_labels(split: Literal["val", "test"]) -> pd.DataFrame:
    """Objects and perceived gender of 5,367 (val) or 5,473 (test) images of COCO's validation set.

    Labels of training images are not among the released files. Returns one row an image, index `image_id`: column
    `group` (0 man, 1 woman, as crowd workers' captions word it), then a bool column an object.
    """
    check_known("the split of the released COCO labels", split, ("val", "test"))
    names = coco_objects()
    path = _find(f"object_multilabel__{split}.data.json")
    rows = _read_rows(path, "image_id", "objects", "gender")
    registry.warn(registry.get("coco"))
    with registry.get(_NAME).reading(path, "its images do not have as many objects each"):
        table = np.array([row["objects"] for row in rows], dtype=np.int64)
        gender = np.array([row["gender"] for row in rows], dtype=np.int64)
    one_hot = gender.shape == (len(rows), 2) and np.isin(gender, (0, 1)).all() and (gender.sum(axis=1) == 1).all()
    if not one_hot or table.shape != (len(rows), len(names)) or not np.isin(table, (0, 1)).all():
        raise registry.get(_NAME).damaged(path, f"it is not one gender and {len(names)} zeros and ones for each image")
    index = pd.Index([row["image_id"] for row in rows], name="image_id")
    labels = pd.DataFrame(table == 1, columns=names, index=index)
    labels.insert(0, "group", gender[:, 1])
    return labels


def load_coco(split: str, *, size: int, root: Path) -> Samples:
    """COCO 2014 in its official layout, coco/annotations, coco/train2014 and coco/val2014.

    Images whose captions together name one gender (`captioned_gender`): those of train2014, and of val2014 two halves
    by their names. Labels are the 51 `PAPER_OBJECTS` (bool) and `group` (0 man, 1 woman).
    """
    dataset = registry.get("coco")
    registry.warn(dataset)
    part = "train2014" if split == "train" else "val2014"
    captions, instances = (
        dataset.require(root / "coco" / "annotations" / f"{kind}_{part}.json") for kind in ("captions", "instances")
    )
    with dataset.reading(captions, f"with {instances.name} it is not COCO's annotations"):
        said = pd.DataFrame(json.loads(captions.read_text(encoding="utf-8"))["annotations"])
        there = json.loads(instances.read_text(encoding="utf-8"))
        files = pd.Series({image["id"]: image["file_name"] for image in there["images"]})
        names = {each["id"]: each["name"].replace(" ", "_") for each in there["categories"]}
        seen = pd.DataFrame(there["annotations"])
        texts = said.groupby("image_id")["caption"].agg(" ".join)
        has = pd.crosstab(seen["image_id"], seen["category_id"].map(names)) > 0
    labels = has.reindex(index=files.index, columns=list(PAPER_OBJECTS), fill_value=False)
    labels["group"] = pd.Series(captioned_gender(texts), index=texts.index).reindex(files.index, fill_value=-1)
    halves = {"val": 0.5, "test": 0.5}
    ours = np.array([split == "train" or pictures.part(name, halves) == split for name in files])
    labels = labels[ours & (labels["group"] >= 0)]
    paths = [dataset.require(root / "coco" / part / name) for name in files[labels.index]]
    return Samples(images=pictures.photos(dataset, paths, size=size), labels=labels.reset_index(drop=True))


def load_imsitu(split: str, *, size: int, root: Path) -> Samples:
    """The photographs of a split whose agent is worded with one gender, and whose place is clearly indoors or outdoors.

    Labels are a bool column a verb ("verb cooking"), for the verbs that more than five such training images of either
    group have, `indoors` (bool) and `group` (0 man, 1 woman, as annotators worded the agent).
    """
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


def coco_captioned(captioner: str, image_ids: pd.Index) -> pd.DataFrame:
    """As `coco_labels`, by the words of a captioner's captions of these images; `group` -1: no gender, or both."""
    texts = _captions(captioner)
    unknown = image_ids.difference(texts.index)
    if len(unknown):
        raise refused("image without a caption", captioner=captioner, image=unknown[0])
    texts = texts.loc[image_ids]
    labels = captioned_objects(texts, coco_objects()).set_index(image_ids)
    labels.insert(0, "group", captioned_gender(texts))
    return labels


def captioned_gender(captions: Iterable[str]) -> np.ndarray:
    """The gender a caption names, (N,) int: 0 man, 1 woman, or -1 where it names none or both.

    Only whole words count, so that "snowman" and "human" do not; the lists are those of Zhao, Andrews and Xiang
    (2023, appendix C.1). What is found is a captioner's wording, not the gender of anybody.
    """
    words = (set(re.findall("[a-z]+", text.lower())) for text in captions)
    named = [[not own.isdisjoint(registry.WORDS[who]) for who in ("men", "women")] for own in words]
    return np.array([-1 if men == women else int(women) for men, women in named], dtype=np.int64)


def captioned_objects(captions: Iterable[str], names: Sequence[str]) -> pd.DataFrame:
    """Which objects a caption mentions, by whole words: name, plural, or another word that means it.

    Longer terms are read first and words are not used twice: a "hot dog" is no "dog", a "teddy bear" no "bear".

    Of N captions and COCO's names of objects, words joined by "_", it gives N rows with a bool column an object, in the
    order of the names, of which there must be one at least (`BiaslibError`).
    """
    if len(names) == 0:
        raise BiaslibError("no object to look for: give the names of one object or more.")
    terms = {term: name for name in names for term in _terms(name)}
    longest_first = sorted(terms, key=len, reverse=True)
    pattern = re.compile(r"\b(?:" + "|".join(map(re.escape, longest_first)) + r")\b")
    said = [{terms[term] for term in pattern.findall(text.lower())} for text in captions]
    return pd.DataFrame([[name in found for name in names] for found in said], columns=list(names), dtype=bool)


def imsitu_verb_by_gender(split: Literal["train", "val", "test"]) -> pd.DataFrame:
    """Images of each verb, in the order of numbers, by the gender that annotators word: columns verb, man, woman."""
    check_known("imSitu's split", split, pictures.SPLITS)
    names = _names("verb_classification__verb_id.map.json", "id2verb")
    path = _find(f"verb_classification__{split}.data.json")
    table = pd.DataFrame(_read_rows(path, "verb", "gender"))
    registry.warn(registry.get("imsitu"))
    if not (table["verb"].isin(range(len(names))).all() and table["gender"].isin((0, 1)).all()):
        raise registry.get(_NAME).damaged(path, f"a verb is not 0 to {len(names) - 1} or a gender not 0 or 1")
    counts = pd.crosstab(table["verb"], table["gender"]).reindex(range(len(names)), columns=[0, 1], fill_value=0)
    return pd.DataFrame({"verb": names, "man": counts[0], "woman": counts[1]})


def gender_ratios(corpus: Literal["COCO", "imSitu"]) -> pd.DataFrame:
    """Men's share among images with each of COCO's 66 objects or imSitu's 212 verbs, as Zhao et al. (2017) released it.

    Returns columns object or verb; training (in the training labels), before and after (predicted for the development
    images before and after their corpus-level constraints, RBA), in [0, 1].
    """
    item = {"COCO": "object", "imSitu": "verb"}[corpus]
    path = _find(f"{corpus}_gender_ratio_dev_res.csv")
    columns = [item, "training_ratio", "gender_ratio_before_RBA", "gender_ratio_after_RBA"]
    with registry.get(_NAME).reading(path, f"it is no table of {', '.join(columns)}"):
        table = pd.read_csv(path)[columns].set_axis([item, *_RATIOS], axis=1)
        inside = ((table[_RATIOS] >= 0) & (table[_RATIOS] <= 1)).all(axis=None)
    if not inside or table[item].duplicated().any():
        raise registry.get(_NAME).damaged(path, f"a ratio lies outside 0 to 1 or one {item} stands there twice")
    return table


def _captions(captioner: str) -> pd.Series:
    """What one captioner says of each of the 40,504 images of COCO's validation set: text by `image_id`."""
    check_known("a released captioner", captioner, CAPTIONERS)
    path = _find(f"captions_6models_val2014/{captioner}.json")
    rows = _read_rows(path, "image_id", "caption")
    index = pd.Index([row["image_id"] for row in rows], name="image_id")
    if index.has_duplicates:
        raise registry.get(_NAME).damaged(path, "an image has two captions")
    return pd.Series([str(row["caption"]) for row in rows], index=index, name="caption")


def _find(name: str) -> Path:
    return registry.get(_NAME).require(registry.root() / _NAME / name)


def _read_json(path: Path) -> Any:
    with registry.get(_NAME).reading(path, "it is no JSON"):
        return json.loads(path.read_text(encoding="utf-8"))


def _read_rows(path: Path, *fields: str) -> list[dict[str, Any]]:
    """A list of entries that all have these fields."""
    rows = _read_json(path)
    if not (isinstance(rows, list) and rows and all(isinstance(row, dict) and set(fields) <= set(row) for row in rows)):
        raise registry.get(_NAME).damaged(path, f"it is no list of entries with {', '.join(fields)}")
    return rows


def _names(file: str, key: str) -> list[str]:
    """The names numbered 0, 1, ... in a `map.json`."""
    path = _find(file)
    content = _read_json(path)
    with registry.get(_NAME).reading(path, f"its {key} does not number names from 0"):
        return [content[key][str(i)] for i in range(len(content[key]))]


def _terms(name: str) -> set[str]:
    singular = {name.replace("_", " "), *registry.WORDS["other_words"].get(name, ())}
    return singular | {_plural(term) for term in singular}


def _plural(term: str) -> str:
    *before, last = term.split(" ")
    ending = "es" if last.endswith(("s", "x", "ch", "sh")) else "s"
    return " ".join([*before, registry.WORDS["plurals"].get(last, last + ending)])


def _worded(dataset: registry.Dataset, folder: Path, split: str) -> pd.DataFrame:
    """By the photographs' names: verb, group and indoors, of those for which the words decide both."""
    annotations, space = (dataset.require(folder / name) for name in (_IMSITU_FILES[split], "imsitu_space.json"))
    with dataset.reading(annotations, f"with {space.name} it is not imSitu's annotations"):
        nouns = json.loads(space.read_text(encoding="utf-8"))["nouns"]
        images = json.loads(annotations.read_text(encoding="utf-8"))
        rows = {
            name: (image["verb"], *(_words(nouns, image["frames"], role) for role in ("agent", "place")))
            for name, image in images.items()
        }
    table = pd.DataFrame.from_dict(rows, orient="index", columns=["verb", "agent", "place"])
    places = (frozenset(registry.WORDS[where]) for where in ("indoors", "outdoors"))
    inside, outside = (~table["place"].map(words.isdisjoint).astype(bool) for words in places)
    table = table.assign(group=captioned_gender(table["agent"].map(" ".join)), indoors=inside)
    return table.loc[(table["group"] >= 0) & (inside != outside), ["verb", "group", "indoors"]]


def _words(nouns: dict[str, Any], frames: list[dict[str, str]], role: str) -> set[str]:
    """The words of all annotators for a role; an empty noun says that it cannot be seen."""
    return {word for frame in frames if frame.get(role) for word in nouns[frame[role]]["gloss"]}
