from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torchvision.models import resnet18
from zennit.canonizers import AttributeCanonizer, MergeBatchNorm, NamedMergeBatchNorm, SequentialMergeBatchNorm
from zennit.composites import LayerMapComposite, layer_map_base
from zennit.layer import Sum
from zennit.rules import Epsilon
from zennit.torchvision import ResNetCanonizer
from zennit.types import Linear

from biaslib import models
from biaslib.attribution import epsilon_lrp
from biaslib.errors import BiaslibError
from tests.attribution.subjects import assert_close, lively, state, trained_halfway


def conv(inputs: int, outputs: int, activation: nn.Module, *, groups: int = 1, bias: bool = True) -> list[nn.Module]:
    return [nn.Conv2d(inputs, outputs, 3, padding=1, groups=groups, bias=bias), nn.BatchNorm2d(outputs), activation]


def vgg_like() -> nn.Sequential:
    body = [*conv(3, 8, nn.ReLU()), nn.MaxPool2d(2), *conv(8, 16, nn.ReLU()), nn.AvgPool2d(2)]
    return shaken(nn.Sequential(*body, nn.Flatten(), nn.Linear(16 * 16, 20), nn.ReLU(), nn.Linear(20, 3)))


def mobilenet_like() -> nn.Sequential:
    body = [*conv(3, 8, nn.ReLU6()), *conv(8, 8, nn.ReLU6(), groups=8), *conv(8, 12, nn.ReLU6())]
    return shaken(nn.Sequential(*body, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(12, 3)))


def without_biases() -> nn.Sequential:
    body = [nn.Conv2d(3, 8, 3, bias=False), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 12, 3, bias=False), nn.ReLU()]
    return shaken(nn.Sequential(*body, nn.Flatten(), nn.Linear(12 * 25, 3, bias=False)))


def shaken(model: Any) -> Any:
    """With normalisations that do something."""
    generator = torch.Generator().manual_seed(0)
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            for value, low in ((module.running_mean, -0.2), (module.bias, -0.2), (module.running_var, 0.5)):
                value.data = low + 1.2 * torch.rand(value.shape, generator=generator)
    return model.eval()


def by_zennit(model: nn.Module, images: torch.Tensor, target: int, eps: float, canonizers: list[Any]) -> torch.Tensor:
    model = model.double().eval()
    images = images.double().requires_grad_()
    composite = LayerMapComposite([(Linear, Epsilon(eps)), *layer_map_base()], canonizers=canonizers)
    with composite.context(model) as registered:
        logits = registered(images)
        start = torch.zeros_like(logits)
        start[:, target] = logits[:, target].detach()
        return torch.autograd.grad(logits, images, start)[0].detach()


@pytest.fixture(autouse=True)
def merged_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before its version 1, zennit leaves a merged normalisation its eps, so that it divides by sqrt(1 + eps) again."""
    merge = MergeBatchNorm.merge_batch_norm

    def whole(modules: Any, batch_norm: Any) -> None:
        merge(modules, batch_norm)
        batch_norm.eps = 0.0

    monkeypatch.setattr(MergeBatchNorm, "merge_batch_norm", staticmethod(whole))


def merged(model: nn.Module) -> NamedMergeBatchNorm:
    """Zennit's own merge, with the neighbours of every block of timm's."""
    pairs = []
    for name, block in model.named_modules():
        for (first, convolution), (second, normalisation) in pairwise(block.named_children()):
            if isinstance(convolution, nn.Conv2d) and isinstance(normalisation, nn.BatchNorm2d):
                pairs.append(([f"{name}.{first}".lstrip(".")], f"{name}.{second}".lstrip(".")))
    return NamedMergeBatchNorm(pairs)


def residual_forward(self: Any, x: torch.Tensor) -> torch.Tensor:
    out = x
    for name, layer in self.named_children():
        if name not in ("drop_path", "residual_sum"):
            out = layer(out)
    return self.residual_sum(torch.stack([out, x], -1)) if self.has_skip else out


def gate_forward(self: Any, x: torch.Tensor) -> torch.Tensor:
    gate = self.gate(self.conv_expand(self.act1(self.conv_reduce(x.mean((2, 3), keepdim=True)))))
    return x + (x * gate - x).detach()


def timm_blocks(_name: str, module: Any) -> dict[str, Any] | None:
    if type(module).__name__ in ("InvertedResidual", "DepthwiseSeparableConv"):
        return {"forward": residual_forward.__get__(module), "residual_sum": Sum()}
    if type(module).__name__ == "SqueezeExcite":
        return {"forward": gate_forward.__get__(module)}
    return None


def relevance(model: nn.Module, images: torch.Tensor, target: int, eps: float, **options: Any) -> torch.Tensor:
    return epsilon_lrp(model, images, [target], eps=eps, signed=True, **options)[:, 0]


def gradient_times_input(model: nn.Module, images: torch.Tensor, target: int) -> torch.Tensor:
    model, images = model.double(), images.double().requires_grad_()
    return (torch.autograd.grad(model(images)[:, target].sum(), images)[0] * images).detach().float()


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def test_by_hand() -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(3, 2, bias=False), nn.ReLU(), nn.Linear(2, 1))
    with torch.no_grad():
        model[1].weight.copy_(torch.tensor([[1.0, 1.0, 0.0], [0.0, -2.0, 1.0]]))
        model[3].weight.copy_(torch.tensor([[3.0, 1.0]]))
        model[3].bias.fill_(1.0)
    image = torch.tensor([2.0, 1.0, 1.0])[None, :, None, None]
    # hidden 3 and -1 -> 0; the logit is 9 + 0 + 1 = 10; eps = 1: the unit gets 9 * 10/11, pixels 2/4 and 1/4 of it
    share = 9 * 10 / 11
    expected = torch.tensor([2.0, 1.0, 0.0]) * share / 4
    torch.testing.assert_close(relevance(model, image, 0, 1.0).flatten(), expected)
    torch.testing.assert_close(epsilon_lrp(model, image, [0], eps=1.0).flatten(), expected.square().sum()[None])
    # the toolbox adds no eps at the last layer: 9, of which 3/4 pass the unit
    toolbox = relevance(model, image, 0, 1.0, rule="toolbox").flatten()
    torch.testing.assert_close(toolbox, torch.tensor([2.0, 1.0, 0.0]) * 9 / 4)


@pytest.mark.parametrize("eps", [1e-6, 10.0])
@pytest.mark.parametrize(
    ("build", "canonizer", "size"),
    [
        (vgg_like, lambda _: SequentialMergeBatchNorm(), 16),
        (mobilenet_like, lambda _: SequentialMergeBatchNorm(), 16),
        (lambda: shaken(resnet18(num_classes=3)), lambda _: ResNetCanonizer(), 40),
    ],
)
def test_equals_zennit(build: Any, canonizer: Any, size: int, eps: float) -> None:
    model = build()
    images = torch.randn(2, 3, size, size)
    ours = relevance(model, images, 1, eps, scaled=True, batch=1)
    theirs = by_zennit(model, images, 1, eps, [canonizer(model), AttributeCanonizer(timm_blocks)])
    assert_close(ours, (theirs / theirs.abs().amax((1, 2, 3), keepdim=True)).float(), 1e-3)


@pytest.mark.parametrize("eps", [pytest.param(1e-6, marks=pytest.mark.slow), 10.0])
@pytest.mark.parametrize("architecture", ["mobilenetv1_100", "efficientnet_b0"])
def test_equals_zennit_for_the_papers_networks(architecture: str, eps: float) -> None:
    test_equals_zennit(lambda: lively(architecture), merged, 40, eps)


def test_conserves_relevance_and_equals_gradient_times_input_without_biases() -> None:
    model = without_biases()
    images = torch.randn(2, 3, 16, 16)
    expected = gradient_times_input(model, images, 2)
    gaps = []
    for eps in (1e-2, 1e-5, 1e-9):
        found = relevance(model, images, 2, eps)
        logits = model(images.double())[:, 2].detach()
        gaps.append(float((found.sum((1, 2, 3)) / logits - 1).abs().max()))
    assert_close(found, expected, 1e-5)
    assert gaps[0] > gaps[1] > gaps[2]
    assert gaps[2] < 1e-5
    assert_close(relevance(model, images, 2, 1e-9, rule="toolbox"), expected, 1e-5)


def test_the_toolbox_is_the_epsilon_rule_on_hidden_layers() -> None:
    model = shaken(nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.ReLU(), nn.Flatten()))
    model.append(nn.Linear(8 * 12 * 12, 3)).double()
    images = torch.randn(2, 3, 16, 16)
    pixels = images.double().requires_grad_()
    last = Epsilon(1e-12)
    rules = [((nn.Linear,), last), (Linear, Epsilon(0.5)), *layer_map_base()]
    with LayerMapComposite(rules).context(model) as registered:
        logits = registered(pixels)
        start = torch.zeros_like(logits)
        start[:, 1] = logits[:, 1].detach()
        (expected,) = torch.autograd.grad(logits, pixels, start)
    assert_close(relevance(model, images, 1, 0.5, rule="toolbox"), expected.float(), 1e-5)


def test_the_toolbox_does_not_know_relu6_or_swish() -> None:
    images = torch.randn(1, 3, 16, 16)
    for activation, known in ((nn.ReLU6(), False), (nn.SiLU(), False), (nn.ELU(), True), (nn.Softplus(), True)):
        model = nn.Sequential(nn.Conv2d(3, 4, 3), activation, nn.Flatten(), nn.Linear(4 * 14 * 14, 2))
        same = torch.allclose(
            relevance(model, images, 0, 10.0, rule="toolbox"), gradient_times_input(model, images, 0), rtol=1e-4
        )
        assert same is not known


def test_batches_and_targets() -> None:
    model = lively("small")
    images = torch.randn(3, 3, 32, 32)
    for rule in ("epsilon", "toolbox"):
        every = epsilon_lrp(model, images, range(4), rule=rule)
        assert every.shape == (3, 4, 32, 32)
        assert every.dtype == torch.float32
        each = np.array([[0, 3], [2, 2], [1, 0]])
        expected = every[torch.arange(3)[:, None], torch.from_numpy(each)]
        assert_close(epsilon_lrp(model, images, each, rule=rule, batch=2), expected)
        squared = epsilon_lrp(model, images, range(4), rule=rule, signed=True).square().sum(2)
        assert_close(squared, every)
    with torch.inference_mode():
        assert torch.equal(epsilon_lrp(model, images, range(4), rule="toolbox"), every)


@pytest.mark.parametrize("rule", ["epsilon", "toolbox"])
@pytest.mark.parametrize("fails", [False, True])
def test_the_model_comes_back_as_it_was(rule: Any, fails: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    model = trained_halfway()
    before = state(model)
    if fails:
        monkeypatch.setattr("torch.autograd.grad", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            epsilon_lrp(model, torch.randn(1, 3, 32, 32), [0, 1], rule=rule)
    else:
        epsilon_lrp(model, torch.randn(1, 3, 32, 32), [0, 1], rule=rule)
    torch.testing.assert_close(state(model), before, rtol=0, atol=0)


class Odd(nn.Module):
    """A convolution and then something in Python."""

    def __init__(self, step: Any) -> None:
        super().__init__()
        self.convolution, self.step = nn.Conv2d(3, 2, 1), step

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.step(self.convolution(images)).mean((2, 3))


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (nn.Sequential(nn.Conv2d(3, 2, 1), nn.GroupNorm(1, 2)), r"no rule for the layer '1' \(GroupNorm\): explain"),
        (nn.Sequential(nn.BatchNorm2d(3), nn.Conv2d(3, 2, 1)), r"layer '0' \(BatchNorm2d\) does not follow"),
        (Odd(torch.relu), "no rule for relu, which Odd calls between its layers: make it a layer"),
        (Odd(lambda x: x * x), "no rule for a product of two maps"),
    ],
)
def test_a_layer_without_a_rule_is_named(model: nn.Module, message: str) -> None:
    with pytest.raises(BiaslibError, match=message):
        epsilon_lrp(model.eval(), torch.randn(1, 3, 4, 4), [0])


@pytest.mark.parametrize(
    ("targets", "options", "message"),
    [
        ([0, 5], {}, "There is no target 5: the model has 2 outputs"),
        ([0.5], {}, "targets must be whole numbers"),
        ([0], {"eps": 0}, "eps must be positive, not 0"),
        ([0], {"rule": "gamma"}, "rule must be one of epsilon, toolbox, not 'gamma'"),
        ([0], {"batch": 0}, "batch must be at least 1, not 0"),
        ([0], {"eps": 1e12}, "too small for a float32 map: pass scaled=True"),
    ],
)
def test_wrong_input_gets_one_sentence(targets: Any, options: dict[str, Any], message: str) -> None:
    torch.manual_seed(0)
    with pytest.raises(BiaslibError, match=message):
        epsilon_lrp(models.build("small", 2), torch.randn(1, 3, 32, 32), targets, **options)


class Residual(nn.Module):
    """A normalisation beside the very map that it normalises."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution, self.normalisation = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)
        self.head = nn.Sequential(nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 2))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        first = self.convolution(images)
        return self.head(self.normalisation(first) + first)


class Weighted(nn.Module):
    """A sum with a weight, which torch takes as a keyword."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.other = nn.Conv2d(3, 4, 3), nn.Conv2d(3, 4, 3)
        self.head = nn.Sequential(nn.Flatten(), nn.Linear(4 * 36, 2))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.head(torch.add(self.one(images), self.other(images), alpha=0.1))


def repeated() -> nn.Sequential:
    shared = nn.Conv2d(3, 3, 3, padding=1)
    return nn.Sequential(shared, nn.ReLU(), shared, nn.ReLU(), nn.Flatten(), nn.Linear(3 * 64, 2))


def norm_after_inplace_relu() -> nn.Sequential:
    body = [nn.Conv2d(3, 4, 3), nn.ReLU(inplace=True), nn.BatchNorm2d(4)]
    return shaken(nn.Sequential(*body, nn.Flatten(), nn.Linear(4 * 36, 2)))


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (lambda: shaken(Residual()), "says something else"),
        (norm_after_inplace_relu, "says something else"),
        (lambda: Weighted().eval(), "with alpha="),
        (lambda: repeated().eval(), "a layer that runs twice"),
    ],
)
def test_a_model_that_would_be_explained_as_another_is_refused(model: Any, message: str) -> None:
    torch.manual_seed(0)
    with pytest.raises(BiaslibError, match=message):
        epsilon_lrp(model(), torch.randn(2, 3, 8, 8), [0])


def test_the_toolbox_finds_an_activation_under_both_its_names() -> None:
    torch.manual_seed(0)
    first, second, last, shared = nn.Conv2d(3, 4, 3), nn.Conv2d(4, 4, 3), nn.Linear(4 * 16, 2), nn.ReLU()
    images = torch.randn(2, 3, 8, 8)
    once = nn.Sequential(first, shared, second, shared, nn.Flatten(), last).eval()
    apart = nn.Sequential(first, nn.ReLU(), second, nn.ReLU(), nn.Flatten(), last).eval()
    found, expected = (epsilon_lrp(net, images, [0, 1], rule="toolbox", eps=0.5, scaled=True) for net in (once, apart))
    torch.testing.assert_close(found, expected)


def test_an_activation_in_place_hands_relevance_through_as_any_other() -> None:
    torch.manual_seed(0)
    convolution, last = nn.Conv2d(3, 4, 3), nn.Linear(4 * 36, 2)
    images = torch.randn(2, 3, 8, 8)
    maps = [
        epsilon_lrp(nn.Sequential(convolution, nn.Hardswish(inplace), nn.Flatten(), last).eval(), images, [0, 1])
        for inplace in (False, True)
    ]
    assert torch.equal(*maps)
