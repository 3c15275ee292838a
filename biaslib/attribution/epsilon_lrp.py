"""Layer-wise relevance propagation with the epsilon rule, and the variant of a widely used toolbox."""

from typing import Literal

import torch
from torch import nn

from biaslib.attribution._models import Images, Targets, batches, check_outputs, checked_targets, place_of, unchanged
from biaslib.errors import BiaslibError, check_known, refused


def epsilon_lrp(
    model: nn.Module,
    images: Images,
    targets: Targets,
    *,
    eps: float = 1e-6,
    rule: Literal["epsilon", "toolbox"] = "epsilon",
    signed: bool = False,
    scaled: bool = False,
    batch: int | None = None,
) -> torch.Tensor:
    r"""Every pixel's part in a logit, handed back layer by layer (Bach et al. 2015, eq. 58).

    $$R_j = \sum_k \frac{a_j w_{jk}}{z_k + \epsilon\, \mathrm{sign}(z_k)} R_k, \qquad z_k = b_k + \sum_j a_j w_{jk},
      \qquad \mathrm{map} = \sum_c R_c^2$$

    from the logit itself at the output to the image's colours c. `rule="epsilon"` is zennit's: batch normalisations
    are merged into their convolutions; activations hand relevance through; sums (residual connections) and means
    share it in proportion; maxima give it to the winner; a gate that multiplies a map (squeeze and excitation) gets
    none. Without biases and as eps goes to 0 it adds up to the logit and, for ReLU alone, equals gradient times input.

    `rule="toolbox"` is that of DeepExplain, with which Schaaf et al. (2021) made their maps with eps = 10: the
    gradient of each nonlinearity becomes out / (in + eps sign(in)), everything else has its plain gradient, and the
    relevance is that gradient times the input. It knows the modules ReLU, ELU, sigmoid, tanh and softplus; any other
    nonlinearity (ReLU6, SiLU) keeps its plain gradient: MobileNet's maps are gradient times input whatever eps is.

    `eps` > 0 is absolute: where it is large beside the activations, relevance shrinks by orders of magnitude a layer,
    and leaves float32's range, a `BiaslibError`, unless `scaled` divides every map by its largest absolute value. With
    `signed` the relevance R itself is given, (N, T, 3, H, W), of every colour and with its sign. `batch` is 8 on a CPU
    where it is None, elsewhere 64. Everything is computed in float64; on Apple's devices, which lack it, in float32.
    An eps that is not positive, an unknown rule, and a layer or a step without a rule are a `BiaslibError`, too.
    """
    if not eps > 0:
        raise BiaslibError(f"eps must be positive, not {eps}.")
    check_known("rule", rule, ("epsilon", "toolbox"))
    # zennit brings torch's compiler with it, four seconds that the other methods do not wait for
    from biaslib.attribution import _relevance

    chosen = checked_targets(images, targets, batch)
    batch = batch or (8 if place_of(model).type == "cpu" else 64)
    maps = []
    with unchanged(model):
        prepared: nn.Module | None = None
        precision = torch.float32 if place_of(model).type == "mps" else torch.float64
        for pixels, wanted in batches(model, images, chosen, batch, precision):
            if prepared is None:
                prepared, logits = _relevance.prepared(model, pixels[:1], rule, eps)
                check_outputs(chosen, logits)
            relevance = _relevance.relevance(prepared, pixels, wanted, rule, eps)
            maps.append(_finished(relevance, signed, scaled).cpu())
    return torch.cat(maps)


def _finished(relevance: torch.Tensor, signed: bool, scaled: bool) -> torch.Tensor:
    peak = relevance.abs().amax((2, 3, 4), keepdim=True)
    if scaled:
        relevance = relevance / peak.where(peak > 0, 1)
    result = relevance if signed else relevance.square().sum(2)
    # a map whose peak is this near to the smallest float32 has lost its lesser values
    smallest = result.abs().amax(tuple(range(2, result.ndim)))
    if ((smallest < 1e-30) & (peak[:, :, 0, 0, 0] > 0)).any():
        raise refused("relevance that shrinks", peak=float(peak[peak > 0].min()))
    return result.float()
