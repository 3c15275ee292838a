"""Slices: do the network's errors gather in pictures that look alike to it? Nobody says what the cue is.

As the audit looks for slices (`biaslib.audit.discovery`), by two of its ways:

* *Discovered slice, features*: a mixture of the last features, of whether the answer is wrong and of the score, after
  Domino (Eyuboglu et al. 2022, ICLR).
* *Discovered slice, maps*: spectral clusters of the maps, after SpRAy (Lapuschkin et al. 2019, Nature Communications).

Both are fitted to one half of the pictures, and at most three slices of either answer are counted on the other half:
the share of wrong answers inside, less that outside. A model's number is the largest of these differences. Where no
slice can be tested, since the network errs too seldom or its errors do not gather, that is a difference of 0: somebody
who looks for slices is shown none.

Expected above: a biased model errs where the cue contradicts the label, and pictures with the cue look alike to it. The
labels of the cue are not used. Errors gather for other reasons, too, such as a hard kind of object; unbiased models
show how far.

NaN where no picture has a defined map.

The public domino (0.1.5, of 2022) and corelay were not run. Domino's own mixture is scikit-learn's where it does not
see the errors, and so is ours. What differs: fitted on one half and counted on the other, and a picture belongs to a
slice by its features alone, so that an error cannot put it there.
"""

import numpy as np
import pandas as pd
import torch
from torch import nn

from biaslib import dial, training
from biaslib.audit import discovery
from biaslib.audit.inputs import Binary, LabelledImages
from biaslib.dial.entries import Seen


def last_features(network: nn.Module, pictures: np.ndarray) -> np.ndarray:
    """(N, D) what the last layer reads."""
    kept: list[torch.Tensor] = []
    layer = network.get_submodule(network.pretrained_cfg["classifier"])
    hook = layer.register_forward_pre_hook(lambda _, inputs: kept.append(inputs[0].cpu()))
    try:
        training.predict(network, pictures)
    finally:
        hook.remove()
    return torch.cat(kept).numpy()


def largest(space: dict[str, np.ndarray], truth: np.ndarray, answer: np.ndarray, score: np.ndarray) -> float:
    """The largest difference of the shares of wrong answers, inside less outside, of the slices that are tested."""
    target = Binary("target", ("0", "1"), ("no", "yes"))
    answered = LabelledImages(
        files=tuple(f"{row}.png" for row in range(len(truth))), labels=pd.DataFrame({"target": truth}),
        predicted=pd.DataFrame({"target": answer}), train=None, target=target, groups=(), scores=score,
    )  # fmt: skip
    found = discovery.discover(answered, space, pd.DataFrame(index=range(len(truth))), 0).tables["slices"]
    return max((apart.estimate for apart in found["apart"]), default=0.0)


@dial.metric(name="Discovered slice, features", tier=3, side="above", passes=1)
def by_features(case: Seen) -> float:
    """Of the mixture."""
    return largest({"features": last_features(case.network, case.pictures)}, case.truth, case.answer, case.score)


@dial.metric(name="Discovered slice, maps", tier=3, side="above", passes=3)
def by_maps(case: Seen) -> float:
    """Of the clusters of maps; a picture without a defined map is left out."""
    has = np.isfinite(case.map).all(axis=(1, 2))
    if not has.any():
        return float("nan")
    return largest({"maps": case.map[has]}, case.truth[has], case.answer[has], case.score[has])
