"""Generator and critic that grow from 4 x 4 pixels up (Karras et al. 2018), in sizes a book can train; an encoder."""

from collections.abc import Sequence
from math import sqrt
from typing import Any, Final

import torch
from torch import nn
from torch.nn import functional as F

from biaslib.errors import BiaslibError, check_number, refused

_RECTIFIED: Final = sqrt(2)  # what a rectified unit takes from the variance, its layer gives back


class _EqualizedLinear(nn.Module):
    r"""A linear layer; weights from N(0, 1), scaled at run time by $gain / \sqrt{inputs}$ (Karras et al., sec. 4.1)."""

    def __init__(self, inputs: int, outputs: int, *, gain: float = 1.0) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outputs, inputs))
        self.bias = nn.Parameter(torch.zeros(outputs))
        self.scale = gain / sqrt(inputs)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        return F.linear(features, self.weight * self.scale, self.bias)


class _EqualizedConv(nn.Module):
    """A convolution with an odd kernel that keeps the size, or doubles it, scaled at run time as the linear layer is.

    Doubled, it reads the features at twice their size, each pixel repeated; for a kernel of 3. What falls on the same
    pixel is added up before, so that 4 products a pixel do what 9 would.
    """

    def __init__(self, inputs: int, outputs: int, *, kernel: int = 3, gain: float = 1.0, doubled: bool = False) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outputs, inputs, kernel, kernel))
        self.bias = nn.Parameter(torch.zeros(outputs))
        self.scale = gain / sqrt(inputs * kernel**2)
        self.doubled = doubled

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """(N, inputs, h, w) -> (N, outputs, h, w), or (N, outputs, 2h, 2w) if doubled."""
        weight = self.weight * self.scale
        if not self.doubled:
            return F.conv2d(features, weight, self.bias, padding=self.weight.shape[-1] // 2)
        wide = F.pad(weight.flip(2, 3).transpose(0, 1), (1, 1, 1, 1))
        wide = wide[..., 1:, 1:] + wide[..., :-1, 1:] + wide[..., 1:, :-1] + wide[..., :-1, :-1]
        return F.conv_transpose2d(features, wide, self.bias, stride=2, padding=1)


def pixel_norm(features: torch.Tensor) -> torch.Tensor:
    """Features (N, C, ...) divided by their root mean square over the channels (Karras et al. 2018, section 4.2)."""
    return features * (features.square().mean(dim=1, keepdim=True) + 1e-8).rsqrt()


def _with_minibatch_deviation(features: torch.Tensor, *, group: int = 4) -> torch.Tensor:
    """(N, C, h, w) -> (N, C + 1, h, w): how much the images of a group differ, so that a critic sees sameness."""
    n, channels, height, width = features.shape
    size = group if n % group == 0 else n
    parts = features.reshape(size, n // size, channels, height, width)
    centred = parts - parts.mean(dim=0, keepdim=True)
    # the epsilon keeps the root's slope finite; what it adds is taken off again, so that no difference is 0
    deviation = (centred.square().mean(dim=0) + 1e-8).sqrt() - 1e-4
    channel = deviation.mean(dim=(1, 2, 3)).repeat(size).reshape(n, 1, 1, 1).expand(n, 1, height, width)
    return torch.cat([features, channel.to(features.dtype)], dim=1)


class _Layer(nn.Module):
    """A convolution, a leaky rectifier and, in the generator (`even`), the pixel norm."""

    def __init__(self, inputs: int, outputs: int, *, even: bool = False, **options: Any) -> None:
        super().__init__()
        self.convolution = _EqualizedConv(inputs, outputs, gain=_RECTIFIED, **options)
        self.even = even

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        rectified = F.leaky_relu(self.convolution(features), 0.2)
        return pixel_norm(rectified) if self.even else rectified


class GeneratorNetwork(nn.Module):
    """Latent codes to images, at any of its levels: 4 x 4 pixels at level 0, twice as many at each next one.

    Codes have `latent` numbers, normalised to unit root mean square, as on a sphere; `widths` are the channels.
    """

    def __init__(self, *, latent: int = 128, widths: Sequence[int]) -> None:
        super().__init__()
        self.latent, self.widths = latent, tuple(widths)
        self.first = _EqualizedLinear(latent, widths[0] * 16, gain=_RECTIFIED / 4)
        self.blocks = nn.ModuleList(
            nn.Sequential(_Layer(before, width, even=True, doubled=level > 0), _Layer(width, width, even=True))
            for level, (before, width) in enumerate(zip((widths[0], *widths), widths, strict=False))
        )
        self.to_rgb = nn.ModuleList(_EqualizedConv(width, 3, kernel=1) for width in widths)

    def forward(self, codes: torch.Tensor, *, level: int | None = None, alpha: float = 1.0) -> torch.Tensor:
        """(N, latent) -> images (N, 3, size, size), about in [-1, 1], with size = 4 · 2^level.

        Of a code only the direction counts. `level` is the highest that takes part (None: the last), `alpha` in [0, 1]
        how far it is faded in: 0 is the level below, enlarged. Other lengths of codes, or levels, are a `BiaslibError`.
        """
        if codes.ndim != 2 or codes.shape[1] != self.latent:
            raise refused("codes of another length", latent=self.latent, shape=tuple(codes.shape))
        level = len(self.widths) - 1 if level is None else level
        check_number("level", level, 0, len(self.widths) - 1, whole=True)
        features = self.first(pixel_norm(codes)).reshape(-1, self.widths[0], 4, 4)
        features = pixel_norm(F.leaky_relu(features, 0.2))
        below = features
        for number in range(level + 1):
            below = features
            features = self.blocks[number](features)
        image = self.to_rgb[level](features)
        if level == 0 or alpha == 1:
            return image
        enlarged = F.interpolate(self.to_rgb[level - 1](below), scale_factor=2, mode="nearest")
        return torch.lerp(enlarged, image, alpha)


class Critic(nn.Module):
    """Images to one number each, larger for what looks real; grows with the generator, whose widths it has."""

    def __init__(self, *, widths: Sequence[int]) -> None:
        super().__init__()
        self.widths = tuple(widths)
        self.from_rgb = nn.ModuleList(_Layer(3, width, kernel=1) for width in widths)
        after = (widths[0], *widths)  # a level hands over as many channels as the level below has
        self.blocks = nn.ModuleList(
            nn.Sequential(_Layer(width + (level == 0), width), _Layer(width, after[level]))
            for level, width in enumerate(widths)
        )
        self.hidden = _EqualizedLinear(widths[0] * 16, widths[0], gain=_RECTIFIED)
        self.last = _EqualizedLinear(widths[0], 1)

    def forward(self, images: torch.Tensor, *, level: int | None = None, alpha: float = 1.0) -> torch.Tensor:
        """(N, 3, size, size) -> (N,); level and alpha as the generator's."""
        level = len(self.widths) - 1 if level is None else level
        check_number("level", level, 0, len(self.widths) - 1, whole=True)
        size = 4 * 2**level
        if images.ndim != 4 or images.shape[1:] != (3, size, size):
            raise BiaslibError(f"At level {level} images are (N, 3, {size}, {size}), not {tuple(images.shape)}.")
        features = self.from_rgb[level](images)
        for number in range(level, 0, -1):
            features = F.avg_pool2d(self.blocks[number](features), 2)
            if number == level and alpha < 1:
                features = torch.lerp(self.from_rgb[level - 1](F.avg_pool2d(images, 2)), features, alpha)
        features = self.blocks[0](_with_minibatch_deviation(features))
        return self.last(F.leaky_relu(self.hidden(features.flatten(1)), 0.2))[:, 0]


class Encoder(nn.Module):
    """Images to codes of unit root mean square, the only ones that a generator of pixel-normed codes can tell apart.

    A code has `latent` numbers, an image `size` pixels a side, which the `widths` bring to 4, else a `BiaslibError`.
    """

    def __init__(self, *, latent: int, size: int, widths: tuple[int, ...]) -> None:
        super().__init__()
        if size != 4 * 2 ** len(widths):
            raise refused("widths for another size", widths=len(widths), read=4 * 2 ** len(widths), size=size)
        layers: list[nn.Module] = []
        for before, width in zip((3, *widths), widths, strict=False):
            convolution = nn.Conv2d(before, width, 3, stride=2, padding=1, bias=False)
            layers += [convolution, nn.BatchNorm2d(width), nn.LeakyReLU(0.2)]
        self.features = nn.Sequential(*layers)
        self.head = nn.Sequential(
            nn.Flatten(), nn.Linear(widths[-1] * 16, 256), nn.LeakyReLU(0.2), nn.Linear(256, latent)
        )

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """(N, 3, size, size), about in [-1, 1] -> (N, latent)."""
        return pixel_norm(self.head(self.features(images)))
