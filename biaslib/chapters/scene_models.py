"""Joint classifiers of attributes and a group, with and without mitigation, through the store."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, Literal, get_args

import numpy as np
import pandas as pd
import torch
from scipy.special import log_softmax
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn

from biaslib import training
from biaslib.datasets import coco_imsitu, registry
from biaslib.errors import BiaslibError
from biaslib.gan.counterfactuals import features
from biaslib.metrics import Labels, calibrated_thresholds
from biaslib.mitigation import Adversarial, Constrained, DomainIndependent, corpus_constraints, domain_scores
from biaslib.mitigation.objectives import AdversarialLoss
from biaslib.mitigation.resampling import Resampled
from biaslib.recipes import CRITERION, Data, Drawn, Loaded, Recipe, Setup, load, train
from biaslib.samples import Samples
from biaslib.store import Calls, stored
from biaslib.training.objectives import Joint, Objective
from biaslib.worlds.scenes import OBJECTS, Scenes

Training = Literal["original", "oversampling", "data_repair", "adversarial", "domain_independent"]
_Split = Literal["train", "validation", "test"]
_Arrays = dict[str, np.ndarray]

HAIR: Final = ("Black_Hair", "Blond_Hair", "Brown_Hair")
HAIR_ATTRIBUTES: Final = tuple(registry.WORDS["hair_attributes"])


@dataclass(frozen=True, kw_only=True)
class JointSetup(Setup):
    """One model; a subclass says which images it is trained and tested on."""

    group: ClassVar[str]  # name of the group's label
    further: ClassVar[dict[str, Any]] = {}  # what else its training configuration says

    # as it is ("original"), with training images drawn again or left out, or with another objective
    training: Training = "original"
    groups: int = 2  # number of groups
    size: int = 64  # of the pictures, in pixels
    seed: int = 0  # of the initial weights and the order
    epochs: int = 10  # over as many images as there are; resampled sets get as many steps as the original one
    batch: int = 64
    architecture: str = "small"
    weights: str | None = None  # "imagenet", or a file or folder, from the folder of all data sets on
    optimiser: str = "adamw"
    learning_rate: float = 4e-3
    eps: float = 0.025  # how balanced oversampling makes every single attribute
    adversary_weight: float = 0.2  # of the reversed gradient

    @property
    def attributes(self) -> tuple[str, ...]:
        """Names of their labels."""
        raise NotImplementedError

    def data(self, split: _Split) -> Data:
        """The images of a split, before any resampling."""
        raise NotImplementedError

    @property
    def shown(self) -> int:
        """About how many images a model is shown after its training."""
        raise NotImplementedError

    @functools.cached_property
    def recipe(self) -> Recipe:
        """For about as many steps whatever the number of training rows."""
        rows, epochs, data, objective = None, self.epochs, self.data("train"), self.objective()
        if self.training in ("oversampling", "data_repair"):
            eps = self.eps if self.training == "oversampling" else None
            rows = Resampled(attributes=self.attributes, group=self.group, eps=eps, seed=self.seed)
            table = data.table()
            epochs = max(1, round(epochs * len(table) / len(rows.chosen(table))))
        config = self.config(outputs=objective.outputs, epochs=epochs, **self.further)
        targets = (*self.attributes, self.group)
        return Recipe(data=data, targets=targets, training=config, objective=objective, rows=rows)

    def objective(self) -> Objective:
        """Attributes and group at once, or what the mitigation method trains for."""
        match self.training:
            case "adversarial":
                return Adversarial(attributes=len(self.attributes), groups=self.groups, weight=self.adversary_weight)
            case "domain_independent":
                return DomainIndependent(attributes=len(self.attributes), groups=self.groups)
            case _:
                return Joint(attributes=len(self.attributes), groups=self.groups)


@dataclass(frozen=True, kw_only=True)
class SceneSetup(JointSetup):
    """One model of objects and maker in the world of scenes, and the pictures it is trained and tested on."""

    attributes = OBJECTS
    group = Scenes.target
    further: ClassVar[dict[str, Any]] = {"augmentation": ()}

    strength: float = 0.5  # the dial of the cue and of all other associations, in [0, 1]
    images: int = 3000  # for training, before any resampling
    validation_images: int = 1000  # for the thresholds; never more than for the test
    test_images: int = 2000

    def data(self, split: _Split) -> Drawn:
        """The pictures of a split, before any resampling; the seed is theirs, too."""
        n = self._counts[split]
        seed = self.seed + {"train": 0, "validation": 10_000, "test": 20_000}[split]
        # two makers are not named, so that the dial's models are these
        makers = (("groups", self.groups),) if self.groups != 2 else ()
        return Drawn(world="scenes", images=n, strength=self.strength, seed=seed, size=self.size, made_with=makers)

    @property
    def shown(self) -> int:
        """Those of all splits."""
        return sum(self._counts.values())

    @property
    def _counts(self) -> dict[_Split, int]:
        validation = min(self.validation_images, self.test_images)
        return {"train": self.images, "validation": validation, "test": self.test_images}


@dataclass(frozen=True, kw_only=True)
class HairSetup(JointSetup):
    """A joint model of 23 attributes and hair colour, of the faces for which one of three hair colours is annotated."""

    attributes = HAIR_ATTRIBUTES
    group = "hair"
    further: ClassVar[dict[str, Any]] = {"precision": "float32"}  # mirrored at random, as in the paper
    shown = 202_599  # those of all splits, of any hair colour

    groups: int = len(HAIR)

    def data(self, split: str) -> Loaded:
        """The faces of a split with one hair colour."""
        return _HairFaces(name="celeba", size=self.size, split={"validation": "val"}.get(split, split))


@dataclass(frozen=True, kw_only=True)
class PeopleSetup(JointSetup):
    """A joint model of what photographs show and the gender that words about them name, where a user has them.

    COCO's 51 objects with the gender of captions; or imSitu's verbs, and indoors or not, with the agent's gender.
    """

    group = "group"
    shown = 40_000  # about a third of all photographs

    source: str = "coco"  # or "imsitu"

    @functools.cached_property
    def attributes(self) -> tuple[str, ...]:
        """The objects; or the verbs, read from imSitu's files, and `indoors`."""
        if self.source == "coco":  # known before a photograph is decoded
            return coco_imsitu.PAPER_OBJECTS
        return tuple(self.data("train").table().columns.drop(self.group))

    def data(self, split: str) -> Loaded:
        """The photographs of a split for which words name one gender."""
        return Loaded(name=self.source, size=self.size, split={"validation": "val"}.get(split, split))


class _HairFaces(Loaded):
    """Faces for which exactly one of three hair colours is annotated, with the attributes and the hair colour."""

    def table(self) -> pd.DataFrame:
        return self._labels().reset_index(drop=True)

    def samples(self, rows: np.ndarray | None = None) -> Samples:
        labels = self._labels() if rows is None else self._labels().iloc[rows]
        faces = super().samples(labels.index.to_numpy())
        return Samples(faces.images, labels.reset_index(drop=True), faces.masks)

    def _labels(self) -> pd.DataFrame:
        """Indexed by the place among all faces."""
        table = super().table()
        return table.assign(hair=hair_colour(table))[[*HAIR_ATTRIBUTES, "hair"]].query("hair >= 0")


def hair_colour(table: pd.DataFrame) -> np.ndarray:
    """Paper B's groups by the columns `HAIR`, (N,) int: black 0, blond 1, brown 2; -1 for none or several of them."""
    hair = table[list(HAIR)].to_numpy()
    return np.where(hair.sum(axis=1) == 1, hair.argmax(axis=1), -1)


@dataclass(frozen=True)
class Outcome:
    """What a model was shown and what it says; its logits are in the order of its objective."""

    setup: JointSetup
    original: Labels  # of the training images before any resampling
    train: Labels  # of the training rows it was given
    validation: Labels
    test: Labels
    validation_logits: np.ndarray
    test_logits: np.ndarray
    probe: float  # accuracy, on test images, of a fresh linear classifier of the group on the averaged last map
    adversary: float  # the same of the adversary that the model was trained against; NaN where there was none

    def attribute_scores(self, *, rule: str = "conditional") -> tuple[np.ndarray, np.ndarray]:
        """Scores (N, A) of the attributes in validation and test; the rule is for domain-independent models only."""
        width = len(self.setup.attributes)
        if self.setup.training != "domain_independent":
            return self.validation_logits[:, :width], self.test_logits[:, :width]
        parts = ((self.validation_logits, self.validation), (self.test_logits, self.test))
        validation, test = (
            domain_scores(logits, rule, n_groups=self.setup.groups, groups=labels.groups) for logits, labels in parts
        )
        return validation, test

    def group_scores(self) -> np.ndarray:
        """(N, G) log-probabilities of the groups of the test images."""
        if not isinstance(self.setup.objective(), Joint):
            raise BiaslibError(f"{self.setup.training} training does not predict the group: give it from elsewhere.")
        scores: np.ndarray = log_softmax(self.test_logits[:, len(self.setup.attributes) :].astype(float), axis=1)
        return scores

    def predicted(self, *, groups: np.ndarray | None = None, rule: str = "conditional") -> Labels:
        """What it says of the test images: attributes at calibrated thresholds, the likeliest group or `groups`."""
        groups = self.group_scores().argmax(axis=1) if groups is None else groups
        return Labels(self._above_thresholds(rule) > 0, groups, self.setup.attributes)

    def constrained(self, *, margin: float = 0.05) -> Constrained:
        """RBA on the model's own predictions for the test images, with the ratios of its training rows."""
        return corpus_constraints(self._above_thresholds("conditional"), self.group_scores(), self.train, margin=margin)

    def _above_thresholds(self, rule: str) -> np.ndarray:
        """(N, A) scores of the attributes in test less the thresholds that are calibrated on validation."""
        validation, test = self.attribute_scores(rule=rule)
        return np.asarray(test - calibrated_thresholds(self.validation.attributes, validation))


def planned(setups: Sequence[JointSetup], sizes: Sequence[float] = ()) -> list[Calls]:
    """What `outcomes` asks of the store, and then `at_sizes` of these sizes."""
    return [_answers.calls(setups), _resized_logits.calls([(setup, float(size)) for setup in setups for size in sizes])]


def outcomes(setups: Sequence[JointSetup]) -> list[Outcome]:
    """Trains what the store lacks, side by side where cores or a cluster allow, and returns all in order."""
    train.many([setup.recipe for setup in setups])
    return [_outcome(setup, arrays) for setup, arrays in zip(setups, planned(setups)[0].results(), strict=True)]


@stored("joint", passes=lambda setup: (setup.shown, 1.5))
def _answers(setup: JointSetup) -> _Arrays:
    """Labels (N, A + 1), the group last, of each split, the rows trained on, logits, and accuracies of the group."""
    recipe, names = setup.recipe, [*setup.attributes, setup.group]
    model = load(recipe)
    train_set, validation, test = samples = [setup.data(split).samples() for split in get_args(_Split)]
    fooled = isinstance(recipe.objective, Adversarial)
    return {
        **{split: each.labels[names].to_numpy(np.int8) for split, each in zip(get_args(_Split), samples, strict=True)},
        "rows": np.arange(len(train_set)) if recipe.rows is None else recipe.rows.chosen(recipe.data.table()),
        "validation_logits": training.predict(model, validation.images),
        "test_logits": training.predict(model, test.images),
        "probe": np.array(_probe(model, train_set, test, setup.group)),
        "adversary": np.array(_adversary_accuracy(recipe, model, test, setup.group) if fooled else np.nan),
    }


def at_sizes(outcomes: Sequence[Outcome], sizes: Sequence[float]) -> list[list[Labels]]:
    """For each model a prediction for each height of all robots, at the thresholds of the pictures as they are."""
    logits = iter(planned([outcome.setup for outcome in outcomes], sizes)[1].results())
    return [[replace(outcome, test_logits=next(logits)).predicted() for _ in sizes] for outcome in outcomes]


@stored("scenes-resized", passes=lambda setup, robot_size: (setup.test_images, 1))
def _resized_logits(setup: SceneSetup, robot_size: float) -> np.ndarray:
    """Logits for the test pictures of a set-up with all robots of that size."""
    test = setup.data("test")
    table = test.table().assign(robot_size=robot_size)
    pictures = test.get_world().render(table, size=test.size, regions=())
    return training.predict(load(setup.recipe), pictures.images)


def _probe(model: nn.Module, train: Samples, test: Samples, group: str) -> float:
    """How well the group can still be read from the averaged last map."""
    probe = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    probe.fit(features(model, train.images), train.labels[group])
    return float(probe.score(features(model, test.images), test.labels[group]))


@torch.inference_mode()
def _adversary_accuracy(recipe: Recipe, model: nn.Module, test: Samples, group: str) -> float:
    seen = torch.from_numpy(features(model, test.images))
    state = {name.removeprefix(CRITERION): value for name, value in train(recipe).items() if CRITERION in name}
    weights, hidden = state["class_weight"], Adversarial.hidden
    criterion = AdversarialLoss(seen.shape[1], len(weights), weight=0.0, hidden=hidden, class_weight=weights)
    criterion.load_state_dict(state)
    guesses = criterion.eval().adversary(seen).argmax(1).numpy()
    return float((guesses == test.labels[group]).mean())


def _outcome(setup: JointSetup, arrays: _Arrays) -> Outcome:
    shown = {name: arrays[name] for name in ("train", "validation", "test")}
    shown |= {"original": shown["train"], "train": shown["train"][arrays["rows"]]}
    said: dict[str, Any] = {name: arrays[name] for name in ("validation_logits", "test_logits")}
    said |= {name: Labels(rows[:, :-1], rows[:, -1], setup.attributes) for name, rows in shown.items()}
    return Outcome(setup=setup, **said, probe=float(arrays["probe"]), adversary=float(arrays["adversary"]))
