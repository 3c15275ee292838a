"""Layer-wise relevance propagation by zennit's rules, and by the rule of the DeepExplain toolbox."""

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from zennit.canonizers import NamedMergeBatchNorm
from zennit.types import Activation, AvgPool, BatchNorm, Linear, MaxPool

from biaslib.attribution._models import folded, logits_of, normalised_convolutions
from biaslib.errors import BiaslibError

_REMEDY = "explain this model with integrated_gradients or grad_cam, or with rule='toolbox'"
_KNOWN = (AvgPool, BatchNorm, Linear, MaxPool, nn.Identity, nn.Sequential, nn.Flatten, nn.Dropout, nn.Dropout2d)
_SUMS = {torch.add, *(getattr(torch.Tensor, name) for name in ("add", "add_", "__add__", "__radd__", "__iadd__"))}
_PRODUCTS = {torch.mul, *(getattr(torch.Tensor, name) for name in ("mul", "mul_", "__mul__", "__rmul__", "__imul__"))}
_MEANS = {torch.mean, torch.Tensor.mean}
_SHAPES = {"flatten", "view", "reshape", "view_as", "clone", "contiguous", "permute", "squeeze", "unsqueeze", "detach"}
_SHAPES |= {"requires_grad_", "to", "double", "__get__", "dropout", "pad"}
_STABILISER = 1e-6  # zennit's, where a sum or a mean is shared out


def prepared(model: nn.Module, pixels: torch.Tensor, rule: str, eps: float) -> tuple[nn.Module, torch.Tensor]:
    """A copy, in the precision of the pixels, that relevance can be handed back through by the rule; their logits."""
    copied = copy.deepcopy(model).to(pixels.dtype)
    if rule == "epsilon":
        _check_layers(copied)
        with torch.no_grad():
            return copied, _merge_normalisations(copied, pixels)
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


def _merge_normalisations(model: nn.Module, pixels: torch.Tensor) -> torch.Tensor:
    """Merges every batch normalisation into the convolution before it, in place, as zennit does; the logits before."""
    pairs, logits = normalised_convolutions(model, pixels)
    if folded(model, pixels, pairs, logits) is model:
        raise BiaslibError(
            "With its batch normalisations merged away the model says something else, so that LRP would explain "
            f"another model: {_REMEDY}."
        )
    NamedMergeBatchNorm([([convolution], name) for convolution, name in pairs]).apply(model)
    merged = {name for _, name in pairs}
    for name, module in model.named_modules():
        if isinstance(module, BatchNorm) and name not in merged:
            raise BiaslibError(
                f"The layer {name!r} ({type(module).__name__}) does not follow a convolution directly, so it cannot be "
                f"merged away for LRP: {_REMEDY}."
            )
    return logits


def _check_layers(model: nn.Module) -> None:
    """Refuses a model with a layer that has no rule."""
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
            # inside a layer, the layer's own rule holds; timm's normalisations hold their activation
            if isinstance(module, BatchNorm) or next(module.children(), None) is None:
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
            raise BiaslibError(
                f"LRP has no rule for a layer that runs twice, as a {type(layer).__name__} of this model does: give "
                f"each use a layer of its own, or {_REMEDY}."
            )
        self.seen.add(layer)
        map_, *others = inputs
        self.entered.append(map_)
        if isinstance(layer, Linear | AvgPool):
            return _Weighed.apply(map_), *others
        if not _hands_through(layer):
            return inputs
        # what is before it keeps its numbers for the way back
        return map_.detach().clone() if getattr(layer, "inplace", False) else map_.detach(), *others

    def _leave_layer(self, layer: nn.Module, _: Any, output: torch.Tensor) -> torch.Tensor:
        map_ = self.entered.pop()
        if isinstance(layer, Linear):
            return _Divided.apply(output, self.eps)
        if isinstance(layer, AvgPool):
            return _Divided.apply(output, self.stabiliser)
        return _HandedThrough.apply(output, map_) if _hands_through(layer) else output

    def __torch_function__(self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        given = (*args, *kwargs.values())
        maps = [value for value in given if isinstance(value, torch.Tensor) and value.requires_grad]
        if self.entered or not maps:
            return func(*args, **kwargs)
        if kwargs and func in _SUMS | _PRODUCTS:
            raise BiaslibError(
                f"LRP has no rule for {func.__name__} with {', '.join(kwargs)}=, as this model has: write it with + or "
                f"*, or {_REMEDY}."
            )
        if func in _SUMS:
            return _Sum.apply(args[0], args[1], self.stabiliser)
        if func in _PRODUCTS:
            first, second = sorted(args, key=lambda value: -getattr(value, "numel", lambda: 0)())
            if isinstance(second, torch.Tensor) and second.requires_grad and second.shape == first.shape:
                raise BiaslibError(f"LRP has no rule for a product of two maps, as this model has: {_REMEDY}.")
            return _Gated.apply(first, second.detach() if isinstance(second, torch.Tensor) else second)
        if func in _MEANS:
            return _Mean.apply(func, args, kwargs, self.stabiliser, args[0])
        result = func(*args, **kwargs)
        if isinstance(result, torch.Tensor) and result.is_floating_point() and func.__name__ not in _SHAPES:
            raise BiaslibError(
                f"LRP has no rule for {func.__name__}, which {type(self.model).__name__} calls between its layers: "
                f"make it a layer (as nn.ReLU for relu), or {_REMEDY}."
            )
        return result


def _hands_through(layer: nn.Module) -> bool:
    return _is_activation(layer) or isinstance(layer, BatchNorm)  # a merged normalisation does nothing


def _stable(values: torch.Tensor, eps: float | torch.Tensor) -> torch.Tensor:
    return torch.where(values >= 0, eps, -eps).to(values.dtype).add_(values)


class _Weighed(torch.autograd.Function):
    """A layer's input, whose relevance is the derivative times the input."""

    @staticmethod
    def forward(ctx: Any, inputs: torch.Tensor) -> torch.Tensor:
        ctx.inputs = inputs
        return inputs.view_as(inputs)

    @staticmethod
    def backward(ctx: Any, *gradient: torch.Tensor) -> Any:
        return ctx.inputs * gradient[0]


class _Divided(torch.autograd.Function):
    """A layer's output, whose relevance goes into the layer as a share of it."""

    @staticmethod
    def forward(ctx: Any, outputs: torch.Tensor, eps: float) -> torch.Tensor:
        ctx.outputs, ctx.eps = outputs, eps
        return outputs.view_as(outputs)

    @staticmethod
    def backward(ctx: Any, *relevance: torch.Tensor) -> Any:
        shares = _stable(ctx.outputs, ctx.outputs.new_tensor(ctx.eps))
        return torch.div(relevance[0], shares, out=shares), None


class _HandedThrough(torch.autograd.Function):
    """A layer's output, whose relevance is its input's."""

    @staticmethod
    def forward(ctx: Any, outputs: torch.Tensor, inputs: torch.Tensor) -> torch.Tensor:
        return outputs.view_as(outputs)

    @staticmethod
    def backward(ctx: Any, *relevance: torch.Tensor) -> Any:
        return None, relevance[0]


class _Sum(torch.autograd.Function):
    """a + b, which share the relevance in proportion."""

    @staticmethod
    def forward(ctx: Any, a: Any, b: Any, eps: float) -> torch.Tensor:
        total = a + b
        ctx.parts, ctx.total, ctx.eps = (a, b), total, eps
        return total

    @staticmethod
    def backward(ctx: Any, *relevance: torch.Tensor) -> Any:
        share = relevance[0] / _stable(ctx.total, ctx.eps)
        return *((share * part if isinstance(part, torch.Tensor) else None) for part in ctx.parts), None


class _Gated(torch.autograd.Function):
    """A map times a gate or a number; the relevance is the map's."""

    @staticmethod
    def forward(ctx: Any, map_: torch.Tensor, gate: Any) -> torch.Tensor:
        return map_ * gate

    @staticmethod
    def backward(ctx: Any, *relevance: torch.Tensor) -> Any:
        return relevance[0], None


class _Mean(torch.autograd.Function):
    """A mean over places, which share the relevance in proportion."""

    @staticmethod
    def forward(ctx: Any, mean: Any, args: Any, kwargs: Any, eps: float, map_: torch.Tensor) -> torch.Tensor:
        result = mean(map_, *args[1:], **kwargs)
        with torch.enable_grad():
            again = map_.detach().requires_grad_()
            ctx.again, ctx.result = again, mean(again, *args[1:], **kwargs)
        ctx.eps = eps
        return result

    @staticmethod
    def backward(ctx: Any, *relevance: torch.Tensor) -> Any:
        share = relevance[0] / _stable(ctx.result.detach(), ctx.eps)
        (gradient,) = torch.autograd.grad(ctx.result, ctx.again, share, retain_graph=True)
        return None, None, None, None, gradient * ctx.again.detach()


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
        return _Ratio.apply(inputs, outputs, ratio)


class _Ratio(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, inputs: torch.Tensor, outputs: torch.Tensor, ratio: torch.Tensor) -> torch.Tensor:
        ctx.ratio = ratio
        return outputs.view_as(outputs)

    @staticmethod
    def backward(ctx: Any, *gradient: torch.Tensor) -> Any:
        return gradient[0] * ctx.ratio, None, None
