"""The images of an audit, and what the model says of them: piece by piece, so that a killed audit goes on."""

import functools
import hashlib
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tqdm import tqdm

from biaslib import attribution, store, training
from biaslib.audit.model import ModelUnderAudit, draw
from biaslib.audit.tables import Mask, Outline
from biaslib.datasets.pictures import UNREADABLE
from biaslib.errors import BiaslibError, refused
from biaslib.metrics import mask_score, relevance_mass_accuracy, upsample_maps
from biaslib.store import parallel
from biaslib.store.files import sha256

_PIECE = 256  # images whose predictions are kept together
_EVERY = 20.0  # seconds between two lines of a log

_Masks = Mapping[str, Sequence[Mask | None]]  # of each region
_Tell = Callable[[int], object]  # of so many more images or files that are done


@dataclass(frozen=True)
class Predictions:
    """What a model says of N images, n of them readable, and where it looks; NaN where an image has no such region."""

    readable: np.ndarray  # (N,) bool
    outputs: np.ndarray  # (n, 1 + groups), above 0 is yes
    maps: np.ndarray | None  # (n, 1 + groups, h, w) of the size of each output, by rollout (n, 1, h, w); None: no map
    mass: dict[str, np.ndarray]  # region -> (n,) share of the target's map in the region
    score: dict[str, np.ndarray]  # region -> (n,) Attention-IoU of the target's map with the region
    area: dict[str, np.ndarray]  # region -> (n,) share of the image that the region covers


def file_digests(folder: Path, files: Sequence[str], masks: Sequence[Sequence[Mask | None]]) -> list[list[str]]:
    """A hash of every image, and of the masks of each region; "" where there is no mask."""
    paths: list[Sequence[Mask | None]] = [[folder / name for name in files], *masks]
    with progress(sum(map(len, paths)), "reading files", "file", leave=False) as bar:
        return [[_digest(path, bar.update) for path in each] for each in paths]


def predict(
    model: ModelUnderAudit,
    folder: Path,
    files: Sequence[str],
    masks: _Masks,
    *,
    digests: Sequence[Sequence[str]],
    batch: int = 32,
) -> Predictions:
    """Asks the model about every image, so many at once; what was asked before comes from the store.

    A BiaslibError where no image can be read, or the outputs look like probabilities and no threshold was given.
    """
    pieces = []
    parallel.keep_memory()  # a fifth of a network's time went into pages that were handed back after every batch
    with progress(len(files), "asking the model", "image") as bar:
        for start in range(0, len(files), _PIECE):
            rows = slice(start, start + _PIECE)
            pictures = [folder / name for name in files[rows]]
            outlines = [list(paths[rows]) for paths in masks.values()]
            config = [model.key, [list(each[rows]) for each in digests]]
            before = bar.n
            compute = functools.partial(_ask, model, pictures, outlines, batch, bar.update)
            pieces.append(store.get_or_compute("audit", config, compute, code=_ask))
            bar.update(before + len(pictures) - bar.n)
            if not any(piece["readable"].any() for piece in pieces[:-1]):
                _check_for_probabilities(model, pieces[-1]["outputs"])
    readable = np.concatenate([piece["readable"] for piece in pieces])
    if not readable.any():
        raise BiaslibError(f"None of the {len(readable):,} images can be read: are they pictures?")
    whole = _together(pieces)
    measured = [{name: whole["regions"][:, i, kind] for i, name in enumerate(masks)} for kind in range(3)]
    return Predictions(readable, whole["outputs"], whole["maps"] if whole["maps"].size else None, *measured)


def _ask(
    model: ModelUnderAudit, pictures: list[Path], outlines: list[list[Mask | None]], batch: int, tell: _Tell
) -> dict[str, np.ndarray]:
    rows = [slice(start, start + batch) for start in range(0, len(pictures), batch)]
    return _together([_ask_batch(model, pictures[at], [paths[at] for paths in outlines], tell) for at in rows])


def _ask_batch(
    model: ModelUnderAudit, pictures: list[Path], outlines: list[list[Mask | None]], tell: _Tell
) -> dict[str, np.ndarray]:
    loaded = [_loaded(model, path) for path in pictures]
    readable = np.array([picture is not None for picture in loaded])
    regions = np.full((int(readable.sum()), len(outlines), 3), np.nan)
    tell(len(pictures))
    if not readable.any():
        none, no_map = np.empty((0, 0), np.float32), np.empty((0, 0, 0, 0), np.float32)
        return {"readable": readable, "outputs": none, "maps": no_map, "regions": regions}
    pixels = model.preprocessing.normalised(np.stack([picture for picture in loaded if picture is not None]))
    outputs, maps = _outputs_and_maps(model, torch.from_numpy(pixels))
    finite = np.isfinite(outputs).all(axis=1)
    if not finite.all():
        first = list(compress(pictures, readable))[int(np.argmin(finite))].name
        raise refused("answers that are no numbers", wrong=int((~finite).sum()), n=len(finite), first=first)
    for region, paths in enumerate(outlines):
        for row, path in enumerate(compress(paths, readable)):
            if path is not None:
                regions[row, region] = _in_region(maps[row, 0], model.preprocessing.mask(path))
    return {"readable": readable, "outputs": outputs, "maps": maps, "regions": regions}


def _together(parts: list[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Parts as one; those without a readable image know no number of outputs and have no rows."""
    some = [part for part in parts if part["readable"].any()] or parts[:1]
    return {name: np.concatenate([part[name] for part in (parts if name == "readable" else some)]) for name in parts[0]}


def _outputs_and_maps(model: ModelUnderAudit, pixels: torch.Tensor) -> tuple[np.ndarray, np.ndarray]:
    """(n, T) and (n, T, h, w), for Grad-CAM of one forward pass; no cell where the model has no map."""
    if model.described["maps"] != "grad-cam":
        outputs = training.predict(model.outputs, pixels, batch=len(pixels))
        return outputs, draw(model.described["maps"], model.outputs, pixels, range(outputs.shape[1])).numpy()
    asked = model.outputs
    with torch.no_grad():
        # convolutions read this memory order faster
        features = asked.forward_features(pixels.to(asked.anchor.device, memory_format=torch.channels_last))
        # a head may begin with an activation in place
        outputs = asked.forward_head(features.clone()).float().cpu().numpy()
    known, targets = asked.knowing(features), np.arange(outputs.shape[1])
    return outputs, attribution.grad_cam(known, pixels, targets, absolute=True, batch=len(pixels)).numpy()


def _in_region(heat: np.ndarray, mask: np.ndarray) -> tuple[float, float, float]:
    """Mass, Attention-IoU and area."""
    area = float(mask.mean())
    if heat.size == 0:
        return np.nan, np.nan, area
    mass = float(relevance_mass_accuracy(upsample_maps(heat, *mask.shape), mask))
    return mass, float(mask_score(heat[None], mask[None])[0]), area


def _loaded(model: ModelUnderAudit, path: Path) -> np.ndarray | None:
    with suppress(*UNREADABLE):
        return model.preprocessing.picture(path)
    return None


def _digest(path: Mask | None, tell: _Tell) -> str:
    tell(1)
    if path is None:
        return ""
    if isinstance(path, Outline):
        return hashlib.sha256(repr(path).encode()).hexdigest()
    try:
        return sha256(path)
    except OSError:
        return "unreadable"  # an image is left out and listed, a mask is refused when its turn comes


class _Log:
    """How far something is, in a line now and then."""

    def __init__(self, total: int, doing: str, unit: str):
        self.n, self.last, self.line = 0, time.monotonic(), f"{doing}: {{:,}} of {total:,} {unit}s"

    def update(self, more: int) -> None:
        self.n += more
        if time.monotonic() >= self.last + _EVERY:
            self.last = time.monotonic()
            print(self.line.format(self.n), file=sys.stderr, flush=True)


def progress(total: int, doing: str, unit: str, *, leave: bool = True) -> AbstractContextManager[Any]:
    """A bar on a terminal, elsewhere lines for a log; `TQDM_DISABLE` in the environment silences both."""
    silent = bool(os.environ.get("TQDM_DISABLE"))
    if silent or sys.stderr.isatty():
        return tqdm(total=total, desc=doing, unit=unit, leave=leave, disable=silent)
    return nullcontext(_Log(total, doing, unit))


def _check_for_probabilities(model: ModelUnderAudit, outputs: np.ndarray) -> None:
    """Logits that all lie there would say yes to every image, and to stop for that costs little."""
    if model.checked_for_probabilities and len(outputs) and (outputs[:, 0] >= 0).all() and (outputs[:, 0] <= 1).all():
        raise refused("answers like probabilities", n=len(outputs))
