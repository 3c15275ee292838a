"""Mitigation methods side by side in the world of scenes: what each model says, and what the metrics say of it."""

from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pandas as pd
from sklearn.metrics import f1_score

from biaslib.chapters.scene_models import (
    Outcome,
    SceneSetup,
    Training,
    constrained,
    maker_scores,
    object_scores,
    outcomes,
)
from biaslib.chapters.scene_models import predicted as predicted_by
from biaslib.metrics import (
    Labels,
    bias_amplification,
    mean_average_precision,
    permutation_baseline,
    set_average_precision,
)
from biaslib.store import stored
from biaslib.worlds.scenes import OBJECTS

# method -> how its model is trained, and the rule that reads a domain-independent one
METHODS: Final[dict[str, tuple[Training, str]]] = {
    "Original": ("original", ""),
    "Oversampling": ("oversampling", ""),
    "RBA": ("original", ""),
    "Adversarial": ("adversarial", ""),
    "DomInd": ("domain_independent", "conditional"),
    "Data repair": ("data_repair", ""),
}
# the other ways to read the same domain-independent models
RULES: Final[dict[str, tuple[Training, str]]] = {
    "conditional, maker predicted": ("domain_independent", "conditional"),
    "max": ("domain_independent", "max"),
    "sum of probabilities": ("domain_independent", "sum_of_probabilities"),
    "sum of logits": ("domain_independent", "sum_of_logits"),
}
KINDS: Final = ("undirected", "group_to_attribute", "attribute_to_group")
MEASURES: Final[dict[str, dict[str, Any]]] = {
    "singles, signed": {"max_size": 1, "absolute": False},
    "singles, sizes": {"max_size": 1},
    "all sets, sizes": {},
    "sets of 2 and more, signed": {"min_size": 2, "absolute": False},
    "sets of 2 and more, sizes": {"min_size": 2},
}


# with those of unrelated errors and of no errors beside them: one by one as Zhao et al. 2017, all sets as paper B
COMPARED: Final = ("singles, signed", "all sets, sizes")


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One method on one model's seed and data.

    Attributes:
        method: of `METHODS` or `RULES`.
        original: the experiment without mitigation, with the same seed and data.
        draws: of unrelated errors.
    """

    method: str
    original: SceneSetup
    draws: int = 3

    def experiment(self) -> SceneSetup:
        """That of the model which the method reads."""
        return replace(self.original, training=(METHODS | RULES)[self.method][0])


@dataclass(frozen=True)
class Said:
    """What a method says of the test images.

    Attributes:
        outcome: of the model it reads.
        predicted: objects and makers.
        scores: (N, 15) of the objects; RBA changes decisions, so these are the original model's.
        met: share of RBA's constraints that hold; NaN for other methods.
    """

    outcome: Outcome
    predicted: Labels
    scores: np.ndarray
    met: float


def said(setting: Setting) -> Said:
    """The method's predictions.

    Adversarial and domain-independent models do not predict the maker: it is the original model's answer, but for the
    method "DomInd", which is told the true maker and repeats it (the paper's reading of the conditional rule).
    """
    one, original = outcomes([setting.experiment(), setting.original])
    rule = (METHODS | RULES)[setting.method][1] or "conditional"
    if setting.method == "RBA":
        found = constrained(one)
        decided = Labels(found.attributes, found.groups, OBJECTS)
        return Said(one, decided, object_scores(one)[1], float(found.met.mean()))
    seen, makers = one, None
    if setting.method == "DomInd":
        makers = one.test.groups
    elif one.setup.training in ("adversarial", "domain_independent"):
        makers = maker_scores(original).argmax(axis=1)
        seen = _with_predicted_makers(one, original)
    predicted = predicted_by(seen, groups=makers, rule=rule)
    return Said(one, predicted, object_scores(seen, rule=rule)[1], np.nan)


def measured(settings: list[Setting], *, scheduler: str | None = None) -> pd.DataFrame:
    """The rows of `run` for all settings, with columns method, makers and seed before them; through the store."""
    # first the models, side by side
    outcomes([one for s in settings for one in (s.experiment(), s.original)], scheduler=scheduler)
    found = run.many(settings, scheduler=scheduler)
    return pd.concat(
        [
            table.assign(method=setting.method, makers=setting.original.groups, seed=setting.original.seed)
            for setting, table in zip(settings, found, strict=True)
        ],
        ignore_index=True,
    )


@stored("scenes-mitigation")
def run(setting: Setting) -> pd.DataFrame:
    """Everything that is measured of one method and model.

    Returns:
        One row a kind, measure (`MEASURES`) and reference ("own": the labels of the rows that the model was trained
        on; "original": those before any resampling), amplification x 100: value, unrelated (the mean over draws of
        independent errors, dealt object by object) and no_errors (that of the test labels themselves), both for
        `COMPARED` and "own" only and not for `RULES`, of which nothing else is measured; n_sets, never (sets that are
        never predicted). And rows of the kind "quality": map and map_sets (mAP*; NaN for RBA, which changes decisions
        and no scores, mAP* also for `RULES`), f1 (mean over objects), maker (share of right makers), probe,
        adversary, met, all in [0, 1], and images (number of training rows).
    """
    it = said(setting)
    one = it.outcome
    dealings = [
        permutation_baseline(one.test, it.predicted, rng=np.random.default_rng([one.setup.seed, d]), together=False)
        for d in range(setting.draws)
    ]
    rows = []
    main = setting.method in METHODS
    measures = {name: options for name, options in MEASURES.items() if main or name in COMPARED}
    for reference, train in (("own", one.train), ("original", one.original)):
        for kind in KINDS:
            for measure, options in measures.items():
                value = bias_amplification(train, one.test, it.predicted, kind=kind, **options)
                chance, none = np.nan, np.nan
                if reference == "own" and main and measure in COMPARED:
                    chance, none = _baselines(train, one.test, dealings, kind, options)
                rows.append(
                    (kind, measure, reference, 100 * value.mean, chance, none, value.n_sets, value.n_never_predicted)
                )
        if len(one.train) == len(one.original):  # nothing was resampled: the same once more
            rows += [(*row[:2], "original", row[3], np.nan, np.nan, *row[6:]) for row in rows]
            break
    rows += [("quality", name, "own", value, np.nan, np.nan, 0, 0) for name, value in _quality(setting, it).items()]
    columns = ["kind", "measure", "reference", "value", "unrelated", "no_errors", "n_sets", "never"]
    return pd.DataFrame(rows, columns=columns)


def cells(setting: Setting) -> pd.DataFrame:
    """The undirected change of every set, from the original training labels: the counted cells of `table(None)`."""
    it = said(setting)
    found = bias_amplification(it.outcome.original, it.outcome.test, it.predicted).table(None)
    return found[found["positive"]].assign(method=setting.method, seed=setting.original.seed)


def _quality(setting: Setting, it: Said) -> dict[str, float]:
    one = it.outcome
    ranked, sets = setting.method != "RBA", setting.method in METHODS
    truth, trained = one.test.attributes, one.original.attributes
    return {
        "map": mean_average_precision(truth, it.scores).mean if ranked else np.nan,
        "map_sets": set_average_precision(trained, truth, it.scores).mean if ranked and sets else np.nan,
        "f1": float(f1_score(truth, it.predicted.attributes, average="macro", zero_division=0.0)),
        "maker": float((it.predicted.groups == one.test.groups).mean()),
        "probe": one.probe,
        "adversary": one.adversary,
        "met": it.met,
        "images": float(len(one.train)),
    }


def _with_predicted_makers(one: Outcome, original: Outcome) -> Outcome:
    """As if the makers that the original model predicts were the true ones: all that the conditional rule sees."""
    width = len(OBJECTS)
    said_in_validation = original.validation_logits[:, width:].argmax(axis=1)
    return replace(
        one,
        validation=Labels(one.validation.attributes, said_in_validation, OBJECTS),
        test=Labels(one.test.attributes, maker_scores(original).argmax(axis=1), OBJECTS),
    )


def _baselines(
    train: Labels, test: Labels, dealings: list[Labels], kind: Any, options: dict[str, Any]
) -> tuple[float, float]:
    """Amplification x 100 of unrelated errors, and of no errors."""
    values = [bias_amplification(train, test, dealt, kind=kind, **options).mean for dealt in dealings]
    return 100 * float(np.mean(values)), 100 * bias_amplification(train, test, test, kind=kind, **options).mean
