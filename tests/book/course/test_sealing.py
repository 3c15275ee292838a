"""What a team gets, and that nobody learns from it what the secret has chosen."""

import json
import struct
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import safetensors.torch
from PIL import Image

from biaslib import models, training
from biaslib.book.course import capstone
from biaslib.book.course.capstone import Planted, assigned, seal
from biaslib.chapters.blind_audit import CANDIDATES
from biaslib.errors import BiaslibError
from tests.book.course.sealed import SECRET, files, quickly
from tests.test_cli import call

CLASS = range(1, 13)


@pytest.fixture
def quick(monkeypatch):
    """The recipes that were asked for, while sealing is quick."""
    return quickly(monkeypatch)


def test_the_secret_decides_and_another_one_decides_otherwise():
    ours, theirs = ([assigned(secret, team) for team in CLASS] for secret in (SECRET, SECRET + "."))
    assert ours == [assigned(SECRET, team) for team in CLASS]
    assert not set(ours) & set(theirs)
    same = [
        (a.world, set(a.cues)) == (b.world, set(b.cues)) for (_, a, *_), (_, b, *_) in zip(ours, theirs, strict=True)
    ]
    assert sum(same) <= 4
    seeds = [data.seed for pictures, audited, *_ in ours for data in (pictures, audited)]
    assert len(set(seeds)) == 24
    assert max(seeds) > 2**60


def test_every_world_and_number_of_cues_comes_and_a_quarter_is_unbiased():
    audited = [assigned(SECRET, team)[1] for team in range(1, 401)]
    pairs = {(world, column) for world, columns in CANDIDATES.items() for column in columns.values()}
    assert {(data.world, cue) for data in audited for cue in data.cues} == pairs
    assert all(len(set(data.cues)) == len(data.cues) for data in audited)
    shares = np.bincount([len(data.cues) for data in audited]) / len(audited)
    assert shares == pytest.approx([0.25] * 4, abs=0.065)  # three standard errors
    strengths = np.array([data.strength for data in audited])
    assert {len(data.cues) for data in audited if data.strength == 0} == {0}
    assert (strengths[strengths > 0] >= 0.5).all()
    assert np.quantile(strengths[strengths > 0], [0.1, 0.9]) == pytest.approx([0.55, 0.95], abs=0.04)


def test_references_are_unbiased_and_shared_by_the_teams_of_a_world():
    by_world = {}
    for team in CLASS:
        pictures, audited, *references = assigned(SECRET, team)
        assert {data.world for data in (audited, *references)} == {pictures.world}
        assert [data.strength for data in references] == [0, 0]
        assert len({data.seed for data in (pictures, audited, *references)}) == 4
        assert by_world.setdefault(pictures.world, references) == references


def test_a_team_cannot_tell_the_cues_by_how_its_pictures_are_balanced():
    for world in CANDIDATES:
        labels = Planted(world=world, images=40, strength=0.0, seed=3).labels().iloc[:, 1:].to_numpy()
        for suspect in labels.T[1:]:
            np.testing.assert_array_equal(np.bincount(2 * labels[:, 0] + suspect), [10, 10, 10, 10])


@pytest.mark.parametrize("world", CANDIDATES)
def test_cues_agree_with_the_target_as_often_as_the_strength_says(world):
    columns = list(CANDIDATES[world].values())
    for cues in [(column,) for column in columns] + [tuple(columns[:3])]:
        labels = Planted(world=world, images=80, strength=0.5, seed=4, cues=cues).labels()
        target = labels.iloc[:, 1]
        for words, column in CANDIDATES[world].items():
            # half a row in each class
            expected = pytest.approx(0.75, abs=0.026) if column in cues else 0.5
            assert (labels[words] == target).mean() == expected


def test_little_and_much_of_a_degree_are_its_quartiles():
    plain = Planted(world="birds", images=80, strength=0.0, seed=4)
    light = plain.get_world().factors(80, strength=0.0, seed=4)["light"]
    drawn = plain.table()["light"]
    assert sorted(set(drawn)) == pytest.approx(light.quantile([0.25, 0.75]).tolist())
    assert (plain.labels()["bright light"] == (drawn > 0.5)).all()


def test_a_recipe_is_of_the_pictures_and_of_nothing_that_is_measured():
    audited = assigned(SECRET, 1)[1]
    recipe = audited.recipe
    assert recipe.data == audited
    assert recipe.targets == audited.get_world().target
    assert (recipe.training.seed, recipe.training.augmentation) == (audited.seed, ())
    drawn = Planted(world="pets", images=6, strength=0.0, seed=1)
    assert drawn.samples().images.shape == (6, 64, 64, 3)
    assert drawn.samples(np.array([2])).images.tolist() == drawn.samples().images[[2]].tolist()


def test_a_folder_has_what_its_readme_says(quick, tmp_path):
    (folder,) = seal(SECRET, teams=1, out=tmp_path)
    names = {path.name for path in folder.iterdir()}
    assert names == {*capstone.WEIGHTS, "README.md", "form.csv", "labels.csv", "prices.csv", "pictures", "masks"}
    text = (folder / "README.md").read_text()
    assert [name for name in names - {"README.md"} if f"`{name}" not in text] == []
    pictures, *_ = assigned(SECRET, 1)
    labels, form = (pd.read_csv(folder / f"{name}.csv") for name in ("labels", "form"))
    assert list(labels) == ["file", pictures.get_world().target, *pictures.suspects]
    assert list(form["suspect"]) == list(pictures.suspects)
    assert form[["low", "high", "probability"]].isna().all(axis=None)
    prices = pd.read_csv(folder / "prices.csv").set_index("measure")["forward passes a picture"]
    assert prices["Worst-group accuracy"] == 1
    assert prices["RMA of the cue, Grad-CAM"] == 3


def test_pictures_and_maps_are_those_of_the_world(quick, tmp_path):
    (folder,) = seal(SECRET, teams=1, out=tmp_path)
    samples = assigned(SECRET, 1)[0].with_masks()
    for place, name in enumerate(pd.read_csv(folder / "labels.csv")["file"]):
        np.testing.assert_array_equal(np.asarray(Image.open(folder / "pictures" / name)), samples.images[place])
        regions = np.asarray(Image.open(folder / "masks" / name))
        for number, mask in enumerate(samples.masks.values(), start=1):
            np.testing.assert_array_equal(regions == number, mask[place])
    assert f"1 {next(iter(samples.masks))}, 2 " in (folder / "README.md").read_text()


def test_the_code_of_the_readme_opens_a_model(quick, tmp_path, monkeypatch):
    (folder,) = seal(SECRET, teams=1, out=tmp_path)
    code = (folder / "README.md").read_text().split("```python\n")[1].split("```")[0]
    monkeypatch.chdir(folder)
    names = {}
    exec(code, names)
    assert names["probability"].shape == (12,)
    state = safetensors.torch.load_file(folder / capstone.WEIGHTS[0])
    network = models.build(capstone.TRAINING.architecture, capstone.TRAINING.outputs)
    network.load_state_dict(state)
    no, yes = np.exp(training.predict(network, names["pictures"][:1])[0])
    assert names["probability"][0] == pytest.approx(yes / (no + yes))


def test_nothing_in_a_folder_says_what_the_secret_has_chosen(quick, tmp_path):
    for team, folder in enumerate(seal(SECRET, teams=2, out=tmp_path), start=1):
        sealed = assigned(SECRET, team)
        numbers = {value for data in sealed for value in (data.seed, data.strength) if value}
        wanted = {repr(value).encode() for value in numbers} | {f"{value:.3f}".encode() for value in numbers}
        wanted |= {struct.pack(kind, value) for value in numbers for kind in ("<d", ">d")}
        wanted |= {struct.pack(kind, data.seed) for data in sealed for kind in ("<q", ">q")}
        # columns of the table, but for a target's name and English words
        words = {data.world.encode() for data in sealed} | {b"strength", SECRET.encode(), b"tied", b"planted"}
        found = files(folder)
        for name, content in found.items():
            assert [secret for secret in wanted if secret in content] == [], name
            if not name.endswith((".png", ".safetensors")):
                assert [word for word in words if word in content.lower()] == [], name
        assert all(kinds(found[name]) == {b"IHDR", b"IDAT", b"IEND"} for name in found if name.endswith(".png"))
        for name in capstone.WEIGHTS:
            length = struct.unpack("<Q", found[name][:8])[0]
            header = json.loads(found[name][8 : 8 + length])
            assert set(header) == set(models.build("small", 2).state_dict())  # neither metadata nor an objective's own


def kinds(png):
    """The kinds of chunks of a PNG file."""
    place, names = 8, set()
    while place < len(png):
        names.add(png[place + 4 : place + 8])
        place += 12 + struct.unpack(">I", png[place : place + 4])[0]
    return names


def test_the_same_secret_gives_the_same_folder_and_another_one_another(quick, tmp_path):
    first, second, other = (
        files(seal(secret, teams=1, out=tmp_path / name)[0])
        for name, secret in (("first", SECRET), ("second", SECRET), ("other", SECRET + "."))
    )
    assert first == second
    assert first["labels.csv"] != other["labels.csv"]


def test_folders_that_are_there_stay_and_only_what_is_missing_is_trained(quick, tmp_path):
    first = seal(SECRET, teams=2, out=tmp_path)
    (first[0] / "a note.txt").touch()
    quick.clear()
    assert seal(SECRET, teams=3, out=tmp_path)[:2] == first
    assert (first[0] / "a note.txt").exists()
    assert quick == [data.recipe for data in assigned(SECRET, 3)[1:]]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["team-01", "team-02", "team-03"]


def test_a_model_that_several_teams_get_is_trained_once(quick, tmp_path):
    seal(SECRET, teams=6, out=tmp_path)
    assert len(quick) == len(set(quick)) == 6 + 2 * len({assigned(SECRET, team)[0].world for team in range(1, 7)})
    assert len(quick) < 3 * 6


def test_a_killed_sealing_leaves_no_half_of_a_folder(quick, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(safetensors.torch, "save_file", full)
    with pytest.raises(BiaslibError, match="the disk is full"):
        seal(SECRET, teams=1, out=tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("secret", "teams", "sentence"),
    [("  ", 1, "The secret is empty"), (SECRET, 0, "teams must be a whole number in"), (SECRET, 100, "teams must be")],
)
def test_what_cannot_be_sealed_is_one_sentence_and_exit_code_2(monkeypatch, capsys, tmp_path, secret, teams, sentence):
    arguments = ("--secret", secret, "--teams", str(teams), "--out", str(tmp_path / "out"))
    assert call(monkeypatch, "capstone", "seal", *arguments) == 2
    told = capsys.readouterr().err
    assert told.startswith("biaslib: ")
    assert sentence in told
    assert told.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_folders_of_another_secret_are_refused(quick, monkeypatch, capsys, tmp_path):
    before = files(seal(SECRET, teams=1, out=tmp_path)[0])
    assert call(monkeypatch, "capstone", "seal", "--secret", "another", "--teams", "2", "--out", str(tmp_path)) == 2
    assert "team-01 was sealed with another secret or by another version" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["team-01"]
    assert files(tmp_path / "team-01") == before


def test_the_command_seals_and_names_the_folders(quick, monkeypatch, capsys, tmp_path):
    assert call(monkeypatch, "capstone", "seal", "--secret", SECRET, "--teams", "2", "--out", str(tmp_path)) == 0
    assert capsys.readouterr().out.splitlines() == [str(tmp_path / f"team-0{team}") for team in (1, 2)]


def test_help_is_there_without_loading_torch():
    code = "import sys\nfrom biaslib.cli import main\ntry: main()\nfinally: print(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code, "capstone", "--help"], capture_output=True, text=True)
    assert "seal" in done.stdout
    assert "score" in done.stdout
    assert {"torch", "pandas", "numpy"}.isdisjoint(done.stderr.split())
