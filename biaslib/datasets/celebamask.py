"""CelebAMask-HQ (Lee et al. 2020): faces with drawn masks of their parts, and label-map pairs of some of them."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from biaslib.datasets import decoded, pictures, registry
from biaslib.datasets.celeba import attribute_list
from biaslib.samples import Samples

# The 14 regions of Serianni et al. 2025 from the 18 drawn parts; the background is what none of them covers.
REGIONS: dict[str, tuple[str, ...]] = {
    "skin": ("skin",),
    "nose": ("nose",),
    "eyeglasses": ("eye_g",),
    "eyes": ("l_eye", "r_eye"),
    "eyebrows": ("l_brow", "r_brow"),
    "ears": ("l_ear", "r_ear"),
    "mouth": ("mouth", "u_lip", "l_lip"),
    "hair": ("hair",),
    "hat": ("hat",),
    "earrings": ("ear_r",),
    "necklace": ("neck_l",),
    "neck": ("neck",),
    "cloth": ("cloth",),
    "background": (),
}
# The numbers of the parts in label maps, 0 for the background: the order of the authors' own script.
PARTS = (
    "background", "skin", "nose", "eye_g", "l_eye", "r_eye", "l_brow", "r_brow", "l_ear", "r_ear", "mouth", "u_lip",
    "l_lip", "hair", "hat", "ear_r", "neck_l", "neck", "cloth",
)  # fmt: skip
_IMAGES, _MASKS = "CelebA-HQ-img", "CelebAMask-HQ-mask-anno"
_A_FOLDER = 2000  # images in each numbered folder of masks
_VALIDATION = 0.15  # of the training pairs, by their names


def load(split: str, *, size: int, root: Path) -> Samples:
    """CelebAMask-HQ in its official layout, CelebAMask-HQ/CelebA-HQ-img and CelebAMask-HQ-mask-anno.

    "train", "val" and "test" are 70, 15 and 15 % of the images, in the random order (NumPy's `RandomState(0)`) whose
    last 4,500 are the test images of Serianni et al. (2025).

    Returns:
        the split's images, by number; the 40 attributes as annotated (bool); masks of the 14 `REGIONS`, True where at
        least half of the pixel is inside, all False where no part is drawn. Drawn parts may overlap; the background is
        what no part covers.

    Warns:
        DatasetWarning: what is known to be wrong with these labels and with their terms.
    """
    pictures.check_split("CelebAMask-HQ", split, pictures.SPLITS)
    dataset = registry.get("celebamask-hq")
    folder = root / "CelebAMask-HQ"
    table = _attributes(root)
    numbers = _numbers(len(table), split)
    images = decoded.photos(dataset, [folder / _IMAGES / f"{number}.jpg" for number in numbers], size=size)
    files = [_files(registry.require(dataset, folder / _MASKS), int(number)) for number in numbers]
    if not any(files):
        registry.require(dataset, folder / _MASKS / str(numbers[0] // _A_FOLDER) / f"{numbers[0]:05d}_skin.png")
    labels = table.iloc[numbers].reset_index(drop=True)
    return Samples(images=images, labels=labels, masks=_masks(dataset, files, size))


def load_pairs(split: str, *, size: int, root: Path) -> Samples:
    """Pairs of an image and its label map, CelebAMask-HQ/pairs/train and test, each with images and masks.

    "val" is 15 % of the folder train, by the pictures' names.

    Returns:
        the images in the order of their names; masks of the 14 `REGIONS`, each from the numbers of its `PARTS`; labels
        without columns, as the pairs do not say whom of CelebA they show.

    Warns:
        DatasetWarning: what is known to be wrong with this dataset's terms.
    """
    pictures.check_split("the pairs of CelebAMask-HQ", split, pictures.SPLITS)
    dataset = registry.get("celebamask-hq")
    registry.warn(dataset)
    folder = root / "CelebAMask-HQ" / "pairs" / ("test" if split == "test" else "train")
    files = pictures.listed(dataset, folder / "images")
    if split != "test":
        shares = {"val": _VALIDATION, "train": 1 - _VALIDATION}
        files = [file for file in files if pictures.part(file.name, shares) == split]
    if not files:
        registry.require(dataset, folder / "images" / "*.jpg")
    images = decoded.photos(dataset, files, size=size)
    maps = [registry.require(dataset, folder / "masks" / f"{file.stem}.png") for file in files]
    masks = _masks(dataset, [{"map": path} for path in maps], size)
    return Samples(images=images, labels=pd.DataFrame(index=range(len(files))), masks=masks)


def _attributes(root: Path) -> pd.DataFrame:
    """CelebAMask-HQ's 40 attributes as annotated, one bool column each, one row an image by its number.

    Raises:
        BiaslibError: for a missing or a damaged file.

    Warns:
        DatasetWarning: what is known to be wrong with these labels and with their terms.
    """
    dataset = registry.get("celebamask-hq")
    path = registry.require(dataset, root / "CelebAMask-HQ" / "CelebAMask-HQ-attribute-anno.txt")
    registry.warn(dataset)
    table = attribute_list(dataset, path)
    if [str(name) for name in table.index] != [f"{number}.jpg" for number in range(len(table))]:
        raise registry.damaged(dataset, path, f"its {len(table)} images are not numbered from 0")
    return table.reset_index(drop=True)


def _numbers(n: int, split: str) -> np.ndarray:
    """The images of a split, sorted; of 30,000: 21,000, 4,500 and 4,500."""
    order = np.random.RandomState(0).permutation(n)
    ends = [0, round(0.70 * n), round(0.85 * n), n]
    at = pictures.SPLITS.index(split)
    return np.sort(order[ends[at] : ends[at + 1]])


def _files(folder: Path, number: int) -> dict[str, Path]:
    """The parts that are drawn for an image."""
    inside = folder / str(number // _A_FOLDER)
    paths = {part: inside / f"{number:05d}_{part}.png" for part in PARTS[1:]}
    return {part: path for part, path in paths.items() if path.exists()}


def _masks(dataset: registry.Dataset, files: Sequence[Mapping[str, Path]], size: int) -> dict[str, np.ndarray]:
    """(N, size, size) bool of each region, from each image's part masks or its label map ("map")."""
    shape = (len(REGIONS), len(files), size, size)
    covered = decoded.once(dataset, "parts", files, _regions, size, shape=shape, axis=1)
    return {region: covered[at] for at, region in enumerate(REGIONS)}


def _regions(dataset: registry.Dataset, files: Mapping[str, Path], size: int) -> np.ndarray:
    """(14, size, size) bool: parts are united at their own size, then resized."""
    drawn = {name: np.asarray(decoded.read_picture(dataset, path, "L")) for name, path in files.items()}
    if "map" in drawn:
        if drawn["map"].max() >= len(PARTS):
            raise registry.damaged(dataset, files["map"], f"it has numbers above {len(PARTS) - 1}")
        drawn = {part: drawn["map"] == number for number, part in enumerate(PARTS) if number}
    else:
        drawn = {part: picture >= 128 for part, picture in drawn.items()}
    shape = next((part.shape for part in drawn.values()), (size, size))
    for part, inside in drawn.items():
        if inside.shape != shape:
            raise registry.damaged(dataset, files[part], f"it is not of the size of the image's other masks, {shape}")
    none = np.zeros(shape, bool)
    united = [np.any([none, *(drawn[part] for part in parts if part in drawn)], axis=0) for parts in REGIONS.values()]
    united[-1] = ~np.any([none, *drawn.values()], axis=0)
    return np.stack([decoded.shrunk(region, size) for region in united])
