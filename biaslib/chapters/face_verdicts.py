"""What an audit along directions amounts to: against chance, against exact effects, and what it is made of."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import scipy.stats
from scipy.special import expit

from biaslib import training
from biaslib.chapters import attribute_models
from biaslib.chapters.attribute_maps import Evaluation
from biaslib.chapters.attribute_models import Experiment, Key, keyed, known
from biaslib.chapters.face_sensitivity import TARGET
from biaslib.errors import BiaslibError
from biaslib.statistics import holm
from biaslib.store import parallel
from biaslib.worlds.faces import Faces


def beyond_random(changes: np.ndarray, random: np.ndarray) -> pd.DataFrame:
    """Whether directions change answers more than directions without a meaning do.

    A random direction and its opposite are equally likely, so that the changes from -step to +step have mean 0 over
    random directions; their root mean square is what chance gives. Over G generators the mean change of an attribute is
    compared with it by Student's t with G R degrees of freedom.

    Args:
        changes: (G, A) mean change along each attribute's direction with each generator.
        random: (G, R) along random directions.

    Returns:
        A row a direction: `change` (mean over generators), `chance` (what one standard deviation of chance is for such
        a mean), `t`, `p` two-sided, `p_holm` corrected over the directions. NaN where all random changes are 0.

    Raises:
        BiaslibError: for different numbers of generators, or no random direction.
    """
    if len(changes) != len(random) or random.size == 0:
        raise BiaslibError(
            f"changes {changes.shape} and random {random.shape} must have the same generators, and some."
        )
    mean = changes.mean(axis=0)
    chance = np.sqrt(np.square(random).mean() / len(random))
    t = mean / chance if chance > 0 else np.full(len(mean), np.nan)
    p = 2 * scipy.stats.t.sf(np.abs(t), random.size)
    return pd.DataFrame({"change": mean, "chance": chance, "t": t, "p": p, "p_holm": holm(p)})


def smallest_visible(chance: float, draws: int, directions: int, *, power: float = 0.8) -> float:
    """The size that a direction's change must truly have for `beyond_random` to tell it from chance, mostly.

    Args:
        chance: one standard deviation of chance, as `beyond_random` gives it.
        draws: random directions of all generators together.
        directions: of attributes, over which p-values are corrected (as the first of Holm's steps does, for all).
        power: how often the change is to be told from chance, at .05.

    Returns:
        In the unit of chance, by shifting Student's t.
    """
    return chance * float(scipy.stats.t.isf(0.025 / directions, draws) + scipy.stats.t.ppf(power, draws))


def parts(judged: pd.DataFrame, effects: Mapping[str, float], total: pd.Series) -> pd.DataFrame:
    """What the change along each direction is made of, as far as exact effects and the judges' words account for it.

    If answers were the sum of what attributes do, the change along the direction of a would be the sum over b of (how
    much b changes, as judged) times (b's exact effect).

    Args:
        judged: a row a direction, named by its attribute, which is not the classifier's own; a column each attribute or
            look: how much it changes.
        effects: of each of these: the exact effect of a whole change.
        total: the change found along each direction.

    Returns:
        A row a direction: `exact` (its attribute's own effect), `own` (that effect times how much of the attribute
        came), `target` (leakage into what the classifier tells), `leaked` (into all other columns), `rest`, `total`;
        `own + target + leaked + rest = total`.

    Raises:
        BiaslibError: where a column has no effect given.
    """
    if missing := [name for name in judged.columns if name not in effects]:
        raise BiaslibError(f"No exact effect is given for {', '.join(missing)}.")
    products = judged.to_numpy() * np.array([effects[name] for name in judged.columns])
    own = np.array([row[judged.columns.get_loc(name)] for name, row in zip(judged.index, products, strict=True)])
    target = products[:, judged.columns.get_loc(TARGET)] if TARGET in judged.columns else np.zeros(len(products))
    total_ = total[judged.index].to_numpy()
    return pd.DataFrame(
        {
            "exact": [effects[name] for name in judged.index], "own": own, "target": target,
            "leaked": products.sum(axis=1) - own - target, "rest": total_ - products.sum(axis=1), "total": total_,
        },
        index=judged.index,
    )  # fmt: skip


def slopes(
    experiments: Sequence[Experiment], evaluation: Evaluation, factors: Sequence[str], *, scheduler: str | None = None
) -> pd.DataFrame:
    """The exact effect of factors that are shares, such as the skin's tone: all faces drawn with little of it and much.

    Args:
        experiments: classifiers of one output and one size.
        evaluation: generated faces.
        factors: columns of the world's table.
        scheduler: see `parallel.workers`.

    Returns:
        A row a model, a column a factor: change of the probability for one standard deviation more of the factor,
        taken between its quartiles.
    """
    attribute_models.trained(experiments, scheduler=scheduler)
    keys = [(tuple(keyed(experiments)), evaluation, name) for name in factors]
    return pd.DataFrame(
        dict(zip(factors, parallel.stored("face-slopes", keys, run_slope, scheduler=scheduler), strict=True))
    )


def run_slope(key: tuple[tuple[Key, ...], Evaluation, str]) -> np.ndarray:
    """(models,) slopes of one factor; on one thread."""
    found: np.ndarray = parallel.single_threaded(_slope, *key)
    return found


def _slope(keys: tuple[Key, ...], evaluation: Evaluation, name: str) -> np.ndarray:
    networks, table = [known(key) for key in keys], evaluation.factors()
    low, high = table[name].quantile([0.25, 0.75])

    def probabilities(value: float) -> np.ndarray:
        column = np.full(len(table), value).astype(table[name].to_numpy().dtype)
        images = Faces().render(table.assign(**{name: column}), size=keys[0][0].size, regions=()).images
        return np.stack([expit(training.predict(model, images)[:, 0]).mean() for model in networks])

    return np.asarray((probabilities(high) - probabilities(low)) / ((high - low) / table[name].std(ddof=0)))
