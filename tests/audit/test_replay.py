"""Inputs that a practitioner tried and no other test holds: read as they are meant, or refused for the right reason."""

import shutil

import numpy as np
import pandas as pd
import pytest
import timm
import torch
from PIL import Image

from biaslib import audit
from biaslib.errors import BiaslibError
from tests.audit.subjects import PLAIN, draw, honest, under_audit

N = 60
TABLE = pd.DataFrame(
    {
        "file": [f"{row}.png" for row in range(N)],
        "cat": [0, 1] * (N // 2),
        "old": [0, 0, 1, 1] * (N // 4),
        "said": [0, 1, 0, 0, 1, 1] * (N // 6),
    }
)
WORDS = TABLE.assign(**{name: TABLE[name].map({0: "dog", 1: "snake"}) for name in ("cat", "said")})


def audited(labels, **given):
    asked = {"target": "cat", "groups": "old", "predictions": "said", "permutations": 19}
    return audit.run(labels=labels, **(asked | given))


def numbers(found):
    """All numbers of the gaps and of the whole."""
    gaps = found.tables["gaps"].drop(columns=["among", "group"]).to_numpy().tolist()
    return [*gaps, *found.tables["overall"]["value"]]


def text(table, path, **options):
    table.to_csv(path, index=False, **options)
    return path


@pytest.mark.parametrize(
    "given",
    [
        lambda at: text(TABLE, at / "t.CSV"),
        lambda at: text(TABLE, at / "t.csv", encoding="utf-8-sig"),
        lambda at: text(TABLE.reset_index(), at / "t.csv"),
        lambda at: text(TABLE.assign(file="Kätzchen ねこ " + TABLE["file"]), at / "t.csv"),
        lambda at: text(TABLE.assign(old=TABLE["old"].map({0: " 0", 1: "1.0 "})), at / "t.csv"),
        lambda at: WORDS,
        lambda at: TABLE.assign(cat=2 * TABLE["cat"] - 1, said=2 * TABLE["said"] - 1.0),
        lambda at: TABLE.assign(said=TABLE["said"].map({0: "FALSE", 1: "True"})),
        lambda at: TABLE.set_index(TABLE.index[::-1]),
    ],
)
def test_a_table_that_says_the_same_gives_the_same_numbers(tmp_path, given):
    assert numbers(audited(given(tmp_path))) == numbers(audited(TABLE))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"labels": lambda at: text(WORDS, at / "t.csv", encoding="utf-16")}, "cannot be read as CSV .* CSV in UTF-8"),
        (
            {"labels": lambda at: text(TABLE.assign(cat="Kätzchen"), at / "t.csv", encoding="latin-1")},
            "cannot be read as CSV .* CSV in UTF-8",
        ),
        ({"target": "said", "labels": TABLE.assign(said=["0", "1", "unknown"] * 20)}, "'said' has 3 values"),
        ({"labels": TABLE.assign(said=["15 %", "70 %"] * 30), "threshold": 0.5}, "60 of 60 .* are no finite numbers"),
        ({"labels": TABLE.assign(said=["0,2", "0,7"] * 30), "threshold": 0.5}, "60 of 60 .* are no finite numbers"),
        ({"labels": TABLE.assign(file="/home/" + TABLE["file"])}, "'/home/0.png' in column 'file' is not inside"),
        ({"labels": WORDS.assign(said=TABLE["said"])}, "hold '0', but the labels 'dog' and 'snake'"),
        ({"target": ["cat", "old"]}, "2 targets but 1 columns or tables of predictions for them: name one for each"),
        ({"labels": pd.concat([TABLE, TABLE[["cat"]]], axis=1)}, "'cat' stands twice among the columns"),
        ({"labels": lambda at: text(pd.concat([TABLE, TABLE[["cat"]]], axis=1), at / "t.csv")}, "'cat' stands twice"),
    ],
)
def test_a_table_that_may_mean_something_else_is_refused(tmp_path, given, said):
    asked = {"labels": TABLE} | given
    asked["labels"] = asked["labels"](tmp_path) if callable(asked["labels"]) else asked["labels"]
    with pytest.raises(BiaslibError, match=said):
        audited(**asked)


def test_an_unknown_value_of_a_group_is_a_group_and_so_seen():
    found = audited(TABLE.assign(old=["yes", "no", "unknown"] * 20))
    assert [group.name for group in found.groups] == ["old no", "old unknown", "old yes"]


def test_a_threshold_on_another_scale_than_the_scores_is_said_loudly():
    found = audited(TABLE.assign(said=np.linspace(0, 1, N)), threshold=50)
    assert found.warnings[0].startswith("The model gives the same answer, not cat, for every image.")


@pytest.fixture
def small_set(tmp_path):
    draw(tmp_path / "set", n=24)
    return tmp_path / "set"


def asked(folder, labels=None, **given):
    labels = folder / "labels.csv" if labels is None else labels
    settings = {"data": folder / "images", "labels": labels, "target": "green", "groups": "red", "permutations": 19}
    return audit.run(model=honest(), **(settings | PLAIN | given))


KINDS = {
    "a.png": lambda image: image.convert("RGBA"),
    "b.PNG": lambda image: image.convert("P", palette=Image.Palette.ADAPTIVE),
    "c.gif": lambda image: image.convert("P", palette=Image.Palette.ADAPTIVE),
    "d.tiff": lambda image: image.convert("CMYK"),
    "e.bmp": lambda image: image,
    "in here/Kätzchen ねこ.webp": lambda image: image,
    "in here/f.JPG": lambda image: image,
}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_pictures_of_every_kind_are_read_alike(small_set, tmp_path):
    labels = pd.read_csv(small_set / "labels.csv")
    (tmp_path / "kinds" / "images" / "in here").mkdir(parents=True)
    for row, (name, changed) in enumerate(KINDS.items()):
        with Image.open(small_set / "images" / labels.loc[row, "file"]) as image:
            options = {"lossless": True} if name.endswith("webp") else {}
            changed(image).save(tmp_path / "kinds" / "images" / name, **options)
    named = labels[: len(KINDS)].assign(file=list(KINDS))
    plain, others = (
        asked(small_set, labels[: len(KINDS)]).answers, asked(tmp_path / "kinds", named).answers
    )  # fmt: skip
    np.testing.assert_allclose(others["score"][:-1], plain["score"][:-1], rtol=1e-4)
    assert others["answer about green"].tolist() == plain["answer about green"].tolist()  # JPEG's score is only near


def test_broken_pictures_are_counted_and_many_are_said_first(small_set):
    images = small_set / "images"
    whole = (images / "000.png").read_bytes()
    for name, content in (("000.png", whole[: len(whole) // 2]), ("001.png", b""), ("002.png", b"hello")):
        (images / name).write_bytes(content)
    found = asked(small_set)
    assert found.numbers["unreadable"] == 3
    assert "Left out, as they cannot be read: 3 of the images (000.png, 001.png, 002.png)." in found.notes
    assert found.warnings[0].startswith("3 of 24 images cannot be read and are left out")
    shutil.copy(images / "004.png", images / "000.png")
    shutil.copy(images / "004.png", images / "001.png")
    assert not any("left out" in warning for warning in asked(small_set).warnings)


def test_names_without_endings_are_named(small_set):
    labels = pd.read_csv(small_set / "labels.csv", dtype=str)
    with pytest.raises(BiaslibError, match=r"24 of 24 images .* are not in .* \(000, 001, 002, ...\): mend the names"):
        asked(small_set, labels.assign(file=labels["file"].str.removesuffix(".png")))


def fails():
    raise RuntimeError("no such weights")


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("no_module_here:model", "does not give a model .*no_module_here.* name a function without arguments"),
        ("tests.audit.subjects:draw", "does not give a model .*missing 1 required positional argument"),
        ("tests.audit.test_replay:fails", r"does not give a model \(no such weights\)"),
    ],
)
def test_a_function_that_gives_no_model_is_one_sentence(model, said):
    with pytest.raises(BiaslibError, match=said):
        under_audit(model)


@pytest.mark.parametrize("name", ["test_efficientnet", "test_convnext", "test_resnet", "test_mambaout"])
def test_timms_convolutional_families_have_maps(name):
    torch.manual_seed(0)
    found = under_audit(timm.create_model(name, num_classes=2), preprocessing={"size": 64})
    assert found.described["maps"] == "grad-cam"


def test_of_two_targets_of_the_command_the_last_one_is_not_silently_taken(small_set, refusal):
    said = refusal(small_set, target=("green", "--target", "random"), data=None, predictions="red")
    assert said == "There are 2 targets but 1 columns or tables of predictions for them: name one for each."
