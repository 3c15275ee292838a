"""The images of an audit, and what the model says of them: piece by piece, so that a killed audit goes on."""

import functools
import hashlib
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath

import numpy as np
import torch
from torch import nn
from tqdm import tqdm

from biaslib import attribution, store, training
from biaslib.audit.inputs import listed
from biaslib.audit.model import ModelUnderAudit, TargetOutputs
from biaslib.audit.pictures import Frame, frame
from biaslib.datasets.pictures import UNREADABLE
from biaslib.errors import BiaslibError
from biaslib.metrics import mask_score, relevance_mass_accuracy, upsample_maps

PIECE = 256  # images whose predictions are kept together
_PICTURES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp")

Masks = Mapping[str, Sequence[Path | None]]


@dataclass(frozen=True)
class Predictions:
    """What a model says of N images and where it looks; n of them could be read.

    Attributes:
        readable: (N,) bool.
        outputs: (n, 1 + groups), above 0 is yes.
        maps: (n, 1 + groups, h, w) Grad-CAM of the size of each output; None where the model has no map.
        mass: region -> (n,) share of the target's map in the region; NaN where the image has no such region.
        score: region -> (n,) Attention-IoU of the target's map with the region; NaN likewise.
        area: region -> (n,) share of the image that the region covers; NaN without a mask.
    """

    readable: np.ndarray
    outputs: np.ndarray
    maps: np.ndarray | None
    mass: dict[str, np.ndarray]
    score: dict[str, np.ndarray]
    area: dict[str, np.ndarray]


def check_files(folder: Path, files: Sequence[str], *, leave_out: Path | None = None) -> tuple[str, ...]:
    """The images in a folder that no row names; `leave_out` is a folder inside it that holds masks.

    Raises:
        BiaslibError: for names that are not there, with their number and the first three.
    """
    if not folder.is_dir():
        raise BiaslibError(f"There is no folder {folder}: name the folder of the images.")
    missing = [name for name in files if not (folder / name).is_file()]
    if missing:
        raise BiaslibError(
            f"{len(missing):,} of {len(files):,} images that the table names are not in {folder} ({listed(missing)}): "
            "mend the names, which are relative to the folder, or drop those rows."
        )
    named = {PurePath(name).as_posix() for name in files}
    others = (file for file in folder.rglob("*") if file.suffix.lower() in _PICTURES and file.is_file())
    if leave_out is not None:
        others = (file for file in others if leave_out.resolve() not in file.resolve().parents)
    return tuple(sorted({file.relative_to(folder).as_posix() for file in others} - named))


def find_masks(folder: Path, images: Path, files: Sequence[str]) -> dict[str, list[Path | None]]:
    """Region -> the mask of every image, None where it has none.

    A folder of masks is one region, named as the folder; a folder of folders of masks is one region each. A mask is
    named as its image, whatever the ending. It is taken to be of the upright picture where its size shows that, or it
    carries the EXIF orientation of its image.

    Raises:
        BiaslibError: for a folder that is not there, masks that belong to no image, are not as large as theirs, or may
            be drawn for an image as it is stored where that is turned.
    """
    if not folder.is_dir():
        raise BiaslibError(f"There is no folder of masks {folder}: name the one that holds them, or leave masks out.")
    regions = {folder.name: _masks_in(folder, files)}
    if not any(regions[folder.name]):
        regions = {inner.name: _masks_in(inner, files) for inner in sorted(folder.iterdir()) if inner.is_dir()}
        regions = {region: masks for region, masks in regions.items() if any(masks)}
    if not regions:
        raise BiaslibError(
            f"No mask in {folder} belongs to an image: name each as its image is (cat.png for cat.jpg), in the folder "
            "itself or in one folder a region."
        )
    wrong, turned = [], []
    for masks in regions.values():
        for name, path in zip(files, masks, strict=True):
            image = None if path is None else frame(images / name)
            # an image that cannot be read is listed later
            if path is None or image is None:
                continue
            mask = frame(path)
            if mask is None or mask.size not in (image.size, image.stored):
                wrong.append(f"{path.name} {_width_by_height(mask)} for {_width_by_height(image)}")
            elif not _lies_on(image, mask):
                turned.append(name)
    if wrong:
        raise BiaslibError(
            f"{len(wrong):,} of the masks are not as large as their images ({listed(wrong)}): give every mask one "
            "pixel for each pixel of its image."
        )
    if turned:
        raise BiaslibError(
            f"{len(turned):,} of the images are turned by their EXIF orientation ({listed(turned)}), and nothing shows "
            "that their masks were drawn for the upright picture: save these images upright, without that tag, and "
            "check that each mask lies on its image."
        )
    return regions


def file_digests(folder: Path, files: Sequence[str], masks: Masks) -> list[list[str]]:
    """A hash of every image, and of the masks of each region; "" where there is no mask."""
    paths: list[list[Path | None]] = [[folder / name for name in files], *(list(each) for each in masks.values())]
    with _bar(sum(map(len, paths)), "reading files", "file", leave=False) as bar:
        return [[_digest(path, bar.update) for path in each] for each in paths]


def predict(
    model: ModelUnderAudit,
    folder: Path,
    files: Sequence[str],
    masks: Masks,
    *,
    digests: Sequence[Sequence[str]],
    batch: int = 32,
) -> Predictions:
    """Asks the model about every image, so many at once; what was asked before comes from the store.

    Args:
        model: that is asked.
        folder: of the images.
        files: their names.
        masks: region -> the mask of each image, or None.
        digests: the `file_digests` of images and masks.
        batch: images at once.

    Raises:
        BiaslibError: where no image can be read, or the outputs look like probabilities and no threshold was given.
    """
    pieces = []
    with _bar(len(files), "asking the model", "image") as bar:
        for start in range(0, len(files), PIECE):
            rows = slice(start, start + PIECE)
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
    model: ModelUnderAudit,
    pictures: list[Path],
    outlines: list[list[Path | None]],
    batch: int,
    tell: Callable[[int], object],
) -> dict[str, np.ndarray]:
    starts = range(0, len(pictures), batch)
    batches = [
        _ask_batch(model, pictures[i : i + batch], [paths[i : i + batch] for paths in outlines], tell) for i in starts
    ]
    return _together(batches)


def _ask_batch(
    model: ModelUnderAudit, pictures: list[Path], outlines: list[list[Path | None]], tell: Callable[[int], object]
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
        names = [path.name for path, could in zip(pictures, readable, strict=True) if could]
        raise BiaslibError(
            f"The model answers {int((~finite).sum())} of {len(finite)} images with NaN or infinity, the first is "
            f"{names[int(np.argmin(finite))]}: mend the model or take these images out."
        )
    for region, paths in enumerate(outlines):
        of_readable = [path for path, could in zip(paths, readable, strict=True) if could]
        for row, path in enumerate(of_readable):
            if path is not None:
                regions[row, region] = _in_region(maps[row, 0], model.preprocessing.mask(path))
    return {"readable": readable, "outputs": outputs, "maps": maps, "regions": regions}


def _together(parts: list[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Parts as one; those without a readable image know no number of outputs and have no rows."""
    with_rows = [part for part in parts if part["readable"].any()] or parts[:1]
    return {
        name: np.concatenate([part[name] for part in (parts if name == "readable" else with_rows)]) for name in parts[0]
    }


def _outputs_and_maps(model: ModelUnderAudit, pixels: torch.Tensor) -> tuple[np.ndarray, np.ndarray]:
    """(n, T) and (n, T, h, w), of one forward pass; no cell where the model has no map."""
    if model.no_maps:
        outputs = training.predict(model.outputs, pixels, batch=len(pixels))
        return outputs, np.zeros((*outputs.shape, 0, 0), np.float32)
    with torch.no_grad():
        # convolutions read this memory order faster
        features = model.outputs.forward_features(
            pixels.to(model.outputs.anchor.device, memory_format=torch.channels_last)
        )
        # a head may begin with an activation in place
        outputs = model.outputs.forward_head(features.clone()).float().cpu().numpy()
    targets = np.arange(outputs.shape[1])
    known = _MapKnown(model.outputs, features)
    return outputs, attribution.grad_cam(known, pixels, targets, absolute=True, batch=len(pixels)).numpy()


class _MapKnown(nn.Module):
    """A model and its last map of the images that it is about to be asked about."""

    def __init__(self, outputs: TargetOutputs, features: torch.Tensor) -> None:
        super().__init__()
        self.outputs, self.output_fmt, self._features = outputs, outputs.output_fmt, features

    def forward_features(self, images: torch.Tensor) -> torch.Tensor:
        return self._features

    def forward_head(self, features: torch.Tensor) -> torch.Tensor:
        return self.outputs.forward_head(features)


def _in_region(heat: np.ndarray, mask: np.ndarray) -> tuple[float, float, float]:
    """Mass, Attention-IoU and area."""
    area = float(mask.mean())
    if heat.size == 0:
        return np.nan, np.nan, area
    mass = float(relevance_mass_accuracy(upsample_maps(heat, *mask.shape), mask))
    return mass, float(mask_score(heat[None], mask[None])[0]), area


def _loaded(model: ModelUnderAudit, path: Path) -> np.ndarray | None:
    try:
        return model.preprocessing.picture(path)
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


def _bar(total: int, doing: str, unit: str, *, leave: bool = True) -> tqdm:
    return tqdm(total=total, desc=doing, unit=unit, leave=leave, disable=not sys.stderr.isatty())


def _check_for_probabilities(model: ModelUnderAudit, outputs: np.ndarray) -> None:
    """Logits that all lie there would say yes to every image, and to stop for that costs little."""
    target = outputs[:, 0] if len(outputs) else outputs.ravel()
    if model.checked_for_probabilities and len(target) and (target >= 0).all() and (target <= 1).all():
        raise BiaslibError(
            f"The first {len(target)} answers all lie between 0 and 1, as probabilities do: give the threshold 0.5, or "
            "0 if they are logits."
        )


def _lies_on(image: Frame, mask: Frame) -> bool:
    """Whether a mask is of the upright picture: the size shows it, or it is turned as its image is."""
    return mask.size == image.size and (image.turn in (1, mask.turn) or image.size != image.stored)


def _masks_in(folder: Path, files: Sequence[str]) -> list[Path | None]:
    candidates = ([(folder / name).with_suffix(suffix) for suffix in _PICTURES] for name in files)
    return [next((path for path in paths if path.is_file()), None) for paths in candidates]


def _width_by_height(image: Frame | None) -> str:
    return "unreadable" if image is None else f"{image.size[0]} x {image.size[1]}"
