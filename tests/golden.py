"""What the package computes on fixed inputs, in numbers: kept in golden.json, so that a move of code changes none.

`python -m tests.golden --write` puts numbers that have changed on purpose into the tree. `--bits FILE` writes a hash of
every result instead, to compare one machine before and after a move, bit by bit.
"""

import argparse
import contextlib
import dataclasses
import functools
import hashlib
import json
import os
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
import torch

from biaslib import attribution, audit, datasets, metrics, mitigation, models, recipes, statistics, worlds
from biaslib.training import TrainingConfig
from tests import layouts
from tests.audit import subjects

# isort: split
# names that have not settled yet: a move of modules changes these lines and no others
from biaslib.chapters import (
    attribute_models,
    digit_models,
    face_generators,
    planted_models,
    scene_models,
)
from biaslib.chapters.scene_models import HAIR, HAIR_ATTRIBUTES
from biaslib.gan.training import EncoderConfig, GanConfig
from biaslib.mitigation import resampling, subsampling
from biaslib.statistics import crossed, detection, proportions
from biaslib.worlds.photos import FruitPhotos, PetPhotos

FILE = Path(__file__).with_name("golden.json")
PLACES, SIGNIFICANT = 12, 7  # of a float result: how many of its values are kept, in how many digits
WEIGHTS = 5  # of the bytes of a picture: 1 to 5 in turn, so that a byte in another place is another sum
Values = dict[str, Any]


def exact(*parts: Any) -> np.ndarray:
    """Bytes of arrays and words that have to be the same on every machine."""
    raw = (str(p).encode() if isinstance(p, str) else np.ascontiguousarray(p).tobytes() for p in parts)
    return np.frombuffer(b"".join(raw), np.uint8)


def rendered(world: Any, table: pd.DataFrame, sizes: Mapping[int, int]) -> Values:
    """The table, labels and names of regions, exactly; pixels and masks of the first rows: size -> how many rows."""
    found: Values = {}
    for size, rows in sizes.items():
        samples = world.render(table.head(rows), size=size)
        parts = [samples.images, *(samples.masks[name] for name in sorted(samples.masks))]
        found[f"{size} px"] = np.concatenate([np.asarray(part, np.uint8).reshape(rows, -1) for part in parts], axis=1)
    columns = [(name, frame[name].to_numpy()) for frame in (table, samples.labels) for name in frame]
    return {"table": exact(*sum(columns, ()), *sorted(samples.masks)), **found}


def drawn() -> Values:
    options = {name: [{}] for name in worlds.names()}
    options["faces"] += [{"confounder": False, "detail": 1.0}]
    options["digits"] += [{"split": "test", "blur": 0.5}]
    options["scenes"] += [{"singles": 0.1, "pairs": 0.9, "triples": 0.2, "robot_size": 0.4}]
    return {
        f"{name} {number} {part}": value
        for name, choices in options.items()
        for number, given in enumerate(choices)
        for part, value in rendered(
            worlds.get(name), worlds.get(name).factors(24, strength=0.5, seed=7, **given), {32: 24, 64: 24, 224: 3}
        ).items()
    }


def photos() -> Values:
    """Rectangles in the layouts of real data: the same biases, planted in photos."""
    with _data() as root:
        layouts.pets(root, per_breed=12)
        layouts.cat_and_dog(root, each=8)
        layouts.fruits360(root, each=6)
        layouts.scenes(root, each=8)
        return {
            f"{world.name} {part}": value
            for world in (PetPhotos("train"), FruitPhotos("train"))
            for part, value in rendered(world, world.factors(8, strength=0.5, seed=7), {32: 8}).items()
        }


def hair_colours() -> Values:
    """A model of CelebA's faces, here of 90 green pictures with labels at random."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame({name: rng.random(90) < 0.4 for name in HAIR_ATTRIBUTES})
    hair = dict(zip(HAIR, np.eye(len(HAIR), dtype=bool)[rng.integers(len(HAIR), size=90)].T, strict=True))
    with _data() as root:
        layouts.celeba(root, table.assign(**hair), pictures=True)
        found = scene_models._answers.compute(scene_models.HairSetup(epochs=1, size=16, batch=16))
        return {name: found[name] for name in ("train", "validation", "test", "validation_logits", "test_logits")}


def scenes(training: Any) -> Values:
    # an adversary that still guesses leaves the model alone: it needs more steps
    epochs, batch = (2, 16) if training == "adversarial" else (1, 32)
    setup = scene_models.SceneSetup(
        training=training, images=128, validation_images=64, test_images=16, size=32, epochs=epochs, batch=batch,
        eps=0.2, adversary_weight=2.0,
    )  # fmt: skip
    found = scene_models._answers.compute(setup)
    return {
        "weights": list(weights(setup)["weights"].values()),
        "rows": exact(found["rows"]),
        "logits": found["test_logits"],
    }


def weights(setup: recipes.Setup | recipes.Recipe) -> Values:
    """Of the model alone, without those of what it was trained against."""
    state = recipes.train.compute(setup if isinstance(setup, recipes.Recipe) else setup.recipe)
    return {"weights": {name: one for name, one in state.items() if not name.startswith(recipes.CRITERION)}}


# Every kind of model that the package trains: one epoch on 64 small images or so. Few steps, and seeds with which
# another CPU's last bits stay small: with others, four steps of Adam make 1e-2 of them.
PETS = planted_models.PlantedSetup(images=64, size=32, epochs=1, validation=16, seed=1)
FRUITS = replace(PETS, use_case="fruits", architecture="small_efficientnet", frozen=1, strength=None, batch=16)
DIGITS = digit_models.DigitSetup(images=64, test_images=32, epochs=1, strength=0.5, batch=8)
FACES = attribute_models.Experiment(
    attributes=("Smiling", "Blond_Hair"), images=96, correlation=("Smiling", 0.3), kept=64, size=32, epochs=1, batch=16,
    seed=1,
)  # fmt: skip
RECIPE = recipes.target_of_world(
    recipes.Drawn(world="birds", strength=0.5, images=64, size=32),
    TrainingConfig(epochs=1, batch=16, augmentation=("crop",)),
)
TINY = face_generators.GeneratorSetup(
    images=40,
    gan=GanConfig(latent=8, widths=(8, 8), growth=((0.0, 0.5), (0.2, 0.3)), images=64, batch=4, chunks=4, average=0.5),
    encoder=EncoderConfig(widths=(8,), images=64, batch=16),
)


def generator() -> Values:
    """Its tensors by their kind; not the pictures it draws on the way, which are rounded to bytes."""
    state = face_generators.train.compute(TINY)
    kinds = ("generator.", "encoder.", "log", "latent_correlation")
    return {kind: [tensor for name, tensor in state.items() if name.startswith(kind)] for kind in kinds}


MITIGATIONS = ("original", "oversampling", "data_repair", "adversarial", "domain_independent")
TRAININGS: dict[str, Callable[[], Values]] = {
    "ensemble": lambda: weights(RECIPE),
    "planted pets": lambda: weights(PETS),
    "planted fruits": lambda: weights(FRUITS),
    "attributes": lambda: weights(FACES),
    **{f"scenes {name}": functools.partial(scenes, name) for name in MITIGATIONS},
    "digits": lambda: digit_models.answers.compute(DIGITS),
    "hair colours": hair_colours,
    "generator": generator,
}


def maps() -> Values:
    torch.manual_seed(0)
    model = models.placed(models.build("small", 3))
    birds = worlds.get("birds")
    asked = model, birds.render(birds.factors(3, strength=0.5, seed=1), size=32).images, [0, 2]
    return {
        "grad_cam": attribution.grad_cam(*asked),
        "grad_cam absolute": attribution.grad_cam(*asked, absolute=True),
        "score_cam": attribution.score_cam(*asked),
        "integrated_gradients": attribution.integrated_gradients(*asked, steps=16),
        "epsilon_lrp": attribution.epsilon_lrp(*asked),
        "epsilon_lrp toolbox": attribution.epsilon_lrp(*asked, rule="toolbox", eps=10.0, scaled=True),
    }


def measures() -> Values:
    rng = np.random.default_rng(0)

    def labelled(n: int) -> metrics.Labels:
        """Four attributes that lean to the second of two groups."""
        groups = rng.integers(2, size=n)
        return metrics.Labels(rng.random((n, 4)) < 0.3 + 0.3 * groups[:, None], groups)

    def bright(pixels: Any) -> np.ndarray:
        return np.asarray(pixels).mean((1, 2))[:, :2] / 255

    a, b, mask = rng.random((3, 16, 16)), rng.random((3, 16, 16)), rng.random((3, 16, 16)) < 0.3
    train, test, said = (labelled(n) for n in (300, 200, 200))
    scores, truth, makers = rng.normal(size=(200, 4)), test.attributes, rng.normal(size=(200, 2))
    changed, correct, groups = rng.random((2, 50)), rng.random(200) < 0.8, rng.integers(3, size=200)
    images, pets = rng.integers(0, 256, (4, 16, 16, 3), np.uint8), worlds.get("pets")
    curves = metrics.perturbation_curves(bright, images, rng.random((4, 16, 16)), [0, 1, 0, 1], steps=8, region=4)
    found: Values = {
        "attention_iou": metrics.attention_iou(a, b),
        "mask_score": [metrics.mask_score(a[:, ::2, ::2], mask * (k > 0), absent="zero") for k in (0, 1)],
        "resize_masks": metrics.resize_masks(mask, (5, 7)),
        "relevance_mass_accuracy": metrics.relevance_mass_accuracy(a, mask),
        "relevance_rank_accuracy": metrics.relevance_rank_accuracy(a, mask),
        "dilate_to_area": exact(metrics.dilate_to_area(mask)), "upsample_maps": metrics.upsample_maps(a, 24, 20),
        "perturbation": [curves, metrics.aopc(curves)],
        "group_accuracy": [metrics.group_accuracy(correct, groups), metrics.worst_group_accuracy(correct, groups)],
        "normalized_average_precision": metrics.normalized_average_precision(truth.T, scores.T, 40),
        "mean_average_precision": metrics.mean_average_precision(truth, scores),
        "set_average_precision": metrics.set_average_precision(train.attributes, truth, scores),
        "sensitivities": [metrics.score_sensitivity(*changed), metrics.classification_sensitivity(*changed)],
        "flip_rates": metrics.flip_rates(*changed),
        "causal_effect": metrics.causal_effect(
            lambda pixels: bright(pixels)[:, 0], pets, pets.factors(4, strength=0.5, seed=0), cue=pets.cue, size=32
        ),
        "calibrated_thresholds": metrics.calibrated_thresholds(truth, scores),
        "permutation_baseline": exact(
            metrics.permutation_baseline(test, said, rng=np.random.default_rng(0)).attributes
        ),
        "domain_scores": [
            mitigation.domain_scores(scores, "conditional", n_groups=2, groups=test.groups),
            *(mitigation.domain_scores(scores, f"sum_of_{what}", n_groups=2) for what in ("probabilities", "logits")),
            mitigation.domain_scores(scores, "max", n_groups=2),
        ],
        "corpus_constraints": mitigation.corpus_constraints(scores, makers, train),
    }  # fmt: skip
    for kind in ("undirected", "group_to_attribute", "attribute_to_group"):
        for given in ({}, {"sets": "observed", "absolute": False, "reference": "train", "max_size": 2}):
            amplification = metrics.bias_amplification(train, test, said, kind=kind, **given)
            found[f"bias_amplification {kind} {len(given)}"] = [amplification, amplification.table()]
    return found


def tests() -> Values:
    rng = np.random.default_rng(1)
    x, y, table = rng.normal(0.3, 1, 24), rng.normal(size=24), rng.normal(size=(4, 30)) + rng.normal(size=(4, 1))
    clusters, yes, group = np.repeat(np.arange(6), 4), rng.random((120, 3)) < 0.4, rng.integers(2, size=120)
    return {
        "interval": [statistics.interval(x), statistics.interval(x, clusters=clusters, bounds=(-1, 1), confidence=0.9)],
        "crossed_interval": [crossed.crossed_interval(table), crossed.crossed_interval(table, strata=(2, 2))],
        "crossed_ratio": crossed.crossed_ratio(table + 9, table[:, :20] + 7), "components": crossed.components(table),
        "crossed_welch": crossed.crossed_welch(table, table[::-1] * 0.5), "welch": statistics.welch(x, y),
        "sign_flip": [statistics.sign_flip(x[:9]), statistics.sign_flip(x)],
        "kendall": [statistics.kendall(x, x.round() + y), statistics.kendall(x, x + y, clusters=clusters)],
        "holm": statistics.holm([0.01, 0.04, 0.03, 0.2]),
        "minimum_detectable_gap": statistics.minimum_detectable_gap(0.9, 120, 80),
        "power": [proportions.gap_power(0.9, 50, 0.7, 40), proportions.images_needed(0.9, 0.1)],
        "share_p_values": proportions.share_p_values([5, 9], 20, [9, 9], 18),
        "proportions": [proportions.compare_shares(yes[:50, 0], yes[50:, 0]), proportions.share_interval(3, 20)],
        "detection": [
            detection.p_value(x, y, side="above"), detection.detection_power(shift=2.0, n_reference=6),
            detection.detection_threshold([0.0, 0.5, 1.0], [0.1, 0.9, 1.0], share=0.8),
        ],
        "oversample": exact(resampling.oversample(yes, group, eps=0.1)),
        "data_repair": exact(resampling.data_repair(yes, group, size=60)),
        "subsample_to_mcc": exact(*subsampling.subsample_to_mcc(yes[:, 0], group, [0.0, 0.3])),
    }  # fmt: skip


MEASURED = (
    "overall", "counts", "correlations", "accuracies", "gaps", "attention", "regions", "regions_by_cell",
    "amplification", "visible",
)  # fmt: skip


def audited() -> Values:
    with tempfile.TemporaryDirectory() as folder:
        subjects.draw(Path(folder), n=80)
        found = audit.run(
            model=subjects.both(), data=f"{folder}/images", masks=f"{folder}/masks", unwanted=["spot"],
            labels=f"{folder}/labels.csv", target="green", groups=["red", "random"], output=1, group_outputs=[1, 0],
            permutations=19, **subjects.PLAIN,
        ).to_json()  # fmt: skip
    # what was measured when the file was written: no table or column that came later, nor what the book's record gives
    tables = {name: found["tables"][name] for name in MEASURED}
    for row in tables["visible"]:
        del row["gap"], row["outcome"]
    return {"tables": tables, "numbers": found["numbers"], "p": [one["p"] for one in found["findings"]]}


PARTS: dict[str, Callable[[], Values]] = {
    "worlds": drawn, "photos": photos, "maps": maps, "metrics": measures, "statistics": tests, "audit": audited,
    **{f"training {name}": run for name, run in TRAININGS.items()},
}  # fmt: skip


def computed(part: str, device: torch.device | str = "cpu") -> dict[str, np.ndarray]:
    """The part's results: integers are to be the same on every machine, floats nearly."""
    with contextlib.ExitStack() as alike:
        # neither a graphics card nor half precision, which only some machines have; one thread, as in every training
        alike.enter_context(mock.patch.object(models, "device", return_value=torch.device(device)))
        alike.enter_context(mock.patch.object(torch.cpu, "get_capabilities", dict, create=True))
        alike.callback(torch.set_num_threads, torch.get_num_threads())
        torch.set_num_threads(1)
        found = PARTS[part]()
    whole = {name: isinstance(value, np.ndarray) and value.dtype.kind in "biu" for name, value in found.items()}
    return {name: value if whole[name] else np.array(list(numbers(value)), float) for name, value in found.items()}


def numbers(value: Any) -> Iterator[float]:
    """All numbers in a result, in their order, without the names of its fields, which may change."""
    if dataclasses.is_dataclass(value):
        value = [each for name, each in vars(value).items() if not name.startswith("_")]
    if isinstance(value, pd.DataFrame):
        value = value.to_dict("list")
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, torch.Tensor | np.ndarray):
        yield from np.asarray(value, float).ravel().tolist()
    elif isinstance(value, list | tuple):
        for each in value:
            yield from numbers(each)
    elif not isinstance(value, str):
        yield np.nan if value is None else float(value)


def pictures(values: np.ndarray) -> bool:
    """Whether a result is bytes of pixels and masks, a row an image."""
    return values.dtype == np.uint8 and values.ndim == 2


def summary(values: np.ndarray) -> str:
    """What is kept of a result.

    Of floats how many there are, how many of them are numbers, mean, deviation and some values. Of pictures a sum a
    row, which depends on the place of every byte: no hash, as the last bit of a sine, which is not the same on all
    machines, decides about one byte in a million. Of other integers a hash.
    """
    if pictures(values):
        return " ".join(map(str, values @ (1 + np.arange(values.shape[1]) % WEIGHTS)))
    if values.dtype.kind != "f":
        return hashed(values)
    there = values[~np.isnan(values)]
    some = values[np.linspace(0, len(values) - 1, min(PLACES, len(values))).astype(int)]
    return " ".join(f"{x:.{SIGNIFICANT}g}" for x in (len(values), len(there), there.mean(), there.std(), *some))


def hashed(values: np.ndarray) -> str:
    return hashlib.sha256(f"{values.dtype.kind}{values.shape}".encode() + values.tobytes()).hexdigest()


@contextlib.contextmanager
def _data() -> Iterator[Path]:
    """An empty folder for data, in place of the reader's."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", datasets.DatasetWarning)
        with mock.patch.dict(os.environ, BIASLIB_DATA=folder):
            yield Path(folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--bits", type=Path, metavar="FILE")
    asked = parser.parse_args()
    # a store of its own: nothing is taken from what another version has computed
    with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ, BIASLIB_STORE=folder):
        found = {part: computed(part) for part in PARTS}
    for file, kept in ((FILE if asked.write else None, summary), (asked.bits, hashed)):
        if file:
            lines = {part: {name: kept(value) for name, value in values.items()} for part, values in found.items()}
            file.write_text(json.dumps(lines, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
