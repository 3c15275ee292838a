"""Tiny copies of the official layouts: the right folders, list files and names, with drawn rectangles for pictures."""

import json
import os
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


def celeba_in_full(root: Path, attributes: pd.DataFrame, *, distinct: int = 6000) -> None:
    """CelebA with a picture for every row of the table, links to so many files, and the official shares of splits."""
    celeba(root, attributes)
    n, folder, rng = len(attributes), root / "celeba", np.random.default_rng(0)
    ends = [round(share * n) for share in (162770 / 202599, 182637 / 202599)]
    splits = np.searchsorted(ends, np.arange(n), side="right")
    _lines(folder / "list_eval_partition.txt", [f"{at + 1:06d}.jpg {split}" for at, split in enumerate(splits)])
    (folder / "img_align_celeba").mkdir()
    files = [folder / "distinct" / f"{at}.jpg" for at in range(min(distinct, n))]
    files[0].parent.mkdir()
    for file in files:
        coarse = Image.fromarray(rng.integers(0, 256, (14, 11, 3), dtype=np.uint8))
        coarse.resize((178, 218), Image.Resampling.BICUBIC).save(file, quality=90)
    for at in range(n):
        os.link(files[at % len(files)], folder / "img_align_celeba" / f"{at + 1:06d}.jpg")


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


def attention_iou(root: Path, attributes: list[str], *, seed: int = 0) -> None:
    """The folder that the authors of Attention-IoU released, with drawn numbers, and the label files it needs.

    Models agree with the labels in nine of ten cases; every score table holds numbers of the right count in [0, 1].
    """
    rng = np.random.default_rng(seed)
    folder = root / "attention-iou"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "LICENSE").write_text("MIT License\n")

    faces = pd.DataFrame(rng.random((4600, 40)) < np.linspace(0.03, 0.6, 40), columns=attributes)
    male = faces["Male"].to_numpy()
    faces = faces.where(rng.random(faces.shape) < 0.7, np.repeat(male[:, None], 40, axis=1))
    celeba(root, faces)
    rows = rng.permutation(4600).tolist()
    celebamask_hq(root, rows, header=False)
    index = np.sort(rng.permutation(4600)[:4500])
    np.save(folder / "test_idx_sorted.npy", index)
    truth = faces.to_numpy()[np.array(rows)[index]]
    results = folder / "results"
    for i in range(20):
        _predictions(results / "evaluations" / f"evaluations-celeb_all_resnet50_extended_{i}.csv", truth, rng)
    for i in range(10):
        name = f"evaluations-celeb_all_efficientnet_{i}.csv"
        _predictions(results / "efficientnet" / "evaluations" / name, truth, rng)

    tail = "GradCAM_element_wise_normalized_averaged_scores.csv"
    for backbone in ("", "efficientnet"):
        for name in attributes:
            heat = results / (backbone or "heatmap") / f"Heatmap-all_{name}_Male_{tail}"
            mask = results / (backbone or "mask") / f"Masks-all_{name}_Male_{tail}"
            _scores(heat, (10, 1), rng)
            _scores(mask, (10, 14), rng)
    uniform = f"Masks-all_Smiling_Male_{tail.replace('_averaged', '')}"
    _scores(results / "mask" / "uniform_attention" / uniform, (30, 14), rng)
    for name, first in (("Blond_Hair", 10), ("Wavy_Hair", 11)):
        for hundredths in range(first, first + 41):
            stem = f"mcc{-hundredths / 100}['{name}', 'Male']_{name}_Male_{tail}"
            _scores(results / "subgroups" / f"Heatmap-all_{stem}", (10, 1), rng)
    for side in ("positive", "negative"):
        stem = f"all_one-sided-{side}-Eyeglasses_Eyeglasses_Male_{tail}"
        for i in range(10):
            name = f"evaluations-celeb_all_one-sided-{side}-Eyeglasses_resnet50_extended_{i}.csv"
            _predictions(results / "one_sided" / "evaluations" / name, truth, rng)
        _scores(results / "one_sided" / f"Heatmap-{stem}", (10, 1), rng)
        _scores(results / "one_sided" / f"Masks-{stem}", (10, 14), rng)

    birds = cub_lists(root, n_test=5794)
    for bias in (50, 60, 70, 80, 90, 95, 100):
        _scores(results / "waterbirds" / f"waterbirds{bias}_{tail}", (6, 1), rng)
        for backbone, model, n in (
            ("waterbirds", "resnet18", 19 if bias == 90 else 20),
            ("efficientnet", "efficientnet", 10),
        ):
            _scores(results / backbone / f"Masks-waterbirds{bias}_{tail}", (2, 6), rng)
            for i in range(n):
                name = f"evaluations-waterbirds{bias}_{model}_{i + (bias == 90 and i > 4)}.csv"  # number 5 is left out
                _predictions(results / backbone / "evaluations" / name, birds[:, None], rng)


def cub_lists(root: Path, *, n_test: int) -> np.ndarray:
    """CUB's list files alone, with as many test images as asked for; says which of those are waterbirds."""
    folder = root / "CUB_200_2011"
    folder.mkdir(parents=True, exist_ok=True)
    kinds = [SPECIES[i % 4] for i in range(2 * n_test)]
    _lines(folder / "images.txt", [f"{i + 1} {kind}/{i}.jpg" for i, kind in enumerate(kinds)])
    _lines(folder / "train_test_split.txt", [f"{i + 1} {i % 2}" for i in range(2 * n_test)])
    return np.array([kind in SPECIES[:2] for kind in kinds[::2]])


def _predictions(path: Path, truth: np.ndarray, rng: np.random.Generator) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    predicted = truth ^ (rng.random(truth.shape, dtype=np.float32) < 0.1)
    characters = np.full((*truth.shape, 2), ord(","), dtype=np.uint8)
    characters[..., 0] = ord("0") + predicted
    characters[:, -1, 1] = ord("\n")
    path.write_bytes(characters.tobytes())


def _scores(path: Path, shape: tuple[int, int], rng: np.random.Generator) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    values = rng.random(shape)
    half = shape[0] // 2
    if shape != (2, 6):
        values[half:] *= 0.1  # deviations follow the means
    np.savetxt(path, values, fmt="%.8f", delimiter=",")


def coco_imsitu(root: Path, *, images: int = 120, seed: int = 0) -> None:
    """The folder of labels, ratios and captions released for COCO and imSitu, with drawn content.

    Captions name every object of an image and, in nine of ten cases, the gender of its label. Every verb and object
    occurs with both genders.
    """
    rng = np.random.default_rng(seed)
    folder = root / "coco-imsitu"
    (folder / "captions_6models_val2014").mkdir(parents=True, exist_ok=True)
    objects = list(COCO_OBJECTS)
    _json(folder / "object_multilabel__object_id.map.json", {"id2object": dict(enumerate(objects))})
    captions: dict[str, list[dict[str, object]]] = {name: [] for name in COCO_CAPTIONERS}
    for part, split in enumerate(("val", "test")):
        rows = []
        for i in range(images):
            flags = rng.random(len(objects)) < 0.2
            flags[i % len(objects)] = True
            woman = int(i // len(objects)) % 2
            number = 1000 * part + i
            rows.append({"image_id": number, "objects": flags.astype(int).tolist(), "gender": [1 - woman, woman]})
            things = " and a ".join(name.replace("_", " ") for name, flag in zip(objects, flags, strict=True) if flag)
            for said in captions.values():
                person = ("man", "woman")[woman ^ int(rng.random() < 0.1)] if rng.random() < 0.95 else "person"
                said.append({"image_id": number, "caption": f"A {person} with a {things}."})
        _json(folder / f"object_multilabel__{split}.data.json", rows)
    for name, said in captions.items():
        _json(folder / "captions_6models_val2014" / f"{name}.json", said)
    verbs = ("cooking", "driving", "shaving")
    _json(folder / "verb_classification__verb_id.map.json", {"id2verb": dict(enumerate(verbs))})
    for split in ("train", "val", "test"):
        rows = [{"image_name": f"{verbs[i % 3]}_{i}.jpg", "verb": i % 3, "gender": int(i % 5 > 1)} for i in range(60)]
        _json(folder / f"verb_classification__{split}.data.json", rows)
    for name, item, words in (("COCO", "object", objects), ("imSitu", "verb", verbs)):
        shares = {column: rng.random(len(words)) for column in ("training_ratio", *RBA_COLUMNS)}
        pd.DataFrame({item: words, **shares}).to_csv(folder / f"{name}_gender_ratio_dev_res.csv")


COCO_CAPTIONERS = ("baseline_ft", "balanced", "upweight", "confident", "confusion", "equalizer")
COCO_OBJECTS = ("dining_table", "teddy_bear", "bear", "knife", "cup", "sports_ball")
RBA_COLUMNS = ("gender_ratio_before_RBA", "gender_ratio_after_RBA")


def _json(path: Path, content: object) -> None:
    path.write_text(json.dumps(content), encoding="utf-8")


def pets(root: Path, *, per_breed: int = 12) -> pd.DataFrame:
    """Oxford-IIIT Pet: two breeds of cats (red) and one of dogs (blue), a trimap each.

    The rectangle is the animal (1) in a band of 2 pixels that is not classified (3) on ground (2).
    """
    folder = root / "oxford-iiit-pet"
    rows = []
    for breed, name, species in ((1, "Abyssinian", 1), (6, "Bengal", 1), (9, "beagle", 2)):
        for i in range(1, per_breed + 1):
            size = _size(len(rows))
            picture(
                folder / f"images/{name}_{i}.jpg", size=size, colour=(200, 30, 30) if species == 1 else (30, 30, 200)
            )
            trimap = np.full(size[::-1], 2, np.uint8)
            top, left = round(size[1] * 0.25), round(size[0] * 0.25)
            trimap[top - 2 : size[1] - top + 2, left - 2 : size[0] - left + 2] = 3
            trimap[top : size[1] - top, left : size[0] - left] = 1
            path = folder / f"annotations/trimaps/{name}_{i}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(trimap).save(path)
            rows.append({"image": f"{name}_{i}", "breed": breed, "species": species})
    lines = [f"{row['image']} {row['breed']} {row['species']} 1" for row in rows]
    _lines(folder / "annotations/list.txt", ["#Image CLASS-ID SPECIES BREED ID", "#ID: 1:37 Class ids", *lines])
    return pd.DataFrame(rows)


def cat_and_dog(root: Path, *, each: int = 20) -> None:
    """Kaggle's cat-and-dog: cats are red, dogs are blue."""
    for part in ("training_set", "test_set"):
        for kind, colour in (("cat", (200, 30, 30)), ("dog", (30, 30, 200))):
            for i in range(each):
                picture(root / f"cat-and-dog/{part}/{kind}s/{kind}.{i}.jpg", size=_size(i), colour=colour)


FRUITS = {"Apple Braeburn 1": (200, 20, 20), "Banana 1": (230, 200, 30), "Peach 2": (230, 140, 60)}
FRUITS |= {"Corn 1": (240, 220, 90), "Pineapple 1": (120, 90, 40), "Walnut 1": (120, 80, 40)}


def fruits360(root: Path, *, each: int = 10, without: tuple[str, ...] = ()) -> None:
    """Fruits 360: discs of 60 pixels across, with a white spot in the middle and a thin spit below, before white."""
    x, y = np.arange(100)[None], np.arange(100)[:, None]
    disc, spot = np.hypot(x - 49.5, y - 49.5) < 30, np.hypot(x - 49.5, y - 49.5) < 6
    spit = (np.abs(x - 49.5) < 1) & (y > 49)
    for part in ("Training", "Test"):
        for name, colour in FRUITS.items():
            if name in without:
                continue
            for i in range(each):
                pixels = np.full((100, 100, 3), 255, np.uint8)
                pixels[disc | spit] = colour
                pixels[spot] = 255
                path = root / f"fruits-360/{part}/{name}/{i}_100.jpg"
                path.parent.mkdir(parents=True, exist_ok=True)
                Image.fromarray(pixels).save(path, quality=98)


SCENES = ("buildings", "forest", "glacier", "mountain", "sea", "street")


def scenes(root: Path, *, each: int = 12) -> None:
    """Intel's scenes: forests are green, each other kind has a grey of its own."""
    for part in ("train", "test"):
        for number, kind in enumerate(SCENES):
            colour = (20, 120, 20) if kind == "forest" else (40 + 30 * number,) * 3
            for i in range(each):
                picture(root / f"intel-scenes/{part}/{kind}/{i}.jpg", size=(50, 50), colour=colour, inset=0)  # type: ignore[arg-type]


def places365(root: Path, *, each: int = 20) -> None:
    """The four kinds of places of Waterbirds: water is blue, land green, each picture in a shade of its own."""
    for kind in ("b/bamboo_forest", "f/forest/broadleaf", "o/ocean", "l/lake/natural"):
        for i in range(each):
            colour = (10, 10, 100 + 5 * i) if kind[0] in "ol" else (10, 100 + 5 * i, 10)
            picture(root / f"places365/data_large/{kind}/{i:08d}.jpg", size=(50, 40), colour=colour, inset=0)


def coco_photos(root: Path, *, n: int = 60) -> None:
    """COCO 2014's annotations and photographs: people with objects; every tenth image's captions name no gender."""
    from biaslib.datasets.coco_imsitu import PAPER_OBJECTS

    categories = [{"id": i, "name": name.replace("_", " ")} for i, name in enumerate(("person", *PAPER_OBJECTS))]
    for part, first in (("train2014", 0), ("val2014", n)):
        images, boxes, captions = [], [], []
        for i in range(first, first + n):
            name = f"COCO_{part}_{i:012d}.jpg"
            who = "person" if i % 10 == 0 else ("man", "woman")[i % 2]
            images.append({"id": i, "file_name": name})
            there = [0, *(1 + (i + k * k) % len(PAPER_OBJECTS) for k in range(12))]
            boxes += [{"image_id": i, "category_id": number} for number in there]
            captions += [{"image_id": i, "caption": text} for text in ("People and things.", f"A {who} with a cup.")]
            picture(root / "coco" / part / name, size=(32, 24), colour=((200, 0, 0), (0, 0, 200))[i % 2])
        for kind, content in (
            ("instances", {"images": images, "annotations": boxes, "categories": categories}),
            ("captions", {"images": images, "annotations": captions}),
        ):
            path = root / "coco" / "annotations" / f"{kind}_{part}.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(content), encoding="utf-8")


def imsitu(root: Path, *, n: int = 96) -> None:
    """imSitu's annotations and photographs: four verbs, by men and women, indoors and outdoors.

    Some words decide nothing: every eighth agent is a chef, every tenth place a city. Only women are tattooed.
    """
    words = {"man": ["man", "adult male"], "woman": ["woman"], "chef": ["chef", "cook"], "kitchen": ["kitchen"],
             "field": ["field", "playing area"], "city": ["city"]}  # fmt: skip
    folder = root / "imsitu"
    folder.mkdir(parents=True, exist_ok=True)
    _json(folder / "imsitu_space.json", {"nouns": {name: {"gloss": gloss} for name, gloss in words.items()}})
    for part, split in enumerate(("train", "dev", "test")):
        images = {}
        for i in range(n):
            verb = ("cooking", "running", "resting", "tattooing")[i // 2 % 4]
            agent = "chef" if i % 8 == 7 else "woman" if verb == "tattooing" else ("man", "woman")[i % 2]
            place = "city" if i % 10 == 9 else ("kitchen", "field")[i // 8 % 2]
            name = f"{verb}_{part * n + i}.jpg"
            images[name] = {"verb": verb, "frames": [{"agent": agent, "place": place}, {"agent": agent, "place": ""}]}
            colour = (0, 0, 200) if agent == "woman" else (200, 0, 0)
            picture(folder / "of500_images_resized" / name, size=(32, 24), colour=colour)
        _json(folder / f"{split}.json", images)
