"""The wheels of the zoo: what they hold, that it belongs together, and that the same models give the same bytes."""

import base64
import csv
import hashlib
import io
import json
import zipfile

import numpy as np
import pandas as pd
import pytest
import safetensors.torch
import torch

from biaslib import recipes, worlds
from biaslib.dial import board
from biaslib.dial.measuring import balanced, pictures
from biaslib.dial.trials import Trial
from biaslib.errors import BiaslibError
from tests.conftest import one_worker
from tools import zoo as making

TRIALS = [
    Trial(world="pets", strength=s, images=60, epochs=1, size=32, test_images=20, explained=4) for s in (0.0, 0.6)
]
FOLDER = "biaslib_zoo_pets"


@pytest.fixture(scope="module", autouse=True)
def models(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BIASLIB_STORE", str(tmp_path_factory.mktemp("store")))
        patch.setattr("biaslib.store.parallel.workers", one_worker)
        yield


@pytest.fixture(autouse=True)
def store_of_its_own(models):
    """In place of a store for each test: what all tests here read was trained once."""


@pytest.fixture(scope="module")
def wheel(models, tmp_path_factory):
    return making.make(tmp_path_factory.mktemp("out"), TRIALS)["pets"]


@pytest.fixture(scope="module")
def inside(wheel):
    with zipfile.ZipFile(wheel) as opened:
        return {name: opened.read(name) for name in opened.namelist()}


def test_the_same_models_give_the_same_bytes(wheel, tmp_path):
    assert making.make(tmp_path, TRIALS)["pets"].read_bytes() == wheel.read_bytes()


def test_the_weights_are_the_models_own(inside):
    table = pd.read_csv(io.BytesIO(inside[f"{FOLDER}/models.csv"]), dtype=str)
    assert len(table) == len(TRIALS)
    for trial, row in zip(TRIALS, table.to_dict("records"), strict=True):
        data = inside[f"{FOLDER}/{row['file']}"]
        assert hashlib.sha256(data).hexdigest() == row["sha256"]
        weights, own = safetensors.torch.load(data), recipes.train(trial.recipe)
        assert weights.keys() == own.keys()
        assert all(torch.equal(weights[name], own[name]) for name in own)
        assert {of.dtype for of in weights.values()} <= {torch.float32, torch.int64}
        assert (row["protocol"], row["world"], float(row["strength"])) == (board.PROTOCOL, "pets", trial.strength)
        assert (row["images"], row["epochs"], row["seed"], row["architecture"]) == ("60", "1", "0", "small_mobilenet")


def test_a_row_is_what_the_package_looks_for(inside):
    text = inside[f"{FOLDER}/models.csv"].decode()
    for trial, row in zip(TRIALS, csv.DictReader(text.splitlines()), strict=True):
        assert {name: row[name] for name in row if name not in ("file", "sha256")} == board.settings(trial)


def test_pictures_are_drawn_again_from_their_factors(inside):
    factors = pd.read_csv(io.BytesIO(inside[f"{FOLDER}/factors.csv"]))
    assert list(factors) == list(balanced(TRIALS[0]))
    again = worlds.get("pets").render(factors, size=32)
    np.testing.assert_array_equal(again.images, pictures(TRIALS[0]).images)
    np.testing.assert_array_equal(again.masks["ball"], pictures(TRIALS[0]).masks["ball"])


def test_sums_and_the_record_cover_every_file(inside):
    sums = dict(reversed(line.split("  ")) for line in inside[f"{FOLDER}/SHA256SUMS"].decode().splitlines())
    held = {name.removeprefix(f"{FOLDER}/"): data for name, data in inside.items() if name.startswith(f"{FOLDER}/")}
    assert sums == {name: hashlib.sha256(data).hexdigest() for name, data in held.items() if name != "SHA256SUMS"}
    info = f"{FOLDER}-1.0.dist-info"
    rows = {row[0]: row[1:] for row in csv.reader(inside[f"{info}/RECORD"].decode().splitlines())}
    assert rows.keys() == inside.keys()
    assert rows.pop(f"{info}/RECORD") == ["", ""]
    for name, (digest, size) in rows.items():
        kind, _, word = digest.partition("=")
        assert (kind, int(size)) == ("sha256", len(inside[name]))
        assert base64.urlsafe_b64decode(f"{word}=") == hashlib.sha256(inside[name]).digest()


def test_a_wheel_holds_no_code(inside):
    names = {name.removeprefix(f"{FOLDER}/") for name in inside if name.startswith(f"{FOLDER}/")}
    beside = {"LICENSE", "README.md", "SHA256SUMS", "croissant.json", "factors.csv", "models.csv"}
    assert beside == {name for name in names if not name.startswith("weights/")}
    assert {name.rpartition(".")[2] for name in names - beside} == {"safetensors"}
    assert "Root-Is-Purelib: true" in inside[f"{FOLDER}-1.0.dist-info/WHEEL"].decode()
    metadata = inside[f"{FOLDER}-1.0.dist-info/METADATA"].decode()
    assert metadata.startswith("Metadata-Version: 2.4\nName: biaslib-zoo-pets\nVersion: 1.0\n")
    assert b"Apache License" in inside[f"{FOLDER}-1.0.dist-info/licenses/LICENSE"]


def test_the_metadata_have_what_croissant_requires(inside):
    """What `mlcroissant validate` asks for; CONTRIBUTING.md says when that itself is run."""
    said = json.loads(inside[f"{FOLDER}/croissant.json"])
    required = {"@context", "@type", "conformsTo", "name", "description", "version", "license", "url", "creator"}
    required |= {"datePublished", "citeAs", "distribution", "recordSet"}
    assert required <= said.keys()
    assert "http://mlcommons.org/croissant/1.0" in said["conformsTo"]
    objects = {each["@id"]: each for each in said["distribution"]}
    for each in objects.values():
        assert {"name", "contentUrl", "encodingFormat", "sha256"} <= each.keys()
        assert hashlib.sha256(inside[f"{FOLDER}/{each['contentUrl']}"]).hexdigest() == each["sha256"]
    names = [name for name in inside if name.startswith(f"{FOLDER}/weights/")]
    assert objects.keys() == {"models.csv", "factors.csv", *(name.removeprefix(f"{FOLDER}/") for name in names)}
    for record in said["recordSet"]:
        file = f"{record['@id']}.csv"
        columns = list(pd.read_csv(io.BytesIO(inside[f"{FOLDER}/{file}"]), nrows=1))
        assert [field["source"]["extract"]["column"] for field in record["field"]] == columns
        assert {field["source"]["fileObject"]["@id"] for field in record["field"]} == {file}
    assert "no person" in said["rai:personalSensitiveInformation"]


def test_a_wheel_that_is_too_large_is_refused_and_not_written(tmp_path):
    with pytest.raises(BiaslibError, match=r"The wheel of pets has [\d,]+ bytes, and at most 1,000 are allowed"):
        making.make(tmp_path, TRIALS, largest=1000)
    assert not list(tmp_path.glob("*.whl"))


def test_two_trainings_of_one_name_are_refused(tmp_path):
    with pytest.raises(BiaslibError, match=r"Two models would be weights/0\.6-00\.safetensors"):
        making.files_of([TRIALS[1], Trial(world="pets", strength=0.6, images=61, epochs=1, size=32)])


def test_the_submissions_ask_for_the_models_of_three_worlds():
    trials = making.asked_for()
    assert len({trial.recipe for trial in trials}) == len(trials) == 165
    assert sum(trial.strength == 0 for trial in trials) == 120
