"""Layer-wise relevance propagation by zennit's rules, and by the rule of the DeepExplain toolbox."""

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from zennit.types import Activation, AvgPool, BatchNorm, Linear, MaxPool

from biaslib.attribution._models import folded, logits_of, normalised_convolutions
from biaslib.errors import BiaslibError, refused

_REMEDY = "explain this model with integrated_gradients or grad_cam, or with rule='toolbox'"
_KNOWN = (AvgPool, BatchNorm, Linear, MaxPool, nn.Identity, nn.Sequential, nn.Flatten, nn.Dropout, nn.Dropout2d)
_SUMS = {torch.add, *(getattr(torch.Tensor, name) for name in ("add", "add_", "__add__", "__radd__", "__iadd__"))}
_PRODUCTS = {torch.mul, *(getattr(torch.Tensor, name) for name in ("mul", "mul_", "__mul__", "__rmul__", "__imul__"))}
_MEANS = {torch.mean, torch.Tensor.mean}
_SHAPES = {"flatten", "view", "reshape", "view_as", "clone", "contiguous", "permute", "squeeze", "unsqueeze", "detach"}
_SHAPES |= {"requires_grad_", "to", "double", "__get__", "dropout", "pad"}
_STABILISER = 1e-6  # zennit's, where a sum or a mean is shared out
_Rule = Callable[[torch.Tensor], Sequence[torch.Tensor | None]]  # from the relevance of an output to that of each input


def prepared(model: nn.Module, pixels: torch.Tensor, rule: str, eps: float) -> tuple[nn.Module, torch.Tensor]:
    """A copy, in the precision of the pixels, that relevance can be handed back through by the rule; their logits."""
    copied = copy.deepcopy(model).to(pixels.dtype)
    if rule == "epsilon":
        _check_layers(copied)
        with torch.no_grad():
            return _merged(copied, pixels)
    for name, module in list(copied.named_modules(remove_duplicate=False)):
        if type(module).__name__ in ("ReLU", "ELU", "Sigmoid", "Tanh", "Softplus"):
            copied.set_submodule(name, _ToolboxActivation(module, eps))
    with torch.no_grad():
        return copied, logits_of(copied, pixels)


def relevance(model: nn.Module, pixels: torch.Tensor, targets: torch.Tensor, rule: str, eps: float) -> torch.Tensor:
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
    pairs, logits = normalised_convolutions(model, pixels)
    merged = folded(model, pixels, pairs, logits)
    if merged is model:
        raise refused("normalisations that cannot be merged", remedy=_REMEDY)
    for name, module in merged.named_modules():
        if isinstance(module, BatchNorm):
            raise refused("normalisation by itself", name=name, kind=type(module).__name__, remedy=_REMEDY)
    return merged, logits


def _check_layers(model: nn.Module) -> None:
    for name, module in model.named_modules():
        known = isinstance(module, _KNOWN) or _is_activation(module) or next(module.children(), None) is not None
        if not known or isinstance(module, nn.MultiheadAttention):
            raise BiaslibError(f"LRP has no rule for the layer {name!r} ({type(module).__name__}): {_REMEDY}.")


def _is_activation(module: nn.Module) -> bool:
    """Whether a layer changes every number by itself; timm has classes of its own for some such layers."""
    return isinstance(module, Activation) or type(module).__module__.startswith("timm.layers.activations")


class _RelevanceMode(TorchFunctionMode):
    """Gives layers, and the sums, products and means that a model writes in Python, their rules; refuses other steps.

    A layer runs once: what its rule does to the relevance stands beside the layer's own derivative.
    """

    def __init__(self, model: nn.Module, eps: float) -> None:
        super().__init__()
        self.model, self.eps, self.stabiliser = model, eps, min(eps, _STABILISER)
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
        if isinstance(layer, Linear | AvgPool) and layer in self.seen:
            raise refused("layer that runs twice", kind=type(layer).__name__, remedy=_REMEDY)
        self.seen.add(layer)
        map_, *others = inputs
        self.entered.append(map_)
        if isinstance(layer, Linear | AvgPool):
            return _weighed(map_), *others
        if not _is_activation(layer):
            return inputs
        # what is before it keeps its numbers for the way back
        return map_.detach().clone() if getattr(layer, "inplace", False) else map_.detach(), *others

    def _leave_layer(self, layer: nn.Module, _: Any, output: torch.Tensor) -> torch.Tensor:
        map_ = self.entered.pop()
        if isinstance(layer, Linear):
            return _divided(output, self.eps)
        if isinstance(layer, AvgPool):
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


def _weighed(inputs: torch.Tensor) -> torch.Tensor:
    """A layer's input, whose relevance is the derivative times the input."""
    return _Ruled.apply(inputs, lambda gradient: [inputs * gradient], inputs)


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
