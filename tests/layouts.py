"""Tiny copies of the official layouts: the right folders, list files and names, with drawn rectangles for pictures."""

from pathlib import Path

import numpy as np
import pandas as pd
from PIL import Image

# two waterbirds and two landbirds, under CUB-200-2011's own names
SPECIES = (
    "001.Black_footed_Albatross",
    "051.Horned_Grebe",
    "010.Red_winged_Blackbird",
    "118.House_Sparrow",
)
HQ_PARTS = (
    "skin", "nose", "eye_g", "l_eye", "r_eye", "l_brow", "r_brow", "l_ear", "r_ear", "mouth", "u_lip", "l_lip", "hair",
    "hat", "ear_r", "neck_l", "neck", "cloth",
)  # fmt: skip


def picture(path: Path, *, size: tuple[int, int], colour: tuple[int, int, int], inset: float = 0.25) -> None:
    """A JPEG or PNG with a coloured rectangle on a grey ground; size is (width, height)."""
    width, height = size
    pixels = np.full((height, width, 3), 128, dtype=np.uint8)
    top, left = round(height * inset), round(width * inset)
    pixels[top : height - top, left : width - left] = colour
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path, quality=95)


def mask(path: Path, *, size: tuple[int, int], inset: float = 0.25) -> None:
    """The rectangle of `picture` as a grey PNG, white inside."""
    width, height = size
    pixels = np.zeros((height, width), dtype=np.uint8)
    top, left = round(height * inset), round(width * inset)
    pixels[top : height - top, left : width - left] = 255
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path)


def cub(root: Path, *, per_species: int = 4, pictures: bool = True) -> None:
    """CUB-200-2011 with its segmentations: half of each species for training."""
    folder = root / "CUB_200_2011"
    folder.mkdir(parents=True, exist_ok=True)
    names = [f"{kind}/{kind[4:]}_{i:04d}_{i}.jpg" for kind in SPECIES for i in range(per_species)]
    training = [i % 2 for _ in SPECIES for i in range(per_species)]
    _lines(folder / "images.txt", [f"{n} {name}" for n, name in enumerate(names, start=1)])
    _lines(folder / "train_test_split.txt", [f"{n} {flag}" for n, flag in enumerate(training, start=1)])
    _lines(folder / "classes.txt", [f"{n} {kind}" for n, kind in enumerate(SPECIES, start=1)])
    if pictures:
        for i, name in enumerate(names):
            picture(folder / "images" / name, size=_size(i), colour=(200, 30, 30))
            mask(folder / "segmentations" / Path(name).with_suffix(".png"), size=_size(i))


def waterbirds(root: Path, *, bias: int = 95, per_species: int = 6, segmentations: bool = True) -> pd.DataFrame:
    """Waterbirds as its script writes it: metadata.csv beside CUB's folders; waterbirds are blue, landbirds red."""
    folder = root / f"waterbird_complete{bias}_forest2water2"
    rows = []
    for species in SPECIES:
        water = species in SPECIES[:2]
        for i in range(per_species):
            name = f"{species}/{species[4:]}_{i:04d}_{i}.jpg"
            size = _size(len(rows))
            picture(folder / name, size=size, colour=(30, 30, 200) if water else (200, 30, 30))
            if segmentations:
                mask(root / "CUB_200_2011" / "segmentations" / Path(name).with_suffix(".png"), size=size)
            rows.append(
                {
                    "img_id": len(rows) + 1,
                    "img_filename": name,
                    "y": int(water),
                    "split": i % 3,
                    "place": (i + int(water)) % 2,
                    "place_filename": "/o/ocean/00000001.jpg",
                }
            )
    table = pd.DataFrame(rows)
    table.to_csv(folder / "metadata.csv", index=False)
    return table


def celeba(root: Path, attributes: pd.DataFrame, *, pictures: bool = False) -> None:
    """CelebA's list files for the given bool table (row 0 is image 000001.jpg), in their own spacing."""
    folder = root / "celeba"
    folder.mkdir(parents=True, exist_ok=True)
    names = [f"{n:06d}.jpg" for n in range(1, len(attributes) + 1)]
    values = [" ".join(f"{1 if flag else -1:2d}" for flag in row) for row in attributes.to_numpy()]
    _lines(
        folder / "list_attr_celeba.txt",
        [str(len(attributes)), " ".join(attributes.columns) + " "]
        + [f"{name} {row}" for name, row in zip(names, values, strict=True)],
    )
    _lines(folder / "list_eval_partition.txt", [f"{name} {n % 3}" for n, name in enumerate(names)])
    _lines(folder / "identity_CelebA.txt", [f"{name} {1 + n // 2}" for n, name in enumerate(names)])
    if pictures:
        for name in names:
            picture(folder / "img_align_celeba" / name, size=(178, 218), colour=(90, 160, 90))


def celebamask_hq(root: Path, celeba_rows: list[int], *, header: bool = True, pictures: bool = False) -> None:
    """CelebAMask-HQ's mapping to CelebA and, with `pictures`, images and part masks in their numbered folders."""
    folder = root / "CelebAMask-HQ"
    folder.mkdir(parents=True, exist_ok=True)
    lines = [f"{i:<10d} {row:<12d} {row + 1:06d}.jpg" for i, row in enumerate(celeba_rows)]
    _lines(folder / "CelebA-HQ-to-CelebA-mapping.txt", ["idx orig_idx orig_file"] * header + lines)
    if pictures:
        for i in range(len(celeba_rows)):
            picture(folder / "CelebA-HQ-img" / f"{i}.jpg", size=(64, 64), colour=(90, 160, 90))
            for part in HQ_PARTS[: 2 + i % 3]:
                mask(folder / "CelebAMask-HQ-mask-anno" / str(i // 2000) / f"{i:05d}_{part}.png", size=(32, 32))


def _size(i: int) -> tuple[int, int]:
    """Pictures differ in size and shape, as real ones do."""
    return (40 + 4 * (i % 3), 32 + 8 * (i % 2))


def _lines(path: Path, lines: list[str]) -> None:
    path.write_text("\n".join(lines) + "\n", encoding="ascii")
