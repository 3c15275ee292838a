"""What a run would do is said before it starts, of every page at every scale, and saying it does nothing."""

import functools
import math

import pytest

from biaslib import recipes
from biaslib.book import ahead, parameters, plan, rates
from biaslib.book.project import Project
from biaslib.chapters import bird_models
from biaslib.errors import BiaslibError
from biaslib.store import fingerprint, parallel
from biaslib.training import TrainingConfig
from tests.book.conftest import NOTEBOOKS, ROOT, cli, write_notebook

CHECKOUT = Project(ROOT)
PRESETS = sorted(file.stem for file in CHECKOUT.presets.glob("*.yml"))
ENTRIES = [(preset, name) for preset in PRESETS for name in parameters.from_preset(CHECKOUT, preset)]
IMAGES, EPOCHS, TRAINED, ASKED, DRAWN = 64, 3, 8.0, 100.0, 16.0  # images, passes, and images a second
BIRDS = f"""
from biaslib.chapters import bird_models
grid = [bird_models.recipe(0.8, at, images={IMAGES}, size=32, epochs={EPOCHS}) for at in range(n)]
measured = bird_models.measured(grid, test_images=40)
shown = measured["maps"].mean() * 2
again = bird_models.measured(grid[:1], test_images=40)
"""


@pytest.fixture(autouse=True)
def fixed(monkeypatch, tmp_path_factory):
    """A machine of two processes and known rates, an empty store and no data."""
    store, data = tmp_path_factory.mktemp("store"), tmp_path_factory.mktemp("data")
    for name, value in {
        "BIASLIB_STORE": store,
        "BIASLIB_DATA": data,
        "BIASLIB_CORES": 2,
        "BIASLIB_DEVICE": "cpu",
    }.items():
        monkeypatch.setenv(name, str(value))
    values = {
        "training": TRAINED,
        "asking": ASKED,
        "drawing": DRAWN,
        "generating": 100.0,
        "growing": 60.0,
        "start": 1.0,
    }
    for name, value in values.items():
        monkeypatch.setattr(rates, f"of_{name}", lambda *_, value=value: value)
    monkeypatch.setattr(rates, "of_network", lambda *_: (1000, 2000, 8))
    return store


@functools.cache
def of_the_book(name, preset):
    return ahead.look_ahead(CHECKOUT, name, preset=preset)


@pytest.mark.parametrize(("preset", "name"), ENTRIES, ids=[f"{name}-{preset}" for preset, name in ENTRIES])
def test_every_entry_of_every_preset_is_valid_and_has_a_plan_that_stores_nothing(fixed, preset, name):
    planned = of_the_book(name, preset)
    text = planned.text()
    assert text.startswith(f"Plan of {name}, preset {preset}; nothing was run.")
    assert "In all about" in text
    assert not list(fixed.iterdir())
    assert not [line for line in planned.passed_over if "NameError" in line or "_TooLong" in line]


def test_gpu_and_paper_have_an_entry_for_every_page_that_trains(fixed):
    gpu, paper = (set(parameters.from_preset(CHECKOUT, preset)) for preset in ("gpu", "paper"))
    assert gpu == paper
    assert [name for name in NOTEBOOKS if name not in gpu and of_the_book(name, None).models()] == []
    assert [name for name in gpu if not of_the_book(name, "gpu").models()] == []


def test_the_plan_counts_models_and_measures_and_their_time(project):
    write_notebook(project, "birds", BIRDS)
    planned = ahead.look_ahead(project, "birds")
    assert {kind for kind, _ in planned.works} == {"model", "bird-measures"}
    assert list(planned.models().values()) == [False] * 3
    each = IMAGES * EPOCHS / TRAINED + IMAGES / DRAWN + plan._EACH_MODEL
    measure = 100 / DRAWN + 100 * 2.3 / ASKED
    # two processes take two and one of three
    assert planned.seconds() == pytest.approx({"model": 2 * each, "bird-measures": 2 * measure})
    text = planned.text()
    assert f"3 x small, 32 px, {IMAGES} generated birds x {EPOCHS} epochs; 0 in the store" in text
    assert "bird-measures: 3, 0 of them in the store" in text
    assert "none but what is generated" in text


def test_what_is_in_the_store_is_not_planned_again(project):
    write_notebook(project, "birds", BIRDS)
    recipes.train(bird_models.recipe(0.8, 0, images=IMAGES, size=32, epochs=EPOCHS))
    planned = ahead.look_ahead(project, "birds", given={"n": 2})
    assert list(planned.models().values()) == [True, False]
    assert "Trained: 1 models, 1 are in the store." in planned.text()
    each = IMAGES * EPOCHS / TRAINED + IMAGES / DRAWN + plan._EACH_MODEL
    assert planned.seconds()["model"] == pytest.approx(each)


def test_blank_pictures_do_not_stay(project):
    write_notebook(project, "birds", "from biaslib.chapters import bird_models\nbird_models.balanced(4, 32, 7)")
    ahead.look_ahead(project, "birds")
    assert bird_models.balanced(4, 32, 7)[1].images.any()


def test_missing_data_are_named_with_how_to_get_them(project):
    cell = """
from biaslib.chapters.attribute_models import EvaluationFaces, Experiment, attention_of
faces = [Experiment(source="celeba", images=500, architecture="resnet50", size=224, epochs=2)]
attention_of(faces, EvaluationFaces(source="celeba", images=40))
"""
    write_notebook(project, "faces", cell)
    text = ahead.look_ahead(project, "faces", given={"n": 1}).text()
    assert "1 x resnet50, 224 px, 500 faces of CelebA x 2 epochs" in text
    assert "attribute-maps: 1, 0 of them" in text
    assert "celeba: not here; " in text
    assert "mmlab.ie.cuhk.edu.hk" in text
    assert "Disk: about 0.1 GB" in text


def test_a_statement_that_cannot_go_on_keeps_nothing_after_it_from_being_seen(project):
    cell = BIRDS.replace("shown =", "raised = {}['nothing']\nshown =")
    inside = "def all_of_it():\n    {}['nothing']\n    return bird_models.recipe(0.5, images=9, epochs=1)\n"
    end = "from biaslib import recipes\nfor _ in range(2):\n    1 / 0\nrecipes.train(all_of_it())"
    write_notebook(project, "birds", cell, inside, end)
    planned = ahead.look_ahead(project, "birds")
    assert len(planned.models()) == 4
    assert [line.partition(": ")[2].partition(":")[0] for line in planned.passed_over].count("ZeroDivisionError") == 2


def test_what_the_page_says_of_its_parameters_is_an_error_in_one_sentence(project):
    guard = "from biaslib.errors import BiaslibError\nif n < 2:\n    raise BiaslibError('give n >= 2.')"
    write_notebook(project, "birds", guard)
    with pytest.raises(BiaslibError, match=r"^birds: give n >= 2\.$"):
        ahead.look_ahead(project, "birds", given={"n": 1})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "there is no notebook 'nowhere'"),
        (["page", "-p", "m=1"], "has no parameter 'm'"),
        (["page", "--preset", "huge"], "there is no preset 'huge'"),
        (["page", "--record"], "--dry-run makes no page, so there is nothing to record"),
    ],
)
def test_names_that_there_are_not_are_one_sentence(project, arguments, message):
    write_notebook(project, "page", "n")
    done = cli(project, "run", *arguments, "--dry-run")
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_work_goes_to_the_first_free_process():
    assert plan._side_by_side([3.0, 1.0, 1.0, 2.0], 2) == 4.0
    assert plan._side_by_side([], 2) == 0.0


def test_what_a_plan_estimates_by_changes_no_key(tmp_path):
    hashes = []
    for number, options in enumerate(("", ", passes=lambda n: (n, 1)", ", code=()")):
        file = tmp_path / f"module_{number}.py"
        file.write_text(f'@stored("kind"{options})\ndef work(n):\n    return n\n')
        hashes.append(fingerprint._read(file)[1])
    assert hashes[0] == hashes[1] != hashes[2]


def test_rates_are_measured_without_a_trace(fixed):
    rates_of_one = rates._asking("lenet5", None, 28), rates._training(TrainingConfig(architecture="lenet5"), 28)
    assert all(0 < rate < math.inf for rate in rates_of_one)
    assert not list(fixed.iterdir())
    assert parallel.cores() == 2
