"""Classifiers of many attributes of faces: how they are trained, where they look, and what attributes do to them."""

import functools
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from scipy.special import expit
from torch import nn

from biaslib import attribution, datasets, models, training
from biaslib.datasets import celeba
from biaslib.errors import BiaslibError, check_known
from biaslib.metrics import attention_iou, causal_effect, normalized_average_precision, worst_group_accuracy
from biaslib.metrics.groups import matthews_correlation
from biaslib.metrics.localisation import upsample_maps
from biaslib.mitigation.resampling import Subset
from biaslib.recipes import CELEBA, Drawn, Loaded, Recipe, Setup, load, load_many, train
from biaslib.samples import Samples
from biaslib.statistics import crossed_interval, interval
from biaslib.store import Calls, fingerprint, stored
from biaslib.worlds.faces import STRENGTH, Faces

# of each source of faces: the protected attribute, and all attributes
_SOURCES = {"generated": ("Clan", Faces.attributes), **dict.fromkeys(CELEBA, ("Male", celeba.ATTRIBUTES))}
COIN = "Coin"  # an output that can know nothing: it is trained on a label drawn by lot
# forms of a map before it is scored: enlarged to the picture or not, shifted to minimum 0 or not
FORMS = {
    "as Grad-CAM gives it": (False, False),
    "shifted": (False, True),
    "enlarged": (True, False),
    "enlarged and shifted (released)": (True, True),
}


@dataclass(frozen=True, kw_only=True)
class Experiment(Setup):
    """One model and the faces it is trained on; the defaults are those of the book's quick runs."""

    source: str = "generated"  # or "celeba" or "celeba-cropped", as `datasets.load` has them
    attributes: tuple[str, ...] = ()  # that the model tells, one output each; (): all that the source has
    images: int = 6000  # for training, before any are left out; of CelebA's as many as there are, at most
    size: int = 64  # of the faces, in pixels
    strength: float = STRENGTH  # the generated world's dial; its default gives CelebA's correlations
    coin: bool = False  # whether generated faces have `COIN` as one more label, and models as one more output
    confounder: bool = True  # whether eye shadow ties Blond_Hair to the clan in the generated world
    detail: float = 0.0  # of the generated world; 1 draws smiles and frames for few pixels
    only: tuple[str, bool] | None = None  # an attribute and its value: trained on the faces that have it so
    correlation: tuple[str, float] | None = None  # an attribute and its MCC with the group, by `subsample_to_mcc`
    tied_to: str | None = None  # another attribute, with which the correlation is in place of the group
    kept: int | None = None  # how many faces are left where a correlation is asked for; None: as many as can be
    architecture: str = "small"
    weights: str | None = None  # "imagenet", or a file or folder, from the folder of all data sets on
    frozen: int = 0  # how many of the first convolutions keep the weights they start with
    epochs: int = 7
    batch: int = 64
    optimiser: str = "adamw"
    learning_rate: float = 4e-3
    schedule: str = "one_cycle"
    hidden: int | None = None  # width of a layer before the last one, if any
    augmentation: tuple[str, ...] = ("flip",)
    seed: int = 0  # of the initial weights, the order and, in the generated world, the faces

    def __post_init__(self) -> None:
        object.__setattr__(self, "architecture", models.pinned(self.architecture, self.weights))
        check_known("source", self.source, _SOURCES)
        if self.coin and self.source != "generated":
            raise BiaslibError(f"coin is a label of generated faces, not of {self.source}'s.")
        known = _SOURCES[self.source][1]
        named = (self.tied_to, *(pair[0] for pair in (self.only, self.correlation) if pair))
        if unknown := sorted({*self.attributes, *filter(None, named)} - set(known)):
            raise BiaslibError(f"{self.source} has no attribute {', '.join(unknown)}: it has {', '.join(known)}.")

    @property
    def group(self) -> str:
        """The protected attribute."""
        return _SOURCES[self.source][0]

    @property
    def outputs(self) -> tuple[str, ...]:
        """What each output of the model tells."""
        return (self.attributes or _SOURCES[self.source][1]) + (COIN,) * self.coin

    @property
    def recipe(self) -> Recipe:
        """Binary cross-entropy that weighs rare attributes up, as in the paper; by default mirrored at random."""
        config, rows = self.config(outputs=len(self.outputs), loss="binary"), None
        if self.only or self.correlation:
            correlation = self.correlation and (self.correlation[0], self.tied_to or self.group, self.correlation[1])
            rows = Subset(only=self.only, correlation=correlation, kept=self.kept, seed=self.seed)
        return Recipe(data=self.data, targets=self.outputs, training=config, rows=rows)

    @property
    def data(self) -> Drawn | Loaded:
        """The faces, before any are left out."""
        if self.source in CELEBA:
            return Loaded(name=self.source, size=self.size, images=self.images)
        return _drawn(self, self.size, strength=self.strength, kind=_WithCoin if self.coin else Drawn)


@dataclass(frozen=True, kw_only=True)
class _WithCoin(Drawn):
    """Faces with one more label, `COIN`, of which nothing in the picture tells."""

    def table(self) -> pd.DataFrame:
        flips = np.random.default_rng([self.seed, 1]).random(self.images)
        return super().table().assign(**{COIN: flips < 0.5})

    def samples(self, rows: np.ndarray | None = None) -> Samples:
        everyone = super().samples()
        everyone = replace(everyone, labels=everyone.labels.assign(**{COIN: self.table()[COIN].to_numpy()}))
        return everyone if rows is None else everyone.take(rows)

    def fingerprint(self) -> str:
        return fingerprint.of_value([super().fingerprint(), fingerprint.of_module(__name__)])


def _drawn(faces: "Experiment | EvaluationFaces", size: int, *, strength: float, kind: type[Drawn] = Drawn) -> Drawn:
    # what is as usual is not named, so that the dial's models are these
    options = (("confounder", False),) * (not faces.confounder) + (("detail", faces.detail),) * bool(faces.detail)
    return kind(world="faces", images=faces.images, strength=strength, seed=faces.seed, size=size, options=options)


def trained(experiments: Sequence[Experiment]) -> list[nn.Module]:
    """The models, in this order, trained side by side where the store lacks them."""
    return load_many([experiment.recipe for experiment in experiments])


@dataclass(frozen=True, kw_only=True)
class EvaluationFaces:
    """The faces that models are asked about."""

    source: str = "generated"  # or CelebA's two (the test split) or "celebamask-pairs" (faces with masks, of any split)
    images: int = 1000  # of photographs as many as there are, at most
    confounder: bool = True  # of the generated world: whether eye shadow ties Blond_Hair to the clan
    detail: float = 0.0  # of the generated world
    seed: int = 1_000_000  # of the generated faces

    def factors(self) -> pd.DataFrame:
        """The table of the generated faces."""
        if self.source != "generated":
            raise BiaslibError(f"Only generated faces have factors, not those of {self.source}.")
        return _drawn(self, 64, strength=STRENGTH).table()

    def samples(self, *, size: int) -> Samples:
        """The faces with their labels, and with masks of the 14 regions but for CelebA's."""
        if self.source == "generated":
            return _drawn(self, size, strength=STRENGTH).with_masks()
        with warnings.catch_warnings(action="ignore", category=datasets.DatasetWarning):  # their fingerprint gives it
            return self.photographs(size).samples()

    def photographs(self, size: int) -> Loaded:
        """The faces, where they are photographs."""
        return Loaded(name=self.source, size=size, images=self.images, split="test")


@dataclass(frozen=True)
class _Attention:
    """What one model says of N faces, and where it looks."""

    experiment: Experiment
    attributes: tuple[str, ...]  # its T outputs
    labels: pd.DataFrame  # of the faces: one bool column an attribute
    logits: np.ndarray  # (N, T)
    maps: np.ndarray  # (N, T, h, w) Grad-CAM of each |logit|, as in the paper

    def of(self, attribute: str) -> int:
        """The number of an attribute's output."""
        check_known("an attribute that this model tells", attribute, self.attributes)
        return self.attributes.index(attribute)

    @property
    def predicted(self) -> pd.DataFrame:
        """Whether each logit is positive: N rows, one bool column an attribute."""
        return pd.DataFrame(self.logits > 0, columns=list(self.attributes))

    @property
    def scores(self) -> np.ndarray:
        """(N, T) Attention-IoU of each attribute's map with the group's; NaN where a map is empty."""
        return self.scored()

    def scored(self, *, enlarged: bool = False, shifted: bool = False) -> np.ndarray:
        """`scores` of the maps in one of the `FORMS`; scaled to maximum 1, as released, they would score the same."""
        group, size, parts = self.of(self.experiment.group), self.experiment.size, []
        for start in range(0, len(self.maps), 16):  # enlarged, all would fill the memory
            maps = self.maps[start : start + 16]
            maps = upsample_maps(maps, size, size) if enlarged else maps
            maps = maps - maps.min((-2, -1), keepdims=True) if shifted else maps
            parts.append(attention_iou(maps, maps[:, [group]]))
        return np.concatenate(parts)

    def average_map(self, attribute: str, rows: np.ndarray | None = None) -> np.ndarray:
        """(h, w) mean of the maps of an attribute, each as shares, over the rows given by (N,) bool; sums to 1."""
        maps = self.maps[slice(None) if rows is None else rows, self.of(attribute)]
        maps = maps[maps.any((1, 2))]
        return (maps / maps.sum((1, 2), keepdims=True)).mean(0) if len(maps) else np.full(maps.shape[1:], np.nan)


def planned(experiments: Sequence[Experiment], evaluation: EvaluationFaces, causes: Sequence[str] = ()) -> list[Calls]:
    """What `attention_of` asks of the store, and then `effects` of these causes; of photographs without their hash."""
    maps = _maps.calls([(experiment, evaluation, "") for experiment in experiments])
    return [maps, _effects.calls([(tuple(experiments), evaluation, cause) for cause in causes])]


def attention_of(experiments: Sequence[Experiment], evaluation: EvaluationFaces) -> list[_Attention]:
    """What each model says of the same faces and where it looks; models are trained where the store lacks them."""
    train.many([experiment.recipe for experiment in experiments])
    # a fingerprint of the photographs asked about, which others replace
    photographs, sizes = evaluation.source != "generated", {experiment.size for experiment in experiments}
    pictures = {size: evaluation.photographs(size).fingerprint() if photographs else "" for size in sizes}
    results = _maps.many([(experiment, evaluation, pictures[experiment.size]) for experiment in experiments])
    labels = {size: evaluation.samples(size=size).labels for size in pictures}
    return [
        _Attention(experiment, experiment.outputs, labels[experiment.size], arrays["logits"], arrays["maps"])
        for experiment, arrays in zip(experiments, results, strict=True)
    ]


def effects(
    experiments: Sequence[Experiment], evaluation: EvaluationFaces, causes: Sequence[str]
) -> dict[str, np.ndarray]:
    """True effects (models, N, T) on each answer by binary cause: the probability with it less that without."""
    if len({(experiment.size, experiment.outputs) for experiment in experiments}) != 1:
        raise BiaslibError("Effects are measured on models of one size with the same outputs: ask for each apart.")
    train.many([experiment.recipe for experiment in experiments])
    results = planned(experiments, evaluation, causes)[1].results()
    return dict(zip(causes, results, strict=True))


def per_attribute(attended: Sequence[_Attention], *, seed: int = 0) -> pd.DataFrame:
    """Every measure of the paper's Figures 2, 3 and 10, a row an attribute (Serianni et al. 2025).

    Columns with 95 % intervals: `score`, the heatmap score with the group's map, over models and faces; over models,
    `mcc` of its predictions with those of the group, `absolute_mcc` (the distance of the mean from 0),
    `worst_group_accuracy` of attribute x group, `average_precision` (AP_N) and `balanced_accuracy`. Counts: `models`;
    `maps` with a score; `constant`, models with one answer for every face. NaN: the group with itself, missing labels.
    """
    first, group = attended[0], attended[0].experiment.group
    if any(model.attributes != first.attributes or not model.labels.equals(first.labels) for model in attended):
        raise BiaslibError("The models tell different attributes, or of different faces: measure each kind apart.")
    scores = np.stack([model.scores for model in attended])  # (models, faces, attributes)
    logits = np.stack([model.logits for model in attended])
    of_group = logits[..., first.of(group)] > 0
    positives = [first.labels[name].sum() for name in first.attributes if name in first.labels]
    n_positive = float(np.mean(positives)) if np.any(positives) else np.nan

    over_models = functools.partial(interval, seed=seed, bounds=(0.0, 1.0))
    rows = []
    for at, name in enumerate(first.attributes):
        predicted, other = logits[..., at] > 0, np.nan if name == group else 1.0
        score, mcc = scores[..., at] * other, matthews_correlation(predicted, of_group) * other
        side = -1.0 if np.nansum(mcc) < 0 else 1.0
        against_labels = _against_labels(first, name, logits[..., at], n_positive)
        measures = {
            "score": crossed_interval(score, seed=seed, bounds=(0.0, 1.0)),
            "mcc": over_models(mcc, bounds=(-1.0, 1.0)),
            "absolute_mcc": over_models(side * mcc),
            **{measure: over_models(values) for measure, values in against_labels.items()},
            "models": len(attended),
            "maps": int(np.isfinite(score).sum()),
            "constant": int((predicted == predicted[:, :1]).all(axis=1).sum()),
        }
        rows.append(measures)
    return pd.DataFrame(rows, index=pd.Index(first.attributes, name="attribute"))


def each_model(attended: Sequence[_Attention], effect: np.ndarray) -> pd.DataFrame:
    """What each model says, without intervals: a row for each of the `FORMS`, models and attributes but the group.

    Columns beside `form`, `model` and `attribute`: the mean `score`; `mcc`, that of the answers with the group's,
    without sign, NaN where all answers are alike; `effect`, that of the group on the answer, (models, N, T) as
    `effects` gives it, its mean without sign; `balanced_accuracy`, NaN without labels.
    """
    tables = []
    for number, (model, moved) in enumerate(zip(attended, np.abs(effect.mean(axis=1)), strict=True)):
        said, group = model.logits > 0, model.experiment.group
        pairs = zip(model.attributes, model.logits.T, strict=True)
        right = [_against_labels(model, name, logits[None], 1.0)["balanced_accuracy"][0] for name, logits in pairs]
        mcc = np.abs(matthews_correlation(said.T, said[:, model.of(group)]))
        table = pd.DataFrame({"attribute": model.attributes, "mcc": mcc, "effect": moved, "balanced_accuracy": right})
        for form, (enlarged, shifted) in FORMS.items():
            scores = np.ma.masked_invalid(model.scored(enlarged=enlarged, shifted=shifted)).mean(axis=0).filled(np.nan)
            tables.append(table.assign(score=scores, form=form, model=number)[table["attribute"] != group])
    return pd.concat(tables, ignore_index=True)


@stored("attribute-maps", passes=lambda _, evaluation, pictures: (evaluation.images, 2.3))
def _maps(experiment: Experiment, evaluation: EvaluationFaces, pictures: str) -> dict[str, np.ndarray]:
    """`logits` (N, T) and `maps` (N, T, h, w) of one model; the fingerprint of the pictures is for the store alone."""
    model, images = load(experiment.recipe), evaluation.samples(size=experiment.size).images
    maps = attribution.grad_cam(model, images, np.arange(len(experiment.outputs)), absolute=True)
    return {"logits": training.predict(model, images), "maps": maps.numpy()}


@stored("attribute-effects", passes=lambda models, evaluation, cause: (1.5 * evaluation.images, len(models)))
def _effects(experiments: tuple[Experiment, ...], evaluation: EvaluationFaces, cause: str) -> np.ndarray:
    effect = causal_effect(
        functools.partial(_probabilities, experiments), Faces(), evaluation.factors(), cue=cause,
        size=experiments[0].size, as_drawn=_as_drawn(experiments, evaluation),
    )  # fmt: skip
    return np.moveaxis(np.asarray(effect, np.float32), 2, 1)


@functools.lru_cache(maxsize=2)
def _as_drawn(experiments: tuple[Experiment, ...], evaluation: EvaluationFaces) -> np.ndarray:
    """Kept in a worker's memory for the next cause."""
    return _probabilities(experiments, evaluation.samples(size=experiments[0].size).images)


def _probabilities(experiments: tuple[Experiment, ...], images: np.ndarray) -> np.ndarray:
    """(models, T, N)."""
    return np.stack([expit(training.predict(load(experiment.recipe), images)).T for experiment in experiments])


def _against_labels(model: _Attention, name: str, logits: np.ndarray, n_positive: float) -> dict[str, np.ndarray]:
    """Worst-group accuracy, AP_N and balanced accuracy of each model (models,); NaN where labels do not tell."""
    nothing, group = np.full(len(logits), np.nan), model.experiment.group
    measures = dict.fromkeys(("worst_group_accuracy", "average_precision", "balanced_accuracy"), nothing)
    if name in model.labels and group in model.labels:
        truth, member = model.labels[name].to_numpy(bool), model.labels[group].to_numpy(bool)
        correct = (logits > 0) == truth
        measures["worst_group_accuracy"] = worst_group_accuracy(correct, 2 * truth + member)
        if 0 < truth.sum() < len(truth):
            measures["average_precision"] = normalized_average_precision(truth, logits, n_positive)
            measures["balanced_accuracy"] = (correct[:, truth].mean(axis=1) + correct[:, ~truth].mean(axis=1)) / 2
    return measures
