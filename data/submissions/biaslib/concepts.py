"""TCAV of the cue: does the target's logit grow in the direction in which the last map tells the cue?

Kim et al. 2018 (ICML). The concept activation vector, CAV, is the normal of a linear classifier between the last maps
of pictures with the cue and of those without; ours is a ridge regression, so nothing is random. All pictures are used
for it: they are balanced, and the cue says nothing of the target. Then, for each picture that truly has the target (as
Kim's pictures of class k), the derivative of the target's logit along the CAV. The logit is the log odds of the
target's probability; with two outputs that is their difference. The paper takes one output, of which a softmax does not
see what it shares with the others.

* *TCAV, share of pictures*, as Kim prints it: those with a derivative above 0.
* *TCAV, size*: the mean derivative, times the standard deviation of the maps along the CAV: by how many logits the
  answer moves when a map moves by one.

A known trap: behind average pooling and a linear layer the derivative is the same for all pictures. The share is 0 or 1
then, and a model without bias gives either by the toss of a coin. So we expect little of the share, and that is why the
size is entered as well. Expected above for both: a biased model says the target where the cue is.

NaN where the cue is in all pictures or in none, where maps do not tell the cue at all (the CAV is 0), where no picture
has the target, and where no output has the case's score (joint models of two answers).

captum 0.9.0 fits by stochastic gradient descent, on pictures that Python's global random numbers choose: the CAV is
another each time. Its "magnitude" is the mean derivative along a CAV of any length, and not what its docstring says.
"""

import numpy as np
import torch
from torch import nn

from biaslib import dial, models
from biaslib.dial.entries import Seen


@torch.no_grad()
def last_maps(network: nn.Module, pictures: np.ndarray, batch: int = 64) -> torch.Tensor:
    """The network's last maps, N of them, in its own layout."""
    place = next(network.parameters()).device
    starts = range(0, len(pictures), batch)
    return torch.cat(
        [network.forward_features(models.to_tensor(pictures[i : i + batch], place, model=network)) for i in starts]
    )


def cav(maps: torch.Tensor, cue: np.ndarray) -> torch.Tensor:
    """The unit normal of the ridge regression of the cue (N,) bool on flat maps (N, d), (d,); 0 where they are equal.

    By the N x N products, as maps have more numbers than there are pictures; the ridge is their mean.
    """
    centred = maps - maps.mean(dim=0)
    products = (centred @ centred.T).double()
    ridge = products.trace() / len(maps) + 1e-30
    told = torch.as_tensor(cue - cue.mean()).to(products)
    weight = torch.linalg.solve(products + ridge * torch.eye(len(maps)).to(products), told)
    normal = centred.T @ weight.to(maps)
    return normal / normal.norm() if normal.norm() > 0 else normal


def log_odds(logits: torch.Tensor) -> torch.Tensor:
    """(N, 2 outputs): of each output, by a softmax and by a sigmoid."""
    own = torch.eye(logits.shape[1], dtype=torch.bool, device=logits.device)
    return torch.cat([logits - logits[:, None].masked_fill(own, -torch.inf).logsumexp(2), logits], dim=1)


def derivatives(network: nn.Module, maps: torch.Tensor, score: np.ndarray, along: torch.Tensor) -> np.ndarray:
    """(N,) of the log odds of the score, along a direction (d,) of the flat maps; NaN where no output has the score."""
    with torch.enable_grad():
        leaf = maps.detach().requires_grad_(True)
        columns = log_odds(network.forward_head(leaf))
        distance = (columns.sigmoid() - torch.as_tensor(score).to(columns)[:, None]).abs().mean(dim=0)
        (slopes,) = torch.autograd.grad(columns[:, distance.argmin()].sum(), leaf)
    found = slopes.flatten(1) @ along
    return (found if distance.min() < 0.01 else found * torch.nan).cpu().double().numpy()


def sensitivities(case: Seen) -> tuple[np.ndarray, float]:
    """(N,) derivatives along the CAV, NaN of pictures without the target; and the deviation of the maps along it."""
    maps = last_maps(case.network, case.pictures)
    along = cav(maps.flatten(1), case.cue)
    slopes = derivatives(case.network, maps, case.score, along)
    return np.where(case.truth & bool(along.any()), slopes, np.nan), float((maps.flatten(1) @ along).std())


@dial.metric(name="TCAV, share of pictures", tier=3, side="above", passes=1)
def share(case: Seen) -> np.ndarray:
    """(N,) 1 where the derivative is above 0, else 0."""
    slopes, _ = sensitivities(case)
    return np.where(np.isnan(slopes), np.nan, slopes > 0)


@dial.metric(name="TCAV, size", tier=3, side="above", passes=1)
def size(case: Seen) -> np.ndarray:
    """(N,) by how many logits a step of one standard deviation along the CAV moves the answer."""
    slopes, deviation = sensitivities(case)
    return slopes * deviation
