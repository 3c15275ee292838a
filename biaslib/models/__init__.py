"""Image classifiers by name, split where attribution needs it: a feature map, then a head."""

from biaslib.models.building import build, cached_batch, device, first_layers, normalisation, pinned, to_tensor

__all__ = ["build", "cached_batch", "device", "first_layers", "normalisation", "pinned", "to_tensor"]
