"""Makes `pool.csv`, the stored pool of 40 models: `python -m tests.book.course.pool`, 40 minutes on one core.

They are the models that a secret, which everybody may know, gives to 40 teams. A row is a suspect of a model: its exact
effect on the 600 pictures; what a careful auditor measures on the same pictures, with a standard error (least squares
of the answers on the target and all suspects); the share of Grad-CAM's mass that lies on the suspect, where it has a
place of its own; and the share of right answers. A column holds the key of the model's recipe: the rows are of the
recipes that `assigned` gives now as long as the keys are the same. No model is stored. `test_scoring.py` lets scripted
players audit these models.
"""

import dataclasses
import hashlib
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import safetensors.torch
from scipy.special import softmax

from biaslib import attribution, models, recipes, training
from biaslib.book.course import capstone
from biaslib.store import stored

SECRET = "a pool that everybody may look at"
MODELS = 40
FILE = Path(__file__).with_suffix(".csv")
# where a reader of maps looks for a suspect; what is not named has no place of its own outside the target
PLACES = {
    "background": ("background",),
    "ball": ("ball",),
    "garden": ("background",),
    "Clan": ("eyebrows", "eyes", "mouth"),
    "Eyeglasses": ("eyeglasses",),
    "Wearing_Lipstick": ("mouth",),
    "Wearing_Earrings": ("earrings",),
    "mug": ("mug",),
    "book": ("book",),
    "glasses": ("glasses",),
}


def key(team: int) -> str:
    """Of the pictures and the recipe of one model: their values, and the training's where they are not the defaults."""
    pictures, trained_on, *_ = capstone.assigned(SECRET, team)
    config = trained_on.recipe.training
    fields = dataclasses.fields(config)
    chosen = {each.name: value for each in fields if (value := getattr(config, each.name)) != each.default}
    return hashlib.sha256(repr((pictures, trained_on, sorted(chosen.items()))).encode()).hexdigest()[:16]


def careful(answers: np.ndarray, target: np.ndarray, suspects: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Least squares of the answers (N,) on target and suspects (N, 6): six effects and their standard errors."""
    design = np.column_stack([np.ones(len(answers)), target, suspects]).astype(float)
    inverse = np.linalg.inv(design.T @ design)
    fitted = inverse @ design.T @ answers
    rest = answers - design @ fitted
    variance = rest @ rest / (len(answers) - design.shape[1])
    return fitted[2:], np.sqrt(variance * np.diag(inverse))[2:]


@stored("capstone-pool")
def measured(team: int) -> np.ndarray:
    """(6, 5): effect, what is seen of it, its standard error, the share of the map, and of right answers."""
    pictures, trained_on, *_ = capstone.assigned(SECRET, team)
    model, samples = recipes.load(trained_on.recipe), pictures.with_masks()
    answers = softmax(training.predict(model, samples.images), axis=1)[:, 1]
    labels = pictures.labels().to_numpy()[:, 1:].astype(float)
    seen, error = careful(answers, labels[:, 0], labels[:, 1:])
    asked = (answers > 0.5).astype(int)[:, None]
    maps = attribution.grad_cam(model, models.to_tensor(samples.images, model=model), asked)[:, 0].numpy()
    shares = [map_share(maps, samples.masks, PLACES.get(column, ())) for column in pictures.suspects.values()]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.safetensors"
        safetensors.torch.save_file({name: each.contiguous() for name, each in model.state_dict().items()}, file)
        effects = capstone.exact_effects.compute((pictures, file, ""))
    right = np.mean((answers > 0.5) == labels[:, 0])
    return np.column_stack([effects, seen, error, shares, np.full(len(effects), right)])


def map_share(maps: np.ndarray, masks: dict[str, np.ndarray], regions: tuple[str, ...]) -> float:
    """The share of the maps' mass (N, h, w) in some regions, of all pictures together; 0 without a region."""
    inside = sum((masks[region] for region in regions), np.zeros_like(next(iter(masks.values()))))
    n, height, width = maps.shape
    cells = inside.reshape(n, height, inside.shape[1] // height, width, inside.shape[2] // width).mean(axis=(2, 4))
    return float((maps * cells).sum() / maps.sum())


def made() -> pd.DataFrame:
    rows = []
    for team, values in enumerate(measured.many(list(range(1, MODELS + 1))), start=1):
        table = pd.DataFrame(values.round(5), columns=["effect", "seen", "error", "share", "right"])
        table.insert(0, "suspect", list(capstone.assigned(SECRET, team)[0].suspects))
        table.insert(0, "model", team)
        rows.append(table.assign(recipe=key(team)))
    return pd.concat(rows, ignore_index=True)


if __name__ == "__main__":
    from tests.book.course import pool  # a worker finds its function by this name

    pool.made().to_csv(FILE, index=False)
