"""Layer-wise relevance propagation with the epsilon rule, and the variant of a widely used toolbox."""

import copy
from collections.abc import Callable, Sequence
from typing import Any, Literal

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from biaslib.attribution._models import (
    Images,
    Targets,
    batches,
    check_outputs,
    checked_targets,
    fold_batchnorm,
    logits_of,
    place_of,
    unchanged,
)
from biaslib.errors import BiaslibError, check_known, refused

_REMEDY = "explain this model with integrated_gradients or grad_cam, or with rule='toolbox'"
_SUMS = {torch.add, *(getattr(torch.Tensor, name) for name in ("add", "add_", "__add__", "__radd__", "__iadd__"))}
_PRODUCTS = {torch.mul, *(getattr(torch.Tensor, name) for name in ("mul", "mul_", "__mul__", "__rmul__", "__imul__"))}
_MEANS = {torch.mean, torch.Tensor.mean}
_SHAPES = {"flatten", "view", "reshape", "view_as", "clone", "contiguous", "permute", "squeeze", "unsqueeze", "detach"}
_SHAPES |= {"requires_grad_", "to", "double", "__get__", "dropout", "pad"}
_STABILISER = 1e-6  # zennit's, where a sum or a mean is shared out
_Rule = Callable[[torch.Tensor], Sequence[torch.Tensor | None]]  # from the relevance of an output to that of each input


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
    chosen = checked_targets(images, targets, batch)
    batch = batch or (8 if place_of(model).type == "cpu" else 64)
    maps = []
    with unchanged(model):
        prepared: nn.Module | None = None
        precision = torch.float32 if place_of(model).type == "mps" else torch.float64
        for pixels, wanted in batches(model, images, chosen, batch, precision):
            if prepared is None:
                prepared, logits = _prepared(model, pixels[:1], rule, eps)
                check_outputs(chosen, logits)
            maps.append(_finished(_relevance(prepared, pixels, wanted, rule, eps), signed, scaled).cpu())
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


@torch.no_grad()
def _prepared(model: nn.Module, pixels: torch.Tensor, rule: str, eps: float) -> tuple[nn.Module, torch.Tensor]:
    """A copy, in the precision of the pixels, that relevance can be handed back through by the rule; their logits."""
    copied = copy.deepcopy(model).to(pixels.dtype)
    if rule == "epsilon":
        return _merged(copied, pixels)
    for name, module in list(copied.named_modules(remove_duplicate=False)):
        if type(module).__name__ in ("ReLU", "ELU", "Sigmoid", "Tanh", "Softplus"):
            copied.set_submodule(name, _ToolboxActivation(module, eps))
    return copied, logits_of(copied, pixels)


def _relevance(model: nn.Module, pixels: torch.Tensor, targets: torch.Tensor, rule: str, eps: float) -> torch.Tensor:
    """(n, T, 3, H, W) of each pixel's colours in each target's logit, through a prepared model."""
    pixels = pixels.clone().requires_grad_()
    if rule == "toolbox":
        with torch.enable_grad():
            logits = logits_of(model, pixels.clone())
            return _backwards(logits, torch.ones_like(logits), pixels, targets) * pixels.detach()[:, None]
    with torch.enable_grad():
        with _RelevanceMode(model, eps):
            logits = logits_of(model, pixels * 1)
        return _backwards(logits, logits.detach(), pixels, targets)


def _backwards(logits: torch.Tensor, start: torch.Tensor, pixels: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """What reaches the pixels from each target's logit, where it sets out as `start`."""
    found = []
    for target in targets.T:
        seed = torch.zeros_like(logits).scatter_(1, target[:, None], start.gather(1, target[:, None]))
        found.append(torch.autograd.grad(logits, pixels, seed, retain_graph=True)[0])
    return torch.stack(found, 1)


def _merged(model: nn.Module, pixels: torch.Tensor) -> tuple[nn.Module, torch.Tensor]:
    """A copy with every batch normalisation merged into the convolution before it; the logits."""
    kinds = _kinds()
    plain = (nn.Identity, nn.Sequential, nn.Flatten, nn.Dropout, nn.Dropout2d)
    handled = (kinds.AvgPool, kinds.BatchNorm, kinds.Linear, kinds.MaxPool, *plain)
    for name, module in model.named_modules():
        known = isinstance(module, handled) or _is_activation(module) or next(module.children(), None) is not None
        if not known or isinstance(module, nn.MultiheadAttention):
            raise BiaslibError(f"LRP has no rule for the layer {name!r} ({type(module).__name__}): {_REMEDY}.")
    merged = fold_batchnorm(model, pixels)
    if merged is model:
        raise refused("normalisations that cannot be merged", remedy=_REMEDY)
    for name, module in merged.named_modules():
        if isinstance(module, kinds.BatchNorm):
            raise refused("normalisation by itself", name=name, kind=type(module).__name__, remedy=_REMEDY)
    return merged, logits_of(model, pixels)


def _kinds() -> Any:
    """Layers by their kinds; zennit brings torch's compiler with it, seconds that the other methods do not wait for."""
    from zennit import types

    return types


def _is_activation(module: nn.Module) -> bool:
    """Whether a layer changes every number by itself; timm has classes of its own for some such layers."""
    return isinstance(module, _kinds().Activation) or type(module).__module__.startswith("timm.layers.activations")


class _RelevanceMode(TorchFunctionMode):
    """Gives layers, and the sums, products and means that a model writes in Python, their rules; refuses other steps.

    A layer runs once: what its rule does to the relevance stands beside the layer's own derivative.
    """

    def __init__(self, model: nn.Module, eps: float) -> None:
        super().__init__()
        self.model, self.eps, self.stabiliser = model, eps, min(eps, _STABILISER)
        self.linear, self.pooling = _kinds().Linear, _kinds().AvgPool
        self.entered: list[torch.Tensor] = []  # what the layers that are running were given
        self.seen: set[nn.Module] = set()
        self.hooks: list[Any] = []

    def __enter__(self) -> "_RelevanceMode":
        for module in self.model.modules():
            if next(module.children(), None) is None:  # a layer, whose own rule holds inside it
                self.hooks.append(module.register_forward_pre_hook(self._enter_layer))
                self.hooks.append(module.register_forward_hook(self._leave_layer))
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        for hook in self.hooks:
            hook.remove()
        super().__exit__(*error)

    def _enter_layer(self, layer: nn.Module, inputs: tuple[Any, ...]) -> Any:
        # a rule remembers one input a layer
        if isinstance(layer, (self.linear, self.pooling)) and layer in self.seen:
            raise refused("layer that runs twice", kind=type(layer).__name__, remedy=_REMEDY)
        self.seen.add(layer)
        map_, *others = inputs
        self.entered.append(map_)
        if isinstance(layer, (self.linear, self.pooling)):
            return _Ruled.apply(map_, lambda gradient: [map_ * gradient], map_), *others
        if not _is_activation(layer):
            return inputs
        # what is before it keeps its numbers for the way back
        return map_.detach().clone() if getattr(layer, "inplace", False) else map_.detach(), *others

    def _leave_layer(self, layer: nn.Module, _: Any, output: torch.Tensor) -> torch.Tensor:
        map_ = self.entered.pop()
        if isinstance(layer, self.linear):
            return _divided(output, self.eps)
        if isinstance(layer, self.pooling):
            return _divided(output, self.stabiliser)
        # the relevance of the output is that of the input
        return _Ruled.apply(output, lambda relevance: [relevance], map_) if _is_activation(layer) else output

    def __torch_function__(self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        given = (*args, *kwargs.values())
        maps = [value for value in given if isinstance(value, torch.Tensor) and value.requires_grad]
        if self.entered or not maps:
            return func(*args, **kwargs)
        if kwargs and func in _SUMS | _PRODUCTS:
            raise refused("sum with options", name=func.__name__, options=", ".join(kwargs), remedy=_REMEDY)
        if func in _SUMS:
            return _sum(args[0], args[1], self.stabiliser)
        if func in _PRODUCTS:
            first, second = sorted(args, key=lambda value: -getattr(value, "numel", lambda: 0)())
            if isinstance(second, torch.Tensor) and second.requires_grad and second.shape == first.shape:
                raise BiaslibError(f"LRP has no rule for a product of two maps, as this model has: {_REMEDY}.")
            gate = second.detach() if isinstance(second, torch.Tensor) else second
            return _Ruled.apply(first.detach() * gate, lambda relevance: [relevance], first)  # all of it is the map's
        if func in _MEANS:
            return _mean(func, args[0], args[1:], kwargs, self.stabiliser)
        result = func(*args, **kwargs)
        if isinstance(result, torch.Tensor) and result.is_floating_point() and func.__name__ not in _SHAPES:
            raise refused("step without a rule", name=func.__name__, model=type(self.model).__name__, remedy=_REMEDY)
        return result


def _stable(values: torch.Tensor, eps: float | torch.Tensor) -> torch.Tensor:
    return torch.where(values >= 0, eps, -eps).to(values.dtype).add_(values)


class _Ruled(torch.autograd.Function):
    """What a layer or a step gives; its relevance goes to its inputs by a rule, in place of the derivative."""

    @staticmethod
    def forward(ctx: Any, output: torch.Tensor, rule: _Rule, *inputs: Any) -> torch.Tensor:
        ctx.rule = rule
        return output.view_as(output)

    @staticmethod
    def backward(ctx: Any, *relevance: torch.Tensor) -> Any:
        return None, None, *ctx.rule(relevance[0])


def _divided(output: torch.Tensor, eps: float) -> torch.Tensor:
    """A layer's output, whose relevance goes into the layer as a share of it."""

    def rule(relevance: torch.Tensor) -> list[torch.Tensor]:
        shares = _stable(output, output.new_tensor(eps))
        return [torch.div(relevance, shares, out=shares)]

    return _Ruled.apply(output, rule, output)


def _sum(a: Any, b: Any, eps: float) -> torch.Tensor:
    """The sum a + b, whose parts share the relevance in proportion."""
    with torch.no_grad():
        total = a + b

    def rule(relevance: torch.Tensor) -> list[torch.Tensor | None]:
        share = relevance / _stable(total, eps)
        return [share * part if isinstance(part, torch.Tensor) else None for part in (a, b)]

    return _Ruled.apply(total, rule, a, b)


def _mean(mean: Callable[..., torch.Tensor], map_: torch.Tensor, args: Any, kwargs: Any, eps: float) -> torch.Tensor:
    """A mean over places, which share the relevance in proportion."""
    inputs = map_.detach().requires_grad_()
    result = mean(inputs, *args, **kwargs)

    def rule(relevance: torch.Tensor) -> list[torch.Tensor]:
        share = relevance / _stable(result.detach(), eps)
        (gradient,) = torch.autograd.grad(result, inputs, share, retain_graph=True)
        return [gradient * inputs.detach()]

    return _Ruled.apply(result.detach(), rule, map_)


class _ToolboxActivation(nn.Module):
    """A nonlinearity whose gradient is out / (in + eps sign(in)) (DeepExplain's epsilon-LRP)."""

    def __init__(self, activation: nn.Module, eps: float) -> None:
        super().__init__()
        self.activation, self.eps = activation, eps

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """The nonlinearity itself; only its gradient differs."""
        with torch.no_grad():
            outputs = self.activation(inputs.detach().clone())
            ratio = _stable(inputs, self.eps)
            torch.div(outputs, ratio, out=ratio)
        return _Ruled.apply(outputs, lambda gradient: [gradient * ratio], inputs)
