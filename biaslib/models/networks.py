"""Networks of our own: small ones for quick runs, and those whose published weights timm does not have."""

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, Final

import torch
from torch import nn

from biaslib.errors import refused

# of pixels in [0, 1]: every network here but LeNet-5 sees them less this mean, divided by this deviation
IMAGENET_MEAN: Final = (0.485, 0.456, 0.406)
IMAGENET_STD: Final = (0.229, 0.224, 0.225)


class _Split(nn.Module):
    """A network with the two methods of a timm model that this package uses: `features`, averaged, then `fc`."""

    pretrained_cfg: ClassVar[dict[str, Any]] = {"classifier": "fc"}  # timm's name for: where the last layer is
    features: nn.Module
    fc: nn.Module

    def forward_features(self, images: torch.Tensor) -> torch.Tensor:
        """(N, 3, H, W) -> the last map (N, C, h, w)."""
        return self.features(images)

    def forward_head(self, features: torch.Tensor) -> torch.Tensor:
        """The last map -> logits (N, outputs)."""
        # training keeps channels last; the gradient of mean((2, 3)) does not, and going back takes milliseconds a step
        return self.fc(features.permute(0, 2, 3, 1).flatten(1, 2).mean(1))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """(N, 3, H, W) -> logits (N, outputs)."""
        return self.forward_head(self.forward_features(images))


class _SmallCNN(_Split):
    """A classifier for quick runs: 64 px in, an 8 x 8 map with a receptive field of 23 px, seconds to train."""

    def __init__(self, outputs: int) -> None:
        super().__init__()
        first = (_conv(3, 16, stride=2), _conv(16, 32, stride=2), _conv(32, 64))
        self.features = nn.Sequential(*first, _conv(64, 96, stride=2), _conv(96, 128, kernel=1))
        self.fc = nn.Linear(128, outputs)


class _LeNet5(_Split):
    """LeNet-5 (LeCun et al. 1998) for pictures of 28 pixels, of which it sees the grey, in today's usual dress.

    The original takes pictures of 32 pixels, hence a padding of 2. Without it a pixel in a corner is seen by one place
    of the first map; so is the network that Zhao, Andrews and Xiang (2023) released. Pixels are scaled as there.
    """

    pretrained_cfg: ClassVar[dict[str, Any]] = {"classifier": "fc", "mean": (0.1307,) * 3, "std": (0.3081,) * 3}

    def __init__(self, outputs: int, *, padding: int) -> None:
        super().__init__()
        side = 4 + padding // 2  # of the last map after pooling
        self.features = nn.Sequential(
            nn.Conv2d(1, 6, 5, padding=padding), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU()
        )
        self.hidden = nn.Sequential(
            nn.MaxPool2d(2), nn.Flatten(), nn.Linear(16 * side**2, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU()
        )
        self.fc = nn.Linear(84, outputs)

    def forward_features(self, images: torch.Tensor) -> torch.Tensor:
        """(N, 3, 28, 28) -> the last map (N, 16, 10, 10), or 8 x 8 without padding."""
        if images.shape[2:] != (28, 28):
            raise refused("pictures too large for LeNet-5", height=images.shape[2], width=images.shape[3])
        return self.features(images.mean(1, keepdim=True))

    def forward_head(self, features: torch.Tensor) -> torch.Tensor:
        """The last map -> logits (N, outputs)."""
        return self.fc(self.hidden(features))


def _small_mobilenet(outputs: int) -> nn.Module:
    """MobileNetV1's idea (depthwise separable convolutions, ReLU6) at 64 px with an 8 x 8 map; 30,000 weights."""
    blocks = ["cn_r1_k3_s2_e1_c32", "dsa_r1_k3_s1_c64", "dsa_r1_k3_s2_c96", "dsa_r1_k3_s1_c128"]
    return _from_blocks(blocks, outputs, stem_size=16, num_features=0, act_layer=nn.ReLU6)


def _small_efficientnet(outputs: int) -> nn.Module:
    """EfficientNet's (inverted residuals, squeeze and excitation, SiLU) at 64 px with an 8 x 8 map; 40,000 weights."""
    blocks = ["cn_r1_k3_s2_e1_c32", "ir_r1_k3_s2_e3_c48_se0.25", "ir_r1_k3_s1_e3_c48_se0.25"]
    return _from_blocks(blocks, outputs, stem_size=16, num_features=128, act_layer=nn.SiLU)


def _mobilenetv1(outputs: int, *, width: float) -> nn.Module:
    """MobileNetV1 (Howard et al. 2017) as TensorFlow pads it and with its epsilon, so that its weights fit."""
    from timm.models._efficientnet_builder import round_channels

    blocks = ["dsa_r1_k3_s1_c64", "dsa_r2_k3_s2_c128", "dsa_r2_k3_s2_c256", "dsa_r6_k3_s2_c512", "dsa_r2_k3_s2_c1024"]
    return _from_blocks(
        blocks, outputs, stem_size=32, num_features=0, act_layer=nn.ReLU6, pad_type="same",
        norm_layer=partial(nn.BatchNorm2d, eps=1e-3), round_chs_fn=partial(round_channels, multiplier=width),
    )  # fmt: skip


def _small_vit(outputs: int) -> nn.Module:
    """A vision transformer (Dosovitskiy et al. 2021) at 64 px with an 8 x 8 map of patches; 70,000 weights.

    Images of other sizes are padded to whole patches, on the right and below.
    """
    from timm.models import VisionTransformer

    class SmallViT(VisionTransformer):
        """Its last patches lie as a map, (N, 48, 8, 8), of which the head takes the mean."""

        def forward_features(self, x: torch.Tensor, **options: Any) -> torch.Tensor:
            tokens = super().forward_features(x, **options)
            return tokens.mT.unflatten(2, self.patch_embed.dynamic_feat_size(x.shape[2:]))

        def forward_head(self, x: torch.Tensor, pre_logits: bool = False) -> torch.Tensor:
            return super().forward_head(x.flatten(2).mT, pre_logits)

    sizes = {"img_size": 64, "patch_size": 8, "embed_dim": 48, "depth": 3, "num_heads": 3, "mlp_ratio": 2.0}
    any_size = {"dynamic_img_size": True, "dynamic_img_pad": True}
    model: Any = SmallViT(num_classes=outputs, global_pool="avg", class_token=False, **any_size, **sizes)
    model.pretrained_cfg = {"classifier": "head"}
    return model


OURS: Final[dict[str, Callable[[int], nn.Module]]] = {
    "small": _SmallCNN,
    "small_mobilenet": _small_mobilenet,
    "small_efficientnet": _small_efficientnet,
    "small_vit": _small_vit,
    "lenet5": partial(_LeNet5, padding=2),
    "lenet5_unpadded": partial(_LeNet5, padding=0),
    "mobilenetv1_025": partial(_mobilenetv1, width=0.25),
    "mobilenetv1_075": partial(_mobilenetv1, width=0.75),
}


def _from_blocks(blocks: list[str], outputs: int, **options: Any) -> nn.Module:
    """A network of timm's blocks, in its notation: kind, repeats, kernel, stride, expansion, channels."""
    # takes as long to import as torch, and the plain networks do without
    from timm.models._efficientnet_builder import decode_arch_def
    from timm.models.efficientnet import EfficientNet

    model: Any = EfficientNet(decode_arch_def([[block] for block in blocks]), num_classes=outputs, **options)
    model.pretrained_cfg = {"classifier": "classifier"}
    return model


def _conv(inputs: int, outputs: int, *, kernel: int = 3, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, stride=stride, padding=kernel // 2, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(inplace=True),
    )
