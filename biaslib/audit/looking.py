"""Asks a model about all images, piece by piece; a killed audit goes on with the next piece."""

import functools
import hashlib
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import nn
from tqdm import tqdm

from biaslib import attribution, store, training
from biaslib.audit.subjects import Answers, Subject
from biaslib.datasets.decoded import UNREADABLE
from biaslib.errors import BiaslibError
from biaslib.metrics import mask_score, relevance_mass_accuracy, upsample_maps

PIECE = 256  # images whose answers are kept together

Masks = Mapping[str, Sequence[Path | None]]


@dataclass(frozen=True)
class Seen:
    """What a model says of N images and where it looks; n of them could be read.

    Attributes:
        read: (N,) bool.
        answers: (n, 1 + groups), above 0 is yes.
        maps: (n, 1 + groups, h, w) Grad-CAM of the size of each answer; None where the model has no map.
        mass: region -> (n,) share of the target's map in the region; NaN where the image has no such region.
        score: region -> (n,) Attention-IoU of the target's map with the region; NaN likewise.
        area: region -> (n,) share of the image that the region covers; NaN without a mask.
    """

    read: np.ndarray
    answers: np.ndarray
    maps: np.ndarray | None
    mass: dict[str, np.ndarray]
    score: dict[str, np.ndarray]
    area: dict[str, np.ndarray]


def contents(folder: Path, files: Sequence[str], masks: Masks) -> list[list[str]]:
    """What the images hold, and the masks of each region: a hash of every file, "" where there is no mask."""
    everything: list[list[Path | None]] = [[folder / name for name in files], *(list(one) for one in masks.values())]
    total = sum(map(len, everything))
    with _bar(total, "reading files", "file", leave=False) as bar:
        return [[_digest(path, bar.update) for path in paths] for paths in everything]


def look(
    subject: Subject,
    folder: Path,
    files: Sequence[str],
    masks: Masks,
    *,
    batch: int = 32,
    held: Sequence[Sequence[str]] | None = None,
) -> Seen:
    """Asks the model about every image; what was asked before comes from the store.

    Args:
        subject: the model.
        folder: of the images.
        files: their names.
        masks: region -> the mask of each image, or None.
        batch: images at once.
        held: the `contents` of images and masks, where they are known.

    Raises:
        BiaslibError: where no image can be read, or the outputs look like probabilities and no threshold was given.
    """
    regions = list(masks)
    known = contents(folder, files, masks) if held is None else held
    pieces = []
    with _bar(len(files), "asking the model", "image") as bar:
        for start in range(0, len(files), PIECE):
            rows = slice(start, start + PIECE)
            pictures = [folder / name for name in files[rows]]
            outlines = [list(masks[region][rows]) for region in regions]
            config = [subject.key, [list(one[rows]) for one in known]]
            before = bar.n
            compute = functools.partial(_ask, subject, pictures, outlines, batch, bar.update)
            pieces.append(store.get_or_compute("audit", config, compute, code=_ask))
            bar.update(before + len(pictures) - bar.n)
            if not any(piece["read"].any() for piece in pieces[:-1]):
                _check_for_probabilities(subject, pieces[-1]["answers"])
    return _together(pieces, regions)


def _ask(
    subject: Subject,
    pictures: list[Path],
    outlines: list[list[Path | None]],
    batch: int,
    tell: Callable[[int], object],
) -> dict[str, np.ndarray]:
    found = [
        _ask_batch(subject, pictures[i : i + batch], [masks[i : i + batch] for masks in outlines], tell)
        for i in range(0, len(pictures), batch)
    ]
    some = [one for one in found if one["read"].any()] or found[:1]
    return {name: np.concatenate([one[name] for one in (found if name == "read" else some)]) for name in found[0]}


def _ask_batch(
    subject: Subject, pictures: list[Path], outlines: list[list[Path | None]], tell: Callable[[int], object]
) -> dict[str, np.ndarray]:
    loaded = [_loaded(subject, path) for path in pictures]
    read = np.array([picture is not None for picture in loaded])
    regions = np.full((len(outlines), int(read.sum()), 3), np.nan)
    if not read.any():
        tell(len(pictures))
        none, empty = np.empty((0, 0), np.float32), np.empty((0, 0, 0, 0), np.float32)
        return {"read": read, "answers": none, "maps": empty, "regions": regions.transpose(1, 0, 2)}
    pixels = torch.from_numpy(subject.preprocessing.normalised(np.stack([one for one in loaded if one is not None])))
    answers, maps = _answers_and_maps(subject, pixels)
    finite = np.isfinite(answers).all(axis=1)
    if not finite.all():
        names = [path.name for path, could in zip(pictures, read, strict=True) if could]
        raise BiaslibError(
            f"The model answers {int((~finite).sum())} of {len(finite)} images with NaN or infinity, the first is "
            f"{names[int(np.argmin(finite))]}: mend the model or take these images out."
        )
    for region, masks in zip(regions, outlines, strict=True):
        kept = [path for path, could in zip(masks, read, strict=True) if could]
        for row, path in enumerate(kept):
            if path is not None:
                region[row] = _in_region(maps[row, 0], subject.preprocessing.mask(path))
    tell(len(pictures))
    return {"read": read, "answers": answers, "maps": maps, "regions": regions.transpose(1, 0, 2)}


def _answers_and_maps(subject: Subject, pixels: torch.Tensor) -> tuple[np.ndarray, np.ndarray]:
    """(n, T) and (n, T, h, w), of one forward pass; no cell where the model has no map."""
    if subject.no_maps:
        answers = training.predict(subject.answers, pixels, batch=len(pixels))
        return answers, np.zeros((*answers.shape, 0, 0), np.float32)
    place = subject.answers.anchor.device
    with torch.no_grad():
        # convolutions read this memory order faster
        features = subject.answers.forward_features(pixels.to(place, memory_format=torch.channels_last))
        # a head may begin with an activation in place
        answers = subject.answers.forward_head(features.clone()).float().cpu().numpy()
    targets = np.arange(answers.shape[1])
    known = _MapKnown(subject.answers, features)
    return answers, attribution.grad_cam(known, pixels, targets, absolute=True, batch=len(pixels)).numpy()


class _MapKnown(nn.Module):
    """A model and its last map of the images that it is about to be asked about."""

    def __init__(self, answers: Answers, features: torch.Tensor) -> None:
        super().__init__()
        self.answers, self.output_fmt, self._features = answers, answers.output_fmt, features

    def forward_features(self, images: torch.Tensor) -> torch.Tensor:
        """The map that is known."""
        return self._features

    def forward_head(self, features: torch.Tensor) -> torch.Tensor:
        """As the model's."""
        return self.answers.forward_head(features)


def _in_region(heat: np.ndarray, mask: np.ndarray) -> tuple[float, float, float]:
    """Mass, Attention-IoU and area."""
    area = float(mask.mean())
    if heat.size == 0:
        return np.nan, np.nan, area
    mass = float(relevance_mass_accuracy(upsample_maps(heat, *mask.shape), mask))
    return mass, float(mask_score(heat[None], mask[None])[0]), area


def _loaded(subject: Subject, path: Path) -> np.ndarray | None:
    try:
        return subject.preprocessing.picture(path)
    except UNREADABLE:
        return None


def _digest(path: Path | None, tell: Callable[[int], object]) -> str:
    tell(1)
    if path is None:
        return ""
    try:
        with path.open("rb") as opened:
            return hashlib.file_digest(opened, "sha256").hexdigest()
    except OSError:
        return "unreadable"  # an image is left out and listed, a mask is refused when its turn comes


def _bar(total: int, said: str, unit: str, *, leave: bool = True) -> tqdm:
    return tqdm(total=total, desc=said, unit=unit, leave=leave, disable=not sys.stderr.isatty())


def _together(pieces: list[dict[str, np.ndarray]], regions: list[str]) -> Seen:
    read = np.concatenate([piece["read"] for piece in pieces])
    if not read.any():
        raise BiaslibError(f"None of the {len(read):,} images can be read: are they pictures?")
    some = [piece for piece in pieces if piece["read"].any()]
    answers, maps, measured = (
        np.concatenate([piece[name] for piece in some]) for name in ("answers", "maps", "regions")
    )
    columns = [{name: measured[:, i, kind] for i, name in enumerate(regions)} for kind in range(3)]
    return Seen(read, answers, maps if maps.size else None, *columns)


def _check_for_probabilities(subject: Subject, answers: np.ndarray) -> None:
    """Logits that all lie there would say yes to every image, and to stop for that costs little."""
    target = answers[:, 0] if len(answers) else answers.ravel()
    if subject.checked_for_probabilities and len(target) and (target >= 0).all() and (target <= 1).all():
        raise BiaslibError(
            f"The first {len(target)} answers all lie between 0 and 1, as probabilities do: give the threshold 0.5, or "
            "0 if they are logits."
        )
