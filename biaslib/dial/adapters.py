"""What captum, grad-cam, Quantus and fairlearn offer, as functions of a case, which `dial.metric(...)` enters.

Your file imports the other library. All but `fairlearn` are of tier 3 and give (N,): NaN where a map is 0 everywhere,
and where an image has no pixel of the `region`, "object" or "cue". `fairlearn` gives a number of tier 1, and NaN where
all images are of one group.
"""

from typing import Any

import numpy as np
import torch

from biaslib import models, training
from biaslib.attribution._models import batches
from biaslib.dial.entries import Function, Seen
from biaslib.dial.measuring import answered_output
from biaslib.metrics import relevance_mass_accuracy, upsample_maps


def captum(method: Any, /, *, region: str = "cue", score: Any = relevance_mass_accuracy, **options: Any) -> Function:
    """The `score` in a region of the answer's attribution by a class of captum.attr; `options` go to its `attribute`.

    `method` may be any function that makes such an object of the network, whose `last_map` is a layer. Relevance is the
    sum of the absolute values over channels: a share needs one sign, and colours of opposite signs must not cancel.
    """

    def relevance(network: Any, pixels: torch.Tensor, answers: torch.Tensor) -> np.ndarray:
        found = method(network).attribute(pixels.requires_grad_(), target=answers, **options)
        return found.detach().abs().sum(dim=1).cpu().numpy()

    return lambda case: score(_maps(case, relevance), case.mask(region))


def grad_cam(cam: Any, *, region: str = "cue", score: Any = relevance_mass_accuracy, at: str = "last_map") -> Function:
    """Likewise of what a class of pytorch_grad_cam finds relevant in one layer, `at` a path in the network."""

    def relevance(network: Any, pixels: torch.Tensor, answers: torch.Tensor) -> np.ndarray:
        made, found = cam(network, [network.get_submodule(at)]), dict[str, np.ndarray]()
        compute = made.get_cam_image  # before the least value is subtracted for display, which changes shares of mass
        made.get_cam_image = lambda *given: found.setdefault("map", compute(*given))
        made(pixels, [lambda logits, answer=answer: logits[answer] for answer in answers])
        made.activations_and_grads.release()
        return found["map"].clip(min=0)

    return lambda case: score(_maps(case, relevance), case.mask(region))


def quantus(metric: Any, /, *, region: str = "", **options: Any) -> Function:
    """The number an image of a metric object of Quantus for Grad-CAM, enlarged; with masks, if a region is named."""

    def value(case: Seen) -> np.ndarray:
        maps = upsample_maps(case.map.astype(np.float32), *case.pictures.shape[1:3])
        masks = case.mask(region) if region else maps > -1  # all of the image
        rows, values = maps.any(axis=(1, 2)) & masks.any(axis=(1, 2)), np.full(len(maps), np.nan)
        if rows.any():
            own: dict[str, Any] = {"channel_first": True, "device": str(models.device()), "a_batch": maps[rows, None]}
            own |= {"s_batch": masks[rows, None]} if region else {}
            pixels = models.to_tensor(case.pictures[rows], model=case.network)
            answers = answered_output(case._case.trial.world, training.predict(case.network, pixels))
            values[rows] = metric(case.network, pixels.numpy(), answers, **own, **options)
        return values

    return value


def fairlearn(metric: Any, *, how: str = "difference") -> Function:
    """What a function gives that takes `sensitive_features`, which are the cue; `how` is asked of a `MetricFrame`."""

    def value(case: Seen) -> float:
        found = metric(y_true=case.truth * 1, y_pred=case.answer * 1, sensitive_features=case.cue)
        return getattr(found, how, lambda: found)() if len(set(case.cue)) == 2 else np.nan

    return value


def _maps(case: Seen, relevance: Any) -> np.ndarray:
    """(N, H, W) of what `relevance` makes of a network, of some images and of the outputs that are their answers."""
    network: Any = case.network
    features, network.last_map = network.forward_features, torch.nn.Identity()
    network.forward_features = lambda pixels: network.last_map(features(pixels))
    for module in network.modules():
        module.inplace = False  # a hook would see what was written over
    answers = torch.from_numpy(answered_output(case._case.trial.world, training.predict(network, case.pictures)))
    found = [relevance(network, *each) for each in batches(network, case.pictures, answers, batch=32)]
    return upsample_maps(np.concatenate(found), *case.pictures.shape[1:3])
