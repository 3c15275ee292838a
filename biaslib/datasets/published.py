"""What the authors of Attention-IoU (Serianni et al., CVPR 2025) released: 0/1 predictions and score tables.

Their folder is `attention-iou` under the root of all datasets. A score table is a file of means over models followed
by as many population standard deviations; the score the paper calls Attention-IoU is the one whose files are named
`element_wise` (the other three are earlier candidates the paper does not use). Every function raises a `BiaslibError`
for a missing or a damaged file, and for a bias or an attribute that was not released.
"""

import contextlib
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd

from biaslib.datasets import celeba, registry
from biaslib.errors import BiaslibError, check_known

Backbone = Literal["resnet", "efficientnet"]
Networks = Literal["resnet", "efficientnet", "positive", "negative"]

_NAME = "attention-iou"  # of the data set, and its folder
PROTECTED = "Male"
_N_TEST = 4500
_N_BIRDS = 5794
BIASES = (50, 60, 70, 80, 90, 95, 100)

# target and Male as annotated
_GROUPS = ("TT", "TF", "FT", "FF", "all")

_REGIONS = ("background", *(region for region in celeba.REGIONS if region != "background"))

# the region that is the attribute's own (Figs. 2 and 10)
OWN_REGION = {name: region for region, names in registry.WORDS["own_region"].items() for name in names}

# of each kind of networks for faces: what its files' names begin with, and how many there are
_ONE_SIDED = "one_sided/evaluations/evaluations-celeb_all_one-sided-{}-Eyeglasses_resnet50_extended"
_PREDICTIONS = {
    "resnet": ("evaluations/evaluations-celeb_all_resnet50_extended", 20),
    "efficientnet": ("efficientnet/evaluations/evaluations-celeb_all_efficientnet", 10),
    "positive": (_ONE_SIDED.format("positive"), 10),
    "negative": (_ONE_SIDED.format("negative"), 10),
}

_SCORE = "GradCAM_element_wise_normalized_averaged_scores.csv"
_MALE = f"{PROTECTED}_{_SCORE}"


def annotated_labels(part: Literal["test", "training", "trained on"] = "test") -> pd.DataFrame:
    """The 40 attributes as annotated in CelebA: of the 4,500 test images in the order of the predictions, or others.

    "training" are CelebAMask-HQ's 25,500 other images, "trained on" the 21,000 (70 %) that the authors trained on.
    """
    index, rows = _join()
    if part == "training":
        index = np.setdiff1d(np.arange(len(rows)), index)
    elif part == "trained on":
        index = celeba.hq_numbers(len(rows), "train")
    return celeba.attributes(registry.root()).iloc[rows[index]].reset_index(drop=True)


def images_in_celebas_training() -> int:
    """How many of the 4,500 test images belong to CelebA's own training split."""
    index, rows = _join()
    splits = celeba.partition(registry.root(), len(celeba.attributes(registry.root())))
    return int((splits[rows[index]] == 0).sum())


def predictions(networks: Networks = "resnet") -> np.ndarray:
    """The 0/1 predictions of every model for every test image and attribute.

    Returns (models, 4500, 40) bool, attributes in CelebA's order: of 20 ResNet-50, of 10 EfficientNetV2-S, or of 10
    ResNet-50 that were trained on faces with Eyeglasses only ("positive") or without only ("negative"; Fig. 4).
    """
    check_known("networks", networks, _PREDICTIONS)
    stem, models = _PREDICTIONS[networks]
    files = [registry.get(_NAME).require(_results() / f"{stem}_{model}.csv") for model in range(models)]
    return np.stack([_zeros_and_ones(file, rows=_N_TEST, columns=40) for file in files])


def waterbirds_predictions(bias: int, backbone: Backbone = "resnet") -> np.ndarray:
    """The predicted bird (True: waterbird) of every released model for CUB's test images.

    The backgrounds these images were given are not released and differ from bias to bias, so accuracies by group cannot
    be computed from them; accuracies by bird can (see `waterbirds.cub_test_labels`). Returns (models, 5794) bool: up to
    20 ResNet-18 (19 at 90 %: the authors left one out) or 10 EfficientNetV2-S.
    """
    check_known("a released bias of Waterbirds, in %,", bias, BIASES)
    folder = _of_backbone(backbone, "waterbirds") / "evaluations"
    stem = f"evaluations-waterbirds{bias}_{'resnet18' if backbone == 'resnet' else backbone}"
    files = sorted(folder.glob(f"{stem}_*.csv"), key=lambda path: int(path.stem.rpartition("_")[2]))
    if not files:
        registry.get(_NAME).require(folder / f"{stem}_0.csv")
    return np.stack([_zeros_and_ones(file, rows=_N_BIRDS, columns=1)[:, 0] for file in files])


def heatmap_scores(backbone: Backbone = "resnet") -> pd.DataFrame:
    """Attention-IoU between each attribute's map and Male's (Figs. 3 left and 13).

    Returns columns attribute, group (target and Male as annotated: "TT", "TF", "FT", "FF", or "all"), mean and sd over
    models, in [0, 1]; NaN where a group has no image.
    """
    folder = _of_backbone(backbone, "heatmap")
    tables = [_by_group(folder / f"Heatmap-all_{name}_{_MALE}", attribute=name) for name in celeba.ATTRIBUTES]
    return pd.concat(tables, ignore_index=True)


def mask_scores(backbone: Backbone = "resnet") -> pd.DataFrame:
    """Attention-IoU between each attribute's map and the mask of each region, over all images (Figs. 2, 3 right, 10).

    An image without the region counts as 0. Returns columns attribute, region, mean and sd over models, in [0, 1].
    """
    folder = _of_backbone(backbone, "mask")
    tables = [_by_region(folder / f"Masks-all_{name}_{_MALE}", attribute=name) for name in celeba.ATTRIBUTES]
    return pd.concat(tables, ignore_index=True)


def uniform_bar() -> pd.DataFrame:
    """The scores that Fig. 3 (right) draws as "Uniform Attention": columns region and mean."""
    path = _results() / "mask" / "uniform_attention" / f"Masks-all_Smiling_{_MALE.replace('_averaged', '')}"
    return pd.DataFrame({"region": _REGIONS, "mean": _table(path, rows=30, columns=len(_REGIONS))[4]})


def subgroup_scores(attribute: str) -> pd.DataFrame:
    """Heatmap scores of "Blond_Hair" or "Wavy_Hair" after subsampling (Fig. 5): target_mcc (41), group, mean, sd."""
    check_known("the attribute that released training sets vary", attribute, ("Blond_Hair", "Wavy_Hair"))
    folder = _results() / "subgroups"
    # a file's name holds the list ['Blond_Hair', 'Male'] as Python prints it
    tail = f"['{attribute}', '{PROTECTED}']_{attribute}_{_MALE}"
    weakest = 10 if attribute == "Blond_Hair" else 11
    targets = [-hundredths / 100 for hundredths in range(weakest, weakest + 41)]
    tables = [_by_group(folder / f"Heatmap-all_mcc{mcc}{tail}", target_mcc=mcc) for mcc in targets]
    return pd.concat(tables, ignore_index=True).sort_values("target_mcc", ignore_index=True, kind="stable")


def one_sided_scores() -> pd.DataFrame:
    """Scores of models trained only on images with, or only on images without, Eyeglasses (Fig. 4).

    The paper says that they classify Male. Their released predictions have all 40 attributes, so they are models of 40
    attributes, like the others. Returns columns trained_on ("positive": with Eyeglasses), region, mean, sd; region
    "heatmap" is the score against Male's map, the others are mask scores of the Eyeglasses map.
    """
    folder = _results() / "one_sided"
    tables = []
    for side in ("positive", "negative"):
        stem = f"all_one-sided-{side}-Eyeglasses_Eyeglasses_{_MALE}"
        heat = _by_group(folder / f"Heatmap-{stem}", trained_on=side).query("group == 'all'")
        tables.append(heat.rename(columns={"group": "region"}).assign(region="heatmap"))
        tables.append(_by_region(folder / f"Masks-{stem}", trained_on=side))
    return pd.concat(tables, ignore_index=True)


def waterbirds_scores(backbone: Backbone = "resnet") -> pd.DataFrame:
    """Mask scores, in [0, 1], of bird and background by bias in percent (Figs. 7 and 12): bias, region, mean, sd."""
    folder, rows = _of_backbone(backbone, "waterbirds"), []
    for bias in BIASES:
        # columns: landbirds, waterbirds, all; means, then deviations
        values = _table(folder / f"Masks-waterbirds{bias}_{_SCORE}", rows=2, columns=6)
        rows += [(bias, region, *values[row, [2, 5]]) for row, region in ((1, "bird"), (0, "background"))]
    return pd.DataFrame(rows, columns=["bias", "region", "mean", "sd"])


def waterbirds_unused_scores() -> pd.DataFrame:
    """Bird scores in files without `Masks-` in their names, lower and read by no released figure: bias, mean, sd."""
    folder = _results() / "waterbirds"
    tables = {bias: _table(folder / f"waterbirds{bias}_{_SCORE}", rows=6, columns=1)[:, 0] for bias in BIASES}
    return pd.DataFrame([(bias, v[2], v[5]) for bias, v in tables.items()], columns=["bias", "mean", "sd"])


def read(file: str) -> pd.DataFrame:
    """A table of data/published: numbers and words that authors print or type in and that stand in no result file."""
    path = registry.CHECKOUT / "data" / "published" / file
    if not path.exists():
        raise BiaslibError(f"{path} is missing: use biaslib from a checkout of its repository.")
    return pd.read_csv(path, keep_default_na=False)


def printed_values() -> dict[str, pd.DataFrame]:
    """Numbers typed into the authors' figure notebook that stand in no result file.

    Returns tables with the columns attribute (or bias), mean and sd: `average_precision`,
    `normalized_average_precision`, `worst_group_accuracy` (CelebA), `waterbirds_worst_group_accuracy`,
    `waterbirds_worst_group_accuracy_efficientnet`, `waterbirds_average_precision`.
    """
    tables = {}
    for name, rows in read("attention-iou-notebook.csv").groupby("number", sort=False):
        biases = str(name).startswith("waterbirds")
        table = rows[["of", "mean", "sd"]].reset_index(drop=True).astype({"of": int} if biases else {})
        tables[str(name)] = table.rename(columns={"of": "bias" if biases else "attribute"})
    return tables


def _results() -> Path:
    return registry.get(_NAME).require(registry.root() / _NAME / "results")


def _of_backbone(backbone: Backbone, resnets: str) -> Path:
    """The folder of a kind of results; those of EfficientNets are together."""
    return _results() / (resnets if backbone == "resnet" else "efficientnet")


def _join() -> tuple[np.ndarray, np.ndarray]:
    """The test images by their numbers in CelebAMask-HQ, and which row of CelebA's attributes each of its images is."""
    path = registry.root() / _NAME / "test_idx_sorted.npy"
    with registry.get(_NAME).reading(path):
        index = np.load(path, allow_pickle=False)
    if index.shape != (_N_TEST,) or not np.issubdtype(index.dtype, np.integer) or index.min() < 0:
        raise registry.get(_NAME).damaged(path, f"it is not {_N_TEST} row numbers")
    rows = celeba.hq_to_celeba(registry.root())
    if index.max() >= len(rows):
        raise registry.get(_NAME).damaged(path, "an index is too large")
    return index, rows


def _zeros_and_ones(path: Path, *, rows: int, columns: int) -> np.ndarray:
    values = np.empty((0, 0))
    with contextlib.suppress(ValueError):  # no table at all
        values = pd.read_csv(path, header=None).to_numpy()
    if values.shape != (rows, columns) or not np.isin(values, (0, 1)).all():
        raise registry.get(_NAME).damaged(path, f"it is not {rows} lines of {columns} zeros and ones")
    return values == 1


def _table(path: Path, *, rows: int, columns: int) -> np.ndarray:
    with registry.get(_NAME).reading(path):
        values = np.loadtxt(path, delimiter=",", ndmin=2)
    if values.shape != (rows, columns):
        raise registry.get(_NAME).damaged(path, f"it has {values.shape} numbers instead of {(rows, columns)}")
    return values


def _by_group(path: Path, **column: object) -> pd.DataFrame:
    """A file of one number a row, five groups' means and their deviations, under a column that says whose."""
    values = _table(path, rows=2 * len(_GROUPS), columns=1)[:, 0]
    return pd.DataFrame({**column, "group": _GROUPS, "mean": values[:5], "sd": values[5:]})


def _by_region(path: Path, **column: object) -> pd.DataFrame:
    """The rows for all images of a file with a column for each region, under a column that says whose."""
    values = _table(path, rows=2 * len(_GROUPS), columns=len(_REGIONS))
    return pd.DataFrame({**column, "region": _REGIONS, "mean": values[4], "sd": values[9]})
