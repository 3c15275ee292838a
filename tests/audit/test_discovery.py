"""Slices: a planted one is found and named, errors by chance are not, and what cannot be told is said."""

import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from biaslib import audit, cli
from biaslib.audit import discovery
from biaslib.audit.inputs import Binary, LabelledImages
from biaslib.errors import BiaslibError
from tests.audit.subjects import PLAIN, Spots, draw, honest, under_audit

pytestmark = pytest.mark.usefixtures("store_of_the_module")

QUICK = {"permutations": 19}


def images(wrong, said=None, scores=None, clusters=None):
    """Images of whose answers these are wrong; all of them are called cat where nothing else is said."""
    n = len(wrong)
    said = np.ones(n, bool) if said is None else said
    labels = pd.DataFrame({"cat": said ^ wrong, "old": np.arange(n) % 2 == 0})
    binary = [Binary(name, ("0", "1"), (f"not {name}", name)) for name in labels]
    files = tuple(f"{row}.png" for row in range(n))
    scores = np.linspace(1, 2, n)[np.random.default_rng(9).permutation(n)] if scores is None else scores
    predicted = pd.DataFrame({"cat": said})
    return LabelledImages(files, labels, predicted, None, binary[0], (binary[1],), scores=scores, clusters=clusters)


def planted(n=800, *, seed=0, inside=0.6, outside=0.05):
    """A quarter of the images lies apart in the first two features, and more of its answers are wrong."""
    rng = np.random.default_rng(seed)
    member = rng.random(n) < 0.25
    features = rng.normal(size=(n, 12))
    features[member, :2] += 6
    return member, features, rng.random(n) < np.where(member, inside, outside)


def test_a_planted_slice_is_found_on_one_half_and_counted_on_the_other():
    member, features, wrong = planted()
    columns = pd.DataFrame({"fog": member, "noise": np.arange(800) % 3 == 0})
    found = discovery.discover(images(wrong), {"features": features}, columns, 0)
    row = found.tables["slices"].iloc[0]
    (inside,) = [of for (name, _), of in found.slices.items() if name == "slice 1"]
    testing = ~discovery.first_half(images(wrong), 0)
    assert not (inside & ~testing).any()
    assert (inside & member).sum() > 0.8 * (member & testing).sum()
    assert (inside & member).sum() > 0.95 * inside.sum()
    assert row["wrong_in"].estimate == wrong[inside].mean()
    assert row["wrong_out"].estimate == wrong[testing & ~inside].mean()
    assert (row["wrong_in"].n, row["wrong_out"].n) == (inside.sum(), (testing & ~inside).sum())
    assert row["apart"].low > 0.3
    assert row["hint"].startswith("fog: ")
    assert "noise" not in row["hint"]
    assert "called cat" in found.sentences[0]
    assert found.unmeasured == ["Slices of images that the model calls not cat: a half has fewer than 10 mistakes."]


def test_a_slice_that_only_the_maps_show_is_found_in_them():
    member, features, wrong = planted(400)
    features[member, :2] -= 6
    maps = np.random.default_rng(1).random((400, 4, 4)) + 0.2
    maps[member, 0, 0] += 8
    found = discovery.discover(images(wrong), {"features": features, "maps": maps}, pd.DataFrame({"fog": member}), 0)
    table = found.tables["slices"]
    assert set(table.loc[table["p corrected"] <= 0.05, "found by"]) == {"maps"}
    first = table.loc[table["p corrected"] <= 0.05].iloc[0]
    assert first["hint"].startswith("fog: 100% (others ")
    assert first["wrong_in"].estimate > 0.4


def test_errors_that_have_nothing_to_do_with_the_images_are_in_no_slice():
    found = 0
    for seed in range(12):
        _, features, wrong = planted(300, seed=seed, inside=0.2, outside=0.2)
        looked = discovery.discover(images(wrong), {"features": features}, pd.DataFrame({"a": wrong}), seed)
        found += len(looked.slices)
        assert looked.slices or looked.sentences[0].startswith("No slice stands out: in none of the ")
    # one-sided, at most 2.5 % each
    assert found <= 1


@pytest.mark.parametrize("way", ["features", "maps"])
def test_to_which_slice_an_image_of_the_second_half_belongs_does_not_depend_on_its_label(way):
    _, features, wrong = planted(300)
    space = features if way == "features" else np.abs(features[:, :9]).reshape(-1, 3, 3)
    finding = discovery.first_half(images(wrong), 0)
    other = np.where(finding, wrong, ~wrong)
    members = [discovery._WAYS[way](space, images(of), finding, 0) for of in (wrong, other)]
    np.testing.assert_array_equal(*members)


def test_that_a_model_errs_where_it_is_unsure_is_no_slice():
    rng = np.random.default_rng(0)
    score = rng.gamma(1.0, size=1000) + 0.01
    # all twelve features are the score, and noise that has nothing to do with it
    features = score[:, None] + 0.5 * rng.normal(size=(1000, 12))
    wrong = rng.random(1000) < 0.5 * np.exp(-2 * score)
    found = discovery.discover(images(wrong, scores=score), {"features": features}, pd.DataFrame({"a": wrong}), 0)
    assert len(found.tables["slices"])
    assert found.slices == {}


def test_answers_have_slices_of_their_own():
    member, features, wrong = planted(1200)
    said = np.arange(1200) % 2 == 0
    found = discovery.discover(images(wrong, said), {"features": features}, pd.DataFrame({"fog": member}), 0)
    assert set(found.tables["slices"]["answer"]) == {"cat", "not cat"}
    for (_, called), inside in found.slices.items():
        assert set(said[inside]) == {not called.endswith("not cat")}
    raw, corrected = found.tables["slices"]["p"], found.tables["slices"]["p corrected"]
    assert (corrected >= raw).all()
    assert corrected.min() == pytest.approx(raw.min() * len(raw))


def test_two_slices_are_not_the_same_images():
    member, _, wrong = planted()
    found = {"features": np.column_stack([member, member, ~member]), "maps": member[:, None]}
    finding = np.arange(800) < 400
    (way, inside), *others = discovery._promising(found, wrong, finding)
    assert others == []
    assert way == "features"
    np.testing.assert_array_equal(inside, member)


def test_images_of_one_patient_are_on_one_side():
    patient = np.repeat(np.arange(50), 4)
    first = discovery.first_half(images(np.zeros(200, bool), clusters=patient), 0)
    assert set(first.reshape(50, 4).sum(axis=1)) == {0, 4}
    assert first.sum() == 100
    again, other = (discovery.first_half(images(np.zeros(201, bool)), seed) for seed in (0, 1))
    assert again.sum() == other.sum() == 101
    assert (again != other).any()


def test_a_slice_of_one_patient_stands_for_one():
    """Wrong answers of a few patients who look alike are far less than as many images."""
    member, features, wrong = planted(400, outside=0.1)
    patient = np.where(member, np.random.default_rng(0).integers(0, 6, 400), np.arange(400) + 6)
    wrong = np.where(member, patient % 2 == 0, wrong)
    patient = pd.factorize(patient)[0]
    alone, clustered = (
        discovery.discover(images(wrong, clusters=of), {"features": features}, pd.DataFrame({"fog": member}), 0)
        for of in (None, patient)
    )
    assert alone.tables["slices"]["p"].min() < 1e-4
    assert not (clustered.tables["slices"]["p corrected"] < 0.01).any()


def test_every_column_of_the_table_but_the_target_may_be_a_hint():
    answered = images(np.zeros(30, bool))
    rows = np.arange(30)
    table = pd.DataFrame(
        {
            "where": [f"house {row}" for row in rows],
            "file": answered.files,
            "cat": 1,
            "old": rows % 2,
            "kind": np.array(["a", "b", "c"])[rows % 3],
            "age": rows + 0.5,
            "same": "x",
        }
    )
    table.insert(0, "pair", answered.files[::-1])  # the same names, for other images
    columns = discovery.columns_of(table.sample(frac=1, random_state=0), answered, None)
    assert list(columns) == ["old 1", "kind a", "kind b", "kind c", "age above 15"]
    np.testing.assert_array_equal(columns["kind b"], rows % 3 == 1)
    np.testing.assert_array_equal(columns["age above 15"], rows >= 15)
    again = discovery.columns_of(table.rename(columns={"file": "photo"}), answered, "photo")
    pd.testing.assert_frame_equal(again, columns)
    assert len(discovery.columns_of(table[["file", "cat"]], answered, None).columns) == 0
    nothing = discovery._hint(pd.DataFrame(index=rows), [rows < 5, rows >= 5])
    assert nothing == "no column by 10 points"


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    folder = tmp_path_factory.mktemp("many")
    draw(folder, n=400)
    return folder


def audited(folder, model, **given):
    asked = {"data": folder / "images", "labels": folder / "labels.csv", "target": "green", "groups": "random"}
    return audit.run(model=model, **(asked | PLAIN | QUICK | given))


def test_the_report_shows_where_a_model_errs_that_follows_a_cue_that_nobody_named(many):
    found = audited(many, Spots(600.0, 400.0), discover=True)
    assert [finding for finding in found.findings if finding.kind == "gap"] == []
    (first, *_) = found.slices
    assert first.group == "slice 1"
    assert 1 < len(first.files) <= 8
    labels = pd.read_csv(many / "labels.csv").set_index("file").loc[[*first.files]]
    assert (labels["green"] == 0).all()
    page = audit.page(found)
    for words in (
        "Where else it errs",
        "A slice is a place to look, not a cause",
        'id="slice-1"',
        found.discovered[0][:40],
    ):
        assert words in page
    assert found.conclusions()[-1] == found.discovered[-1]
    assert found.numbers["tests"] == audited(many, Spots(600.0, 400.0)).numbers["tests"]


def test_without_pictures_the_files_of_a_slice_are_named(many):
    found = audited(many, Spots(600.0, 400.0), discover=True, images=False, attribution="none")
    assert found.slices[0].images is None
    page = audit.page(found)
    assert found.slices[0].files[0] in page
    assert "data:image" not in page


def test_a_model_that_errs_seldom_has_no_slice_and_the_page_says_so(many):
    found = audited(many, honest(), discover=True)
    assert (found.slices, found.discovered) == ((), ())
    assert sum("a half has fewer than 10 mistakes" in line for line in found.unmeasured) == 2
    assert "No slice could be tested" in audit.page(found)


def test_an_audit_that_is_not_asked_to_look_further_has_neither_its_words_nor_another_key(many):
    plain = audited(many, honest())
    assert (plain.discovered, plain.slices, plain.repairs) == ((), (), ())
    assert not {"slices", "repair", "repair_costs"} & set(plain.tables)
    assert not {"discovery", "repairs"} & set(plain.settings)
    assert "Where else it errs" not in audit.page(plain)
    assert audited(many, honest(), discover=True).key != plain.key


def test_a_model_without_a_layer_to_read_is_looked_at_by_its_maps_alone(many):
    class Bare(Spots):
        def forward_head(self, features):
            return super().forward_head(features)

    bare = Bare(600.0, 400.0)
    bare.head = torch.nn.Conv2d(2, 1, 1)
    bare.head.weight.data[:] = torch.tensor([600.0, 400.0]).reshape(1, 2, 1, 1)
    bare.head.bias.data.fill_(-8.0)
    bare.forward_head = lambda features: bare.head(features.mean((2, 3), keepdim=True)).flatten(1)
    found = audited(many, bare, discover=True, repair=True)
    assert set(found.tables["slices"]["found by"]) <= {"maps"}
    assert any(reason.startswith("A last layer trained anew") for reason in found.unmeasured)


def test_what_the_last_layer_reads_is_timms_features_before_the_logits():
    import timm

    torch.manual_seed(0)
    model = timm.create_model("mobilenetv3_small_050", num_classes=2).eval()
    asked = under_audit(model, preprocessing={"size": 64})
    pixels = torch.rand(3, 3, 64, 64)
    with torch.inference_mode():
        expected = model.forward_head(model.forward_features(pixels), pre_logits=True)
    torch.testing.assert_close(asked.outputs.last_features(pixels), expected)
    assert not model.classifier._forward_pre_hooks


def test_a_named_layer_goes_with_a_search_and_a_layer_that_never_runs_is_not_read(many):
    torch.manual_seed(0)
    shape = [torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(4, 1)]
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3, stride=4), *shape).eval()
    model[-1].unused = torch.nn.Linear(7, 3)  # as a head of an earlier task
    found = audited(many, model, discover=True, layer="0")
    assert "slices" in found.tables
    assert not any("neither the model's last features" in line for line in found.unmeasured)


def test_the_command_says_what_was_found(many, tmp_path, monkeypatch, capsys):
    batch = torch.export.Dim("batch", min=2, max=512)
    program = torch.export.export(honest().eval(), (torch.zeros(2, 3, 32, 32),), dynamic_shapes=({0: batch},))
    torch.export.save(program, tmp_path / "model.pt2")
    words = ["--model", tmp_path / "model.pt2", "--data", many / "images", "--labels", many / "labels.csv"]
    words += ["--target", "green", "--group", "random", "--size", 32, "--mean", 0, 0, 0, "--std", 1, 1, 1]
    words += ["--permutations", 19, "--discover", "--repair", "--out", tmp_path / "out"]
    monkeypatch.setattr(sys, "argv", ["biaslib", "audit", *map(str, words)])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    assert stopped.value.code == 0
    told, remarks = capsys.readouterr()
    assert "No slice stands out" not in told
    assert "Slices: neither the model's last features nor its maps can be read." in remarks
    assert "Thresholds for random: the largest gap goes from" in told
    assert "none whose last linear layer can be read" in remarks


def test_predictions_have_no_slices(spots):
    labels = pd.read_csv(spots / "labels.csv")
    with pytest.raises(BiaslibError, match="there are only predictions: give the model"):
        audit.run(labels=labels, target="green", groups="red", predictions="random", discover=True)


@pytest.mark.slow
def test_false_discoveries_in_a_generated_world_are_as_rare_as_they_are_meant_to_be():
    """Models of drawn birds: with shuffled errors no slice, with a strong background slices that name it."""
    from biaslib import attribution, models, recipes, worlds
    from biaslib.training import TrainingConfig, predict

    world = worlds.get("birds")
    audited_images = world.render(world.factors(1000, strength=0.0, seed=777))
    table = (
        audited_images.labels.astype(int)
        .rename(columns={world.target: "cat"})
        .assign(file=[f"{row}.png" for row in range(1000)])
    )
    truth = audited_images.labels[world.target].to_numpy(bool)
    answers = []
    for strength in (0.0, 0.0, 0.8):
        data = recipes.Drawn(world="birds", images=2000, strength=strength, seed=len(answers))
        model = recipes.load(recipes.target_of_world(data, TrainingConfig(architecture="small", outputs=2, epochs=6)))
        pixels = models.to_tensor(audited_images.images)
        logits = predict(model, pixels)
        inputs = []
        with model.fc.register_forward_pre_hook(lambda _, given, inputs=inputs: inputs.append(given[0].cpu())):
            predict(model, pixels)
        maps = attribution.grad_cam(model, pixels, [1], absolute=True)[:, 0].numpy()
        answers.append((logits[:, 1] - logits[:, 0], {"features": torch.cat(inputs).numpy(), "maps": maps}))

    def looked(score, spaces, wrong):
        answered = replace(images(wrong, score > 0, score), target=Binary("cat", ("0", "1"), ("land", "water")))
        return discovery.discover(answered, spaces, discovery.columns_of(table, answered, None), 0)

    shuffled = 0
    for number, (score, spaces) in enumerate(answers):
        for seed in range(40):
            rng, wrong = np.random.default_rng([number, seed]), (score > 0) != truth
            for answer in (True, False):
                wrong[(score > 0) == answer] = rng.permutation(wrong[(score > 0) == answer])
            shuffled += bool(looked(score, spaces, wrong).slices)
    score, spaces = answers[-1]
    biased = looked(score, spaces, (score > 0) != truth)
    print(f"slices of shuffled errors in {shuffled} of {40 * len(answers)}; of a biased model: {biased.sentences}")
    # 2.5 % of 120 are 3, and 8 is three standard errors more
    assert shuffled <= 8
    assert any("background" in sentence for sentence in biased.sentences)
