"""Mitigation methods side by side on one set-up."""

from dataclasses import dataclass, replace
from typing import Any, Final, Literal, get_args

import numpy as np
import pandas as pd

from biaslib import metrics
from biaslib.chapters import scene_models
from biaslib.chapters.scene_models import JointSetup, Outcome, Training, outcomes
from biaslib.metrics import Labels, bias_amplification
from biaslib.metrics.amplification import Kind
from biaslib.mitigation.resampling import oversample
from biaslib.statistics import Interval, interval, sign_flip
from biaslib.store import Calls, stored
from biaslib.store.files import beside
from biaslib.training.objectives import Joint

_TABLES: Final = beside(__file__)
METHODS: Final[dict[str, tuple[Training, str]]] = {name: tuple(of) for name, of in _TABLES["methods"].items()}
RULES: Final[dict[str, tuple[Training, str]]] = {name: tuple(of) for name, of in _TABLES["rules"].items()}


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One method on one model's seed and data."""

    method: str  # of `METHODS` or `RULES`
    original: JointSetup  # without mitigation, with the same seed and data
    draws: int = 3  # of the permutation baseline
    sets: Literal["all", "observed"] = "all"  # what is measured
    balanced: bool = False  # test images drawn again as oversampling draws those for training

    def experiment(self) -> JointSetup:
        """That of the model which the method reads."""
        return replace(self.original, training=(METHODS | RULES)[self.method][0])


@dataclass(frozen=True)
class _Decisions:
    """What a method predicts for the test images."""

    outcome: Outcome  # of the model it reads
    test: Labels
    predicted: Labels  # attributes and groups
    scores: np.ndarray  # (N, A) of the attributes; RBA changes decisions, so these are the original model's


def _decisions(setting: Setting) -> _Decisions:
    """The method's predictions; of the group, where it has none, the original model's, or the truth ("DomInd")."""
    outcome, original = outcomes([setting.experiment(), setting.original])
    rule = (METHODS | RULES)[setting.method][1] or "conditional"
    if setting.method == "RBA":
        changed = outcome.constrained()
        labels, scores = Labels(changed.attributes, changed.groups, outcome.test.names), outcome.attribute_scores()[1]
    else:
        read, groups = outcome, None  # the outcome as the rule sees it
        if setting.method == "DomInd":
            groups = outcome.test.groups
        elif outcome.setup.training in ("adversarial", "domain_independent"):
            groups = original.group_scores().argmax(axis=1)
            read = _with_predicted_groups(outcome, original)
        labels, scores = read.predicted(groups=groups, rule=rule), read.attribute_scores(rule=rule)[1]
    test, setup = outcome.test, outcome.setup
    rows = np.arange(len(test))
    if setting.balanced:
        rows = oversample(test.attributes, test.groups, eps=setup.eps, seed=setup.seed)
    return _Decisions(outcome, test.take(rows), labels.take(rows), scores[rows])


def planned(settings: list[Setting]) -> list[Calls]:
    """What `measured` asks of the store, of the models first."""
    models = [setup for setting in settings for setup in (setting.experiment(), setting.original)]
    return [*scene_models.planned(list(dict.fromkeys(models))), _measured.calls(settings)]


def measured(settings: list[Setting]) -> pd.DataFrame:
    """Everything that is measured of each method and model, through the store.

    Columns method, makers (number of groups), balanced and seed, and one row a setting, kind, measure and reference
    ("own": the labels of the rows that the model was trained on; "original": those before any resampling) with
    amplification x 100: value, unrelated (the mean over draws of the permutation baseline) and no_errors (of the test
    labels themselves), both with "own" only and not for `RULES`; never (sets that are never predicted). And rows of the
    kind "quality": map and map_sets (mAP*; NaN for RBA, which changes no scores, mAP* also for `RULES`), map_groups
    (over the groups' columns, too, for models that predict them), probe and adversary, and images (training rows).
    """
    # first the models, side by side
    outcomes([experiment for setting in settings for experiment in (setting.experiment(), setting.original)])
    tables = [
        table.assign(
            method=setting.method, makers=setting.original.groups, balanced=setting.balanced, seed=setting.original.seed
        )
        for setting, table in zip(settings, planned(settings)[-1].results(), strict=True)
    ]
    return pd.concat(tables, ignore_index=True)


def over_models(results: pd.DataFrame, *, seed: int) -> pd.DataFrame:
    """The table of `measured` over models, by their own labels: a row for each makers, method, balanced, kind, measure.

    With intervals: value, baseline, beyond (value less baseline), and change from Original in pairs of a seed, with p
    by flips of signs, unless it is `fixed`: the method takes its groups from elsewhere. Means: no_errors, never.
    """
    keys = ["makers", "method", "balanced", "kind", "measure"]
    own = results[results["reference"] == "own"].sort_values("seed")
    cells: dict[Any, pd.DataFrame] = dict(list(own.groupby(keys, sort=False)))
    table = []
    for key, rows in cells.items():
        makers, method, balanced, kind, measure = key
        value, baseline = rows["value"].to_numpy(), rows["unrelated"].to_numpy()
        fixed = kind == "attribute_to_group" and method in {"Adversarial", "DomInd", *RULES}
        compared = not fixed and method != "Original"
        original = cells.get((makers, "Original", balanced, kind, measure)) if compared else None
        test = sign_flip([] if original is None else value - original["value"].to_numpy(), seed=seed)
        spans = {
            "value": interval(value, seed=seed, bounds=(-np.inf if "signed" in measure else 0.0, np.inf)),
            "baseline": interval(baseline, seed=seed),
            "beyond": interval(value - baseline, seed=seed),
            "change": Interval(test.difference, test.low, test.high, len(value)),
        }
        more = {"p": test.p, "fixed": fixed, "n": len(value), **rows[["no_errors", "never"]].mean()}
        table.append(dict(zip(keys, key, strict=True)) | spans | more)
    return pd.DataFrame(table)


@stored("mitigation")
def _measured(setting: Setting) -> pd.DataFrame:
    decided = _decisions(setting)
    outcome, test = decided.outcome, decided.test
    draws = [np.random.default_rng([outcome.setup.seed, draw]) for draw in range(setting.draws)]
    errors = [metrics.permutation_baseline(test, decided.predicted, rng=rng, together=False) for rng in draws]
    rows: list[dict[str, Any]] = []
    for reference, train in (("own", outcome.train), ("original", outcome.original)):
        for kind in get_args(Kind):
            for measure, options in _TABLES["measures"][setting.sets].items():
                value = bias_amplification(train, test, decided.predicted, kind=kind, **options)
                row = {"kind": kind, "measure": measure, "reference": reference, "value": 100 * value.mean}
                row |= {"unrelated": np.nan, "no_errors": np.nan, "never": value.n_never_predicted}
                if reference == "own" and setting.method in METHODS:
                    drawn = [bias_amplification(train, test, other, kind=kind, **options).mean for other in errors]
                    row["unrelated"] = 100 * float(np.mean(drawn))
                    row["no_errors"] = 100 * bias_amplification(train, test, test, kind=kind, **options).mean
                rows.append(row)
        if len(outcome.train) == len(outcome.original):  # nothing was resampled: the same once more
            rows += [{**row, "reference": "original", "unrelated": np.nan, "no_errors": np.nan} for row in rows]
            break
    ranked, sets = setting.method != "RBA", setting.method in METHODS
    truth, trained = test.attributes, outcome.original.attributes
    columns = truth, decided.scores  # with those of the groups, where there are such
    if isinstance(outcome.setup.objective(), Joint) and len(outcome.test) == len(test):
        every = np.eye(outcome.setup.groups, dtype=bool)[test.groups]
        columns = np.column_stack([truth, every]), np.column_stack([decided.scores, outcome.group_scores()])
    quality = {
        "map": metrics.mean_average_precision(truth, decided.scores).mean if ranked else np.nan,
        "map_groups": metrics.mean_average_precision(*columns).mean if ranked and columns[0] is not truth else np.nan,
        "map_sets": metrics.set_average_precision(trained, truth, decided.scores).mean if ranked and sets else np.nan,
        "probe": outcome.probe,
        "adversary": outcome.adversary,
        "images": float(len(outcome.train)),
    }
    found = {"kind": "quality", "reference": "own"}
    return pd.DataFrame([*rows, *({**found, "measure": name, "value": value} for name, value in quality.items())])


def _with_predicted_groups(outcome: Outcome, original: Outcome) -> Outcome:
    """As if the groups that the original model predicts were the true ones: all that the conditional rule sees."""
    width = len(outcome.setup.attributes)
    validation, test = (
        replace(labels, groups=logits[:, width:].argmax(axis=1))
        for labels, logits in ((outcome.validation, original.validation_logits), (outcome.test, original.test_logits))
    )
    return replace(outcome, validation=validation, test=test)
