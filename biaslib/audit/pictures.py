"""One picture or mask: read from its file, and made as the model wants it."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any, NamedTuple

import numpy as np
from PIL import Image, ImageFile

from biaslib.audit.tables import Mask, Outline, listed, read_outlines
from biaslib.datasets.pictures import UNREADABLE, open_picture
from biaslib.errors import BiaslibError, refused
from biaslib.models.networks import IMAGENET_MEAN, IMAGENET_STD

_PICTURES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp")
FILTERS = ("nearest", "lanczos", "bilinear", "bicubic")  # as Pillow, and so Hugging Face, numbers them
_MOST_PIXELS = 4096  # on a side: four times what timm's largest models see, and 200 MB a picture as the model takes it
_ORIENTATION = 0x0112  # EXIF's tag: 1 is upright, 5 to 8 exchange width and height
_TURNED_BACK = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
_UNKNOWN = ("I", "F")  # Pillow's integers of 32 bits, and floats
_DARK = 64  # a quarter of 8 bits: data of 14 bits or fewer in 16 never reaches it
_WHOLE = (1, 255, 65_535)  # a region that fills its mask is one of these


@dataclass(frozen=True, kw_only=True)
class Preprocessing:
    """How a model sees a picture: one side or both resized to size / crop, the middle square cut out, as timm does."""

    size: int = 224  # height and width in pixels
    mean: tuple[float, float, float] = IMAGENET_MEAN  # of each colour in [0, 1], which is subtracted
    std: tuple[float, float, float] = IMAGENET_STD  # what is divided by then, in (0, 1]
    crop: float = 1.0  # share of the resized side that is kept, in (0, 1]
    squash: bool = False  # whether both sides are resized to size / crop, else the shorter one, and the other with it
    interpolation: str = "bicubic"  # one of `FILTERS`
    mask_value: int | None = None  # of label maps: the value that is the region; None: masks have two values
    source: str = "defaults"  # where these come from, in words
    assumed: str = ""  # what of size, mean and std nobody gave for a user's own weights, and what stands in

    def __post_init__(self) -> None:
        if self.size < 8:
            raise BiaslibError(f"size must be at least 8 pixels, not {self.size}.")
        if len(self.mean) != 3 or len(self.std) != 3 or min(self.std) <= 0:
            raise BiaslibError(f"mean and std are three numbers each, std above 0, not {self.mean} and {self.std}.")
        if not 0 < self.crop <= 1:
            raise BiaslibError(f"crop is a share in (0, 1], not {self.crop}.")
        if not all(0 <= value <= 1 for value in (*self.mean, *self.std)):
            raise refused("colours beyond 1", mean=self.mean, std=self.std)
        if self.size / self.crop > _MOST_PIXELS:
            raise refused("size beyond any picture", most=_MOST_PIXELS, side=self.size / self.crop)

    @classmethod
    def of(
        cls,
        config: Mapping[str, Any],
        *,
        beside: Mapping[str, Any] | None = None,
        name: str = "config.json",
        local: bool = False,
        **given: Any,
    ) -> "Preprocessing":
        """What was given, else what the file `name` beside the weights says, else timm's configuration, else defaults.

        `local` weights are the user's own, which timm's configuration may not fit; an attribute of None is not given.
        """
        of_model, of_file = _steps(config), _steps(beside or {})
        options = {"crop": 1.0} if given.get("squash") else {}
        options |= {option: value for option, value in given.items() if value is not None}
        said = sorted(step for step, value in of_file.items() if value is not False)
        sources = [f"{name} beside the weights: {', '.join(said)}"] if said else []
        needed = {"size", "mean", "std", "crop", "interpolation"} | ({"squash"} if of_model.get("squash") else set())
        rest = needed - of_file.keys() - options.keys()
        timms = f"by timm's {'defaults' if local else 'own values'} for this architecture"
        stand_in = {timms: rest & of_model.keys(), "as usual for ImageNet": rest - of_model.keys()}
        without = [f"{', '.join(sorted(names))} {how}" for how, names in stand_in.items() if names]
        sources += without
        sources += [f"given: {', '.join(sorted(options))}"] if options else []
        mode = "squash" if options.get("squash") else {**config, **(beside or {})}.get("crop_mode", "center")
        sources += [f"not crop_mode {mode!r}, the middle is cut out"] if mode not in ("center", "squash") else []
        assumed = "; ".join(without) if local and rest & {"size", "mean", "std"} else ""
        return cls(**{**of_model, **of_file, **options}, source="; ".join(sources), assumed=assumed)

    def picture(self, file: Path) -> np.ndarray:
        """(size, size, 3) uint8, of the upright picture; an `UNREADABLE` error where it cannot be read."""
        return np.asarray(self._cut(_colours(file), self.interpolation))

    def mask(self, mask: Mask) -> np.ndarray:
        """(size, size) bool: what is inside the region; a BiaslibError where it is no mask of one region."""
        whole = mask.drawn() if isinstance(mask, Outline) else _region(mask, self.mask_value)
        return np.asarray(self._cut(Image.fromarray(whole.astype(np.uint8) * 255), "nearest")) > 0

    def words(self) -> str:
        """For the report."""
        mean, std = (" ".join(f"{value:g}" for value in values) for values in (self.mean, self.std))
        side = f"{'both sides' if self.squash else 'shorter side'} to {int(self.size / self.crop)} px"
        cut = f"({self.interpolation}), the middle {self.size} x {self.size}"
        return f"{side} {cut}; mean {mean}, deviation {std}; {self.source}"

    def normalised(self, pictures: np.ndarray) -> np.ndarray:
        """(N, size, size, 3) uint8 -> (N, 3, size, size) float32, as the model takes them."""
        mean, std = (np.array(values, np.float32) for values in (self.mean, self.std))
        return np.ascontiguousarray(((pictures.astype(np.float32) / 255 - mean) / std).transpose(0, 3, 1, 2))

    def _cut(self, image: Image.Image, interpolation: str) -> Image.Image:
        from torchvision.transforms import InterpolationMode
        from torchvision.transforms.v2.functional import center_crop, resize

        side = int(self.size / self.crop)
        if not self.squash and side * side * max(image.size) > _MOST_PIXELS**2 * min(image.size):
            raise Image.DecompressionBombError(f"{image.width} x {image.height} pixels are too narrow to resize")
        sides = [side, side] if self.squash else [side]
        return center_crop(resize(image, sides, InterpolationMode(interpolation)), [self.size, self.size])


def check_files(folder: Path, files: Sequence[str], *, leave_out: Path | None = None) -> tuple[str, ...]:
    """The images in a folder that no row names; `leave_out` is a folder inside it that holds masks."""
    if not folder.is_dir():
        raise BiaslibError(f"There is no folder {folder}: name the folder of the images.")
    if missing := [name for name in files if not (folder / name).is_file()]:
        raise refused("missing images", n=len(missing), files=len(files), folder=folder, which=listed(missing))
    named = {PurePath(name).as_posix() for name in files}
    others = (file for file in folder.rglob("*") if file.suffix.lower() in _PICTURES and file.is_file())
    if leave_out is not None:
        others = (file for file in others if leave_out.resolve() not in file.resolve().parents)
    return tuple(sorted({file.relative_to(folder).as_posix() for file in others} - named))


def check_pictures(folder: Path, files: Sequence[str]) -> int:
    """How many of the pictures have 16 bits a colour; refuses those of which nobody knows how to read them."""
    _refuse_links_out(folder, [folder / name for name in files], "images")
    depths = {name: _depth(folder / name) for name in files}
    if unknown := [name for name, bits in depths.items() if bits == 32]:
        raise refused("images of unknown range", n=len(unknown), which=listed(unknown))
    deep = [name for name, bits in depths.items() if bits == 16]
    if _all_dark(folder / name for name in deep):
        raise refused("dark images", n=len(deep), which=listed(deep))
    return len(deep)


def _refuse_links_out(folder: Path, paths: Sequence[Path], what: str) -> None:
    root = folder.resolve()
    if outside := [path.relative_to(folder).as_posix() for path in paths if not path.resolve().is_relative_to(root)]:
        raise refused("links out of the folder", n=len(outside), what=what, folder=folder, which=listed(outside))


def find_masks(place: Path, images: Path, files: Sequence[str]) -> dict[str, Sequence[Mask | None]]:
    """Region -> the mask of every image, None where it has none.

    A folder of masks, each named as its image, whatever the ending, is one region of its name; a folder of folders, or
    a file in COCO's JSON, is several. A mask is taken to be of the upright picture where its size shows that, or it
    carries the EXIF orientation of its image; a BiaslibError where it may be drawn for an image as that is stored.
    """
    if not place.exists():
        raise BiaslibError(f"There are no masks {place}: name their folder, or a file in COCO's JSON.")
    given = read_outlines(place, files) if place.is_file() else {place.name: _masks_in(place, files)}
    regions: dict[str, Sequence[Mask | None]] = {**given}
    if place.is_dir() and not any(regions[place.name]):
        regions = {inner.name: _masks_in(inner, files) for inner in sorted(place.iterdir()) if inner.is_dir()}
    regions = {region: masks for region, masks in regions.items() if any(masks)}
    if not regions:
        raise refused("masks of no image", place=place)
    wrong, turned = [], []
    for masks in regions.values():
        _refuse_links_out(place, [path for path in masks if isinstance(path, Path)], "masks")
        for name, path in zip(files, masks, strict=True):
            image = None if path is None else _frame(images / name)
            # an image that cannot be read is listed later
            if path is None or image is None:
                continue
            mask = _frame(path)
            if mask is None or mask.size not in (image.size, image.stored):
                wrong.append(f"{path.name} {_width_by_height(mask)} for {_width_by_height(image)}")
            elif mask.size != image.size or (image.turn not in (1, mask.turn) and image.size == image.stored):
                turned.append(name)  # neither does the size show that the mask is upright, nor is it turned alike
    if wrong:
        raise refused("masks of another size", n=len(wrong), which=listed(wrong))
    if turned:
        raise refused("masks of turned images", n=len(turned), which=listed(turned))
    return regions


class _Frame(NamedTuple):
    """Width and height of a picture when upright and as it is stored, and EXIF's number of how that is."""

    size: tuple[int, int]
    stored: tuple[int, int]
    turn: int


def _frame(file: Mask) -> _Frame | None:
    """None where the file cannot be read."""
    if isinstance(file, Outline):
        return _Frame(file.size, file.size, 1)
    with suppress(*UNREADABLE), open_picture(file) as image:
        turn = _turn(image)
        # Pillow turns the size of a TIFF itself
        size = image.size[::-1] if turn >= 5 and image.format != "TIFF" else image.size
        return _Frame(size, size[::-1] if turn >= 5 else size, turn)
    return None


def _depth(file: Path) -> int | None:
    """8 or 16 bits a colour, 32 where the range of the values is not known; None where the file cannot be read."""
    with suppress(*UNREADABLE), open_picture(file) as image:
        if image.mode in _UNKNOWN:
            return 32
        # of 16-bit colour Pillow's mode does not tell
        packed = image.tile[0].args if isinstance(image, ImageFile.ImageFile) and image.tile else ""
        return 16 if image.mode.startswith("I;16") or ";16" in str(packed) else 8
    return None


def _colours(file: Path) -> Image.Image:
    """A picture in RGB, upright, 8 bits a colour; of 16 the upper 8, so that data of 12 bits stays dark."""
    with open_picture(file) as opened:
        image = _upright(opened)
    if image.mode in _UNKNOWN:
        raise refused("images of unknown range", n=1, which=file.name)
    if image.mode.startswith("I;16"):
        # Pillow does the same for colour, but clips grey
        image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    return image.convert("RGB")


def _region(file: Path, value: int | None) -> np.ndarray:
    """(H, W) bool, upright: where a label map has the value, or a mask of two values, 0 and another, is not 0."""
    try:
        with open_picture(file) as opened:
            image = _upright(opened)
    except UNREADABLE as error:
        raise BiaslibError(f"The mask {file} cannot be read: replace it, or take it out of its folder.") from error
    if "A" in image.getbands() and image.getchannel("A").getextrema() != (255, 255):
        raise BiaslibError(f"The mask {file} is partly transparent: save it as a black-and-white PNG, without alpha.")
    pixels = np.asarray(image if len(image.getbands()) == 1 else image.convert("L"))
    values = np.unique(pixels.astype(float)).tolist()
    shown = listed([f"{each:g}" for each in values])
    if value is not None and len(image.getbands()) == 1:
        return pixels == value
    if len(values) > 2 or value is not None:
        raise refused("mask of many values", file=file, n=len(values), shown=shown)
    if values[0] != 0 and (len(values) == 2 or values[0] not in _WHOLE):
        raise refused("mask without an outside", file=file, shown=shown)
    palette = image.getpalette() or []  # red, green and blue of each number
    outside, inside = (sum(palette[3 * number : 3 * number + 3]) for number in (0, int(values[-1])))
    if image.mode == "P" and len(values) == 2 and outside > inside:
        raise refused("mask with a light outside", file=file)
    return pixels > 0


def _turn(image: Image.Image) -> int:
    number = image.getexif().get(_ORIENTATION, 1)
    return number if number in _TURNED_BACK else 1


def _upright(image: Image.Image) -> Image.Image:
    """A copy; Pillow's own function also writes the EXIF data anew, and some cameras' data stops it."""
    image.load()
    turn = _turn(image)
    return image.copy() if turn == 1 else image.transpose(_TURNED_BACK[turn])


def _steps(config: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes of `Preprocessing` that a configuration of timm's names."""
    steps = {
        "size": config["input_size"][-1] if "input_size" in config else None,
        "mean": config.get("mean"),
        "std": config.get("std"),
        "crop": config.get("crop_pct"),
        "squash": config["crop_mode"] == "squash" if "crop_mode" in config else None,
        "interpolation": config.get("interpolation") if config.get("interpolation") in FILTERS else None,
    }
    return {name: value for name, value in steps.items() if value is not None}


def _all_dark(files: Iterable[Path]) -> bool:
    """Whether no picture that can be read has a value of `_DARK` or more; stops at the first that has."""
    dark = False
    for file in files:
        with suppress(*UNREADABLE):  # such a file is listed later
            if np.asarray(_colours(file)).max() >= _DARK:
                return False
            dark = True
    return dark


def _masks_in(folder: Path, files: Sequence[str]) -> list[Path | None]:
    candidates = ([(folder / name).with_suffix(suffix) for suffix in _PICTURES] for name in files)
    return [next((path for path in paths if path.is_file()), None) for paths in candidates]


def _width_by_height(image: _Frame | None) -> str:
    return "unreadable" if image is None else f"{image.size[0]} x {image.size[1]}"
