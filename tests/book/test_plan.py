"""What a run would do is said before it starts, of every page at every scale, and it is what a run then does."""

import functools
import math

import pytest

from biaslib import recipes
from biaslib.book import Project, execution, parameters, plan
from biaslib.chapters import bird_models, face_generators
from biaslib.errors import BiaslibError
from biaslib.store import fingerprint, parallel
from biaslib.training import TrainingConfig
from tests.book.conftest import NOTEBOOKS, OF_THE_BOOK, ROOT, write_notebook

CHECKOUT = Project(ROOT)
READ_ONCE = functools.cache(parameters.from_preset)
PRESETS = sorted(file.stem for file in CHECKOUT.presets.glob("*.yml"))
ENTRIES = [(preset, name) for preset in PRESETS for name in parameters.from_preset(CHECKOUT, preset)]
# rows of many models are chosen, which takes seconds; another entry of the page does the same
LONG = {("paper", "mitigation"), ("standard", "mitigation")}
PLANNED = [
    pytest.param(*entry, id="{1}-{0}".format(*entry), marks=[pytest.mark.slow] * (entry in LONG)) for entry in ENTRIES
]
IMAGES, EPOCHS, TRAINED, ASKED, DRAWN = 64, 3, 8.0, 100.0, 16.0  # images, passes, and images a second
RATES = {"_training": TRAINED, "_asking": ASKED, "_drawing": DRAWN, "_growing": 60.0}
GRID = f"""
from biaslib.chapters import bird_models
grid = [bird_models.recipe(0.8, at, images={IMAGES}, size=32, epochs={EPOCHS}) for at in range(n)]
PLAN = bird_models.planned(grid, test_images=40)
"""
MEASURED = "measured = bird_models.measured(grid, test_images=40)"


def write_planning(project, name, cell, *others):
    """A notebook whose first cell is tagged `plan`."""
    file = write_notebook(project, name, cell, *others)
    untagged = f"```{{code-cell}} ipython3\n{cell}"
    tagged = f"```{{code-cell}} ipython3\n:tags: [plan]\n\n{cell}"
    file.write_text(file.read_text().replace(untagged, tagged))


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
    monkeypatch.setattr(plan, "_everywhere", lambda measure, *_: RATES[measure.__name__])
    monkeypatch.setattr(plan, "_counts_of", lambda *_: (1000, 2000, 8))
    monkeypatch.setattr(parameters, "from_preset", READ_ONCE)
    return store


@functools.cache
def of_the_book(name, preset):
    return plan.of(CHECKOUT, name, preset=preset)


def names_of(models):
    """Where the store has the weights of these recipes and set-ups of generators: kind and key."""
    with fingerprint.once():
        at = [(recipes.train if isinstance(m, recipes.Recipe) else face_generators.train).stored_at(m) for m in models]
    return {(path.parent.name, path.name) for path in at}


def trained_in(store):
    records = [file for kind in ("model", "face-generator") for file in store.glob(f"{kind}/*/record.json")]
    return {(file.parts[-3], file.parts[-2]) for file in records}


@pytest.mark.parametrize(("preset", "name"), PLANNED)
def test_every_entry_of_every_preset_is_valid_and_has_a_plan_that_stores_nothing(fixed, preset, name):
    text = of_the_book(name, preset).text()
    assert text.startswith(f"Plan of {name}, preset {preset}; nothing was run.")
    assert "In all about" in text
    assert not list(fixed.iterdir())


def test_gpu_and_paper_have_an_entry_for_every_page_that_trains(fixed):
    gpu, paper = (set(parameters.from_preset(CHECKOUT, preset)) for preset in ("gpu", "paper"))
    assert gpu == paper
    assert [name for name in NOTEBOOKS if name not in gpu and of_the_book(name, None).models()] == []
    assert [name for name in gpu if not of_the_book(name, "gpu").models()] == []


@OF_THE_BOOK
def test_the_pages_of_the_smoke_book_trained_what_their_plans_name_and_nothing_else(smoke_book, monkeypatch, pages):
    """Of all pages together, which share a store; `test_a_page_trains_what_its_plan_names` has each alone."""
    assert {*pages} <= {*smoke_book.pages}
    store = smoke_book.project.root / "store"
    monkeypatch.delenv("BIASLIB_DATA")
    named = {model for name in smoke_book.pages for model in plan.of(smoke_book.project, name, preset="smoke").models()}
    assert names_of(named) == trained_in(store)


@pytest.mark.slow
@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_page_trains_what_its_plan_names(fixed, tmp_path, name):
    named = plan.of(CHECKOUT, name, preset="smoke").models()
    execution.run(CHECKOUT, name, tmp_path / "page.ipynb", preset="smoke")
    assert names_of(named) == trained_in(fixed)
    assert all(plan.of(CHECKOUT, name, preset="smoke").models().values())


def test_a_page_that_trains_more_than_it_plans_is_found(project, fixed, in_this_process):
    more = MEASURED + "\nbird_models.measured([bird_models.recipe(0.5, images=64, size=32, epochs=1)], test_images=40)"
    write_planning(project, "birds", GRID, more)
    named = plan.of(project, "birds", given={"n": 1}).models()
    names = {"n": 1}
    for cell in execution.read(project, "birds").cells:
        if cell.cell_type == "code" and "parameters" not in cell.metadata.get("tags", ()):
            exec(cell.source, names)  # no kernel, whose workers take seconds to start
    assert len(trained_in(fixed) - names_of(named)) == 1
    assert names_of(named) < trained_in(fixed)


def test_the_plan_counts_models_and_measures_and_their_time(project):
    write_planning(project, "birds", GRID, MEASURED, "raise SystemError('a plan does not run this cell')")
    planned = plan.of(project, "birds")
    assert [function.kind for function, _ in planned.here] == ["model"] * 3 + ["bird-measures"] * 3
    assert list(planned.models().values()) == [False] * 3
    each = IMAGES * EPOCHS / TRAINED + IMAGES / DRAWN + plan._EACH_MODEL
    measure = 100 / DRAWN + 100 * 2.3 / ASKED
    # two processes take two and one of three
    assert planned.seconds() == pytest.approx({"model": 2 * each, "bird-measures": 2 * measure})
    text = planned.text()
    assert f"3 x small, 32 px, {IMAGES} generated birds x {EPOCHS} epochs; 0 in the store" in text
    assert "3 x bird-measures; 0 in the store" in text
    assert "none but what is generated" in text


def test_what_is_in_the_store_is_not_planned_again(project):
    write_planning(project, "birds", GRID, MEASURED)
    recipes.train(bird_models.recipe(0.8, 0, images=IMAGES, size=32, epochs=EPOCHS))
    planned = plan.of(project, "birds", given={"n": 2})
    assert list(planned.models().values()) == [True, False]
    assert "Trained: 1 models, 1 are in the store." in planned.text()
    each = IMAGES * EPOCHS / TRAINED + IMAGES / DRAWN + plan._EACH_MODEL
    assert planned.seconds()["model"] == pytest.approx(each)


def test_missing_data_are_named_with_how_to_get_them(project):
    cell = """
from biaslib.chapters.attribute_models import EvaluationFaces, Experiment, planned
faces = [Experiment(source="celeba", images=500, architecture="resnet50", size=224, epochs=2)]
PLAN = [*planned(faces, EvaluationFaces(source="celeba", images=40)), "celebamask-hq"]
"""
    write_planning(project, "faces", cell)
    text = plan.of(project, "faces", given={"n": 1}).text()
    assert "1 x resnet50, 224 px, 500 images of celeba x 2 epochs" in text
    assert "1 x attribute-maps; 0 in the store" in text
    assert "celeba: not here; " in text
    assert "mmlab.ie.cuhk.edu.hk" in text
    assert "celebamask-hq: not here; " in text
    assert "Disk: about 0.1 GB" in text


def test_a_page_without_such_a_cell_trains_nothing(project):
    write_notebook(project, "page", "import math\nraise SystemError('a plan does not run this cell')")
    assert "Trained: nothing." in plan.of(project, "page").text()


def test_what_the_cell_says_of_its_parameters_is_an_error_in_one_sentence(project):
    guard = "from biaslib.errors import BiaslibError\nif n < 2:\n    raise BiaslibError('give n >= 2.')"
    write_planning(project, "birds", guard)
    with pytest.raises(BiaslibError, match=r"^birds: give n >= 2\.$"):
        plan.of(project, "birds", given={"n": 1})


def test_any_other_error_of_the_cell_names_the_page(project):
    write_planning(project, "birds", "1 / (n - 1)")
    with pytest.raises(execution.PageError, match=r"^birds: division by zero"):
        plan.of(project, "birds", given={"n": 1})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "there is no notebook 'nowhere'"),
        (["page", "-p", "m=1"], "has no parameter 'm'"),
        (["page", "--preset", "huge"], "there is no preset 'huge'"),
        (["page", "--record"], "--dry-run makes no page, so there is nothing to record or open"),
    ],
)
def test_names_that_there_are_not_are_one_sentence(project, command, arguments, message):
    write_notebook(project, "page", "n")
    done = command("run", *arguments, "--dry-run")
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_what_a_plan_estimates_by_changes_no_key(tmp_path):
    hashes = []
    for number, options in enumerate(("", ", passes=lambda n: (n, 1)", ", code=()")):
        file = tmp_path / f"module_{number}.py"
        file.write_text(f'@stored("kind"{options})\ndef work(n):\n    return n\n')
        hashes.append(fingerprint._read(file)[1])
    assert hashes[0] == hashes[1] != hashes[2]


def test_rates_are_measured_without_a_trace(fixed):
    config = TrainingConfig(architecture="lenet5", loss="binary", balanced=False)
    rates_of_one = plan._asking("lenet5", None, 28), plan._training(config, 28)
    assert all(0 < rate < math.inf for rate in rates_of_one)
    assert not list(fixed.iterdir())
    assert parallel.cores() == 2
