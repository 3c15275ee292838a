"""The benchmark of mitigation methods, on models trained for one epoch on few small pictures."""

import numpy as np
import pandas as pd
import pytest

from biaslib.chapters import mitigation
from biaslib.chapters.mitigation import METHODS, RULES, Setting
from biaslib.chapters.scene_models import SceneSetup, outcomes
from biaslib.metrics import bias_amplification
from biaslib.statistics import sign_flip
from biaslib.store import parallel
from tests.conftest import one_worker

TINY = {
    "images": 240,
    "validation_images": 120,
    "test_images": 160,
    "size": 32,
    "epochs": 1,
    "eps": 0.1,
    "strength": 0.3,
}
KINDS = ("undirected", "attribute_to_group")
GAINS = ((4, 3.0), (1, 1.0), (2, 2.0))  # of a seed


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BIASLIB_STORE", str(tmp_path_factory.mktemp("store")))
        patch.setattr(parallel, "workers", one_worker)
        original = SceneSetup(**TINY)
        settings = [Setting(method=method, original=original, draws=1) for method in METHODS | RULES]
        table = mitigation.measured(settings)
        decided = {setting.method: mitigation._decisions(setting) for setting in settings}
        yield original, table, decided, outcomes([original])[0]


def values(table, method, kind, reference="own"):
    rows = table[(table.method == method) & (table.kind == kind) & (table.reference == reference)]
    return rows.set_index("measure")["value"]


@pytest.mark.slow
def test_what_is_told_or_borrowed_is_no_measurement(found):
    _, table, decided, original = found
    told = values(table, "DomInd", "attribute_to_group")
    assert (told == 0).all()
    assert len(told) == len(mitigation._TABLES["measures"]["all"])
    kept = values(table, "Original", "attribute_to_group")
    for method in ("Adversarial", *RULES):
        np.testing.assert_array_equal(decided[method].predicted.groups, original.group_scores().argmax(axis=1))
        borrowed = values(table, method, "attribute_to_group")
        assert borrowed.equals(kept[borrowed.index])


def test_the_numbers_are_those_of_the_metric_on_what_was_said(found):
    _, table, decided, original = found
    for method in METHODS:
        one = decided[method]
        np.testing.assert_array_equal(one.outcome.test.groups, original.test.groups)
        for reference, train in (("own", one.outcome.train), ("original", original.original)):
            again = 100 * bias_amplification(train, original.test, one.predicted).mean
            assert values(table, method, "undirected", reference)["all sets, sizes"] == pytest.approx(again)


def test_methods_are_compared_with_original_in_pairs_of_a_seed():
    columns = ["method", "kind", "measure", "seed", "value", "unrelated", "no_errors", "never"]
    rows = [
        *(
            ("Original", kind, "singles, signed", seed, float(seed), 0.5, 0.0, 2)
            for kind in KINDS
            for seed in (1, 2, 4)
        ),
        *(
            ("DomInd", kind, "singles, signed", seed, seed + gain, 0.5, 0.0, 3)
            for kind in KINDS
            for seed, gain in GAINS
        ),
    ]
    results = pd.DataFrame(rows, columns=columns).assign(makers=2, balanced=False, reference="own")
    table = mitigation.over_models(results, seed=0).set_index(["method", "kind"])
    row = table.loc[("DomInd", "undirected")]
    test = sign_flip([1.0, 2.0, 3.0])
    assert (row["change"].estimate, row["change"].low, row["change"].high) == (2.0, test.low, test.high)
    assert (row["p"], row["n"], row["never"], row["fixed"]) == (test.p, 3, 3, False)
    assert row["beyond"].estimate == pytest.approx(row["value"].estimate - 0.5)
    told = table.loc[("DomInd", "attribute_to_group")]
    assert told["fixed"]
    assert np.isnan(told["change"].estimate)
    assert table.loc["Original", "p"].isna().all()


def test_only_resampling_has_two_references(found):
    _, table, _, _ = found
    for method in METHODS:
        own, original = (values(table, method, "undirected", reference) for reference in ("own", "original"))
        assert own.equals(original) == (method not in ("Oversampling", "Data repair"))


def test_no_errors_cost_nothing_in_a_direction(found):
    _, table, _, _ = found
    compared = table[(table.kind != "quality") & (table.reference == "own") & table.method.isin(list(METHODS))]
    assert (compared[compared.kind != "undirected"].no_errors == 0).all()
    assert (compared[compared.kind == "undirected"].no_errors != 0).all()
    assert compared.unrelated.notna().all()


def test_quality_says_which_numbers_there_are(found):
    _, table, decided, _ = found
    quality = table[table.kind == "quality"].pivot_table("value", "method", "measure", dropna=False)
    assert np.isnan(quality.loc["RBA", "map"])
    assert quality["map"].drop("RBA").between(0, 1).all()
    assert quality["adversary"].notna().tolist() == [method == "Adversarial" for method in quality.index]
    assert 0 < quality.loc["Adversarial", "adversary"] < 1
    assert quality.loc["Data repair", "images"] == TINY["images"] / 2
    # the conditional rule reads another block where the maker is predicted wrongly
    told, guessed = decided["DomInd"].scores, decided["conditional, maker predicted"].scores
    wrong = decided["conditional, maker predicted"].predicted.groups != decided["DomInd"].predicted.groups
    np.testing.assert_array_equal(told[~wrong], guessed[~wrong])
    assert wrong.any()
    assert (told[wrong] != guessed[wrong]).any(axis=1).all()
