"""OSCAR: do a model's maps resemble those of a teller of the cue, beyond what maps of unbiased models do?

Achara et al. 2025 (arXiv 2512.18888). Each image's map is averaged in 8 x 8 regions, and the regions are ranked, the
most relevant first; a model's *profile* is the median rank of each region over the images. What a linear regression on
the profile of a balanced baseline (BA) leaves of the profiles of the model (TS) and of a teller of the cue (SA) is
correlated, as released by Pearson's coefficient: rho(TS, SA | BA), one number for a model.

* BA: in the paper a network trained on balanced images. Here the mean profile of the unbiased references.
* SA: in the paper a further network, trained for the cue. A case has none. So a ridge regression reads the cue from the
  last maps of a reference, averaged over places, on the images that are explained. Each place has its part in what it
  says; a map is the positive parts for its answer, cue or no cue. (Grad-CAM lacks the intercept: many maps would be
  empty.) SA is the mean profile of three such tellers.

Expected above: a biased model looks where the cue is told from. We expect little. A cue that changes its place is
averaged away; and what BA leaves of a model without bias is small, but a correlation does not see that it is small.

NaN: no references, a cue in all images or in none, a profile whose ranks are all equal, or of which BA leaves nothing.
Images whose map has one value everywhere are left out; the released code ranks their regions equal.

The released p-value permutes regions as if each were drawn for itself; but maps are smooth. Between smooth profiles
without any relation it is below 0.05 in more than 30 % of cases, where a Gauss kernel of one region of 64 smooths them,
and in more than 60 % when the same pictures are cut into 256, the finer grid of the released code; with white noise in
3 to 8 %. The test of this file draws them. The dial compares models with unbiased ones instead.
"""

from typing import Final

import numpy as np
import torch
from scipy.stats import rankdata
from sklearn.linear_model import Ridge

from biaslib import dial, metrics, models
from biaslib.dial.entries import Seen

GRID, CELL = 8, 8  # regions along a side, and pixels of the enlarged map along a region's
TELLERS: Final = 3
RIDGE: Final = 0.01  # of the features' mean variance
DECIMALS: Final = 5  # of a region's relevance, by the largest: regions that differ by rounding alone share a rank
UNDEFINED: Final = np.full(GRID**2, np.nan)
_kept: dict[tuple[bool | bytes, ...], np.ndarray] = {}  # profiles of references, for all models that have them


@dial.metric(name="OSCAR, partial correlation", tier=4, side="above", passes=3)
def oscar(case: Seen) -> float:
    """rho(TS, SA | BA); the model is neither in BA nor in SA."""
    baseline = mean_of([kept(other) for other in case.references])
    teller = mean_of([kept(other, teller=True) for other in case.references[:TELLERS]])
    return float(residual(profile(case.map), baseline) @ residual(teller, baseline))


def kept(case: Seen, *, teller: bool = False) -> np.ndarray:
    """The profile of a reference, or of a teller that reads it; made once."""
    key = (teller, *(part.tobytes() for part in (case.map, case.score, case.cue)))
    if key not in _kept:
        _kept[key] = profile(told(last_maps(case), case.cue) if teller else case.map)
    return _kept[key]


@torch.no_grad()
def last_maps(case: Seen, batch: int = 64) -> np.ndarray:
    """(N, channels, h, w) float64, of the network."""
    network, starts = case.network, range(0, len(case.pictures), batch)
    batches = [models.to_tensor(case.pictures[start : start + batch], model=network) for start in starts]
    place = next(network.parameters()).device
    return torch.cat([network.forward_features(each.to(place)).cpu() for each in batches]).double().numpy()


def told(maps: np.ndarray, cue: np.ndarray) -> np.ndarray:
    """(N, h, w): what each place of maps (N, channels, h, w) says for a ridge regression's answer, cue (N,) or not."""
    means = maps.mean(axis=(2, 3))
    fitted = Ridge(RIDGE * len(means) * means.var(axis=0).mean()).fit(means, cue.astype(float))
    parts = np.einsum("nchw,c->nhw", maps, fitted.coef_) + fitted.intercept_ - 0.5
    return np.maximum(parts * np.sign(parts.mean(axis=(1, 2), keepdims=True)), 0)


def profile(maps: np.ndarray) -> np.ndarray:
    """(regions,) the median rank of each in maps (N, h, w), 1 the most relevant; NaN where no map has a relevance."""
    fine = metrics.upsample_maps(maps, GRID * CELL, GRID * CELL)[maps.max(axis=(1, 2)) > maps.min(axis=(1, 2))]
    relevance = fine.reshape(-1, GRID, CELL, GRID, CELL).mean(axis=(2, 4)).reshape(-1, GRID**2)
    ranks = rankdata((-relevance / relevance.max(axis=1, keepdims=True)).round(DECIMALS), axis=1)
    return np.median(ranks, axis=0) if len(ranks) else UNDEFINED


def mean_of(profiles: list[np.ndarray]) -> np.ndarray:
    """(regions,) of those that are defined; NaN where none is."""
    defined = [each for each in profiles if np.isfinite(each).all()]
    return np.mean(defined, axis=0) if defined else UNDEFINED


def residual(of: np.ndarray, baseline: np.ndarray) -> np.ndarray:
    """What a linear regression on the baseline leaves of a profile, of mean 0 and length 1; NaN where undefined."""
    along = to_one(baseline - baseline.mean())
    return to_one(of - of.mean() - (of @ along) * along)


def to_one(vector: np.ndarray) -> np.ndarray:
    """The vector by its length; NaN where that is only rounding: ranks differ by halves."""
    length = np.linalg.norm(vector)
    return vector / length if length > 1e-9 else UNDEFINED
