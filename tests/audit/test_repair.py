"""Repairs: thresholds and a new last layer lower a planted gap on images that did not choose them, and say the cost."""

import itertools

import numpy as np
import pandas as pd
import pytest

from biaslib import audit
from biaslib.audit import discovery
from biaslib.audit.inputs import Binary, LabelledImages
from biaslib.errors import BiaslibError
from tests.audit.subjects import PLAIN, Spots, draw

QUICK = {"permutations": 19}


def answered(truth, member, scores, clusters=None):
    labels = pd.DataFrame({"cat": truth, "old": member})
    binary = [Binary(name, ("0", "1"), (f"not {name}", name)) for name in labels]
    files = tuple(f"{row}.png" for row in range(len(truth)))
    predicted = pd.DataFrame({"cat": scores > 0})
    return LabelledImages(files, labels, predicted, None, binary[0], (binary[1],), scores=scores, clusters=clusters)


def planted(n=2000, *, lean=2.0, seed=0):
    """What is seen of target and group; the model adds the group to the target, and leans on it."""
    rng = np.random.default_rng(seed)
    truth, member = rng.random((2, n)) < 0.5
    features = np.stack([2 * truth - 1 + 0.5 * rng.normal(size=n), 2 * member - 1 + 0.1 * rng.normal(size=n)], axis=1)
    return truth, member, features, features @ [1.0, lean]


def repaired(truth, member, features, scores, **given):
    return discovery.repairs(
        answered(truth, member, scores), features, **({"now": 0.0, "margin": 0.05, "seed": 0} | given)
    )


def test_thresholds_by_hand():
    """Scores of the group are 2 higher, whatever is true: 3 and 1 are its middle and that of the others."""
    scores = np.array([1.0, 2.0, 4.0, 5.0, -1.0, 0.0, 2.0, 3.0])
    truth, member = np.tile([False, False, True, True], 2), np.repeat([True, False], 4)
    inside, outside = discovery._thresholds(truth, member, scores, now=0.5, margin=0.05)
    assert 2 <= inside < 4
    assert 0 <= outside < 2
    np.testing.assert_array_equal(scores > np.where(member, inside, outside), truth)


def test_thresholds_are_the_best_of_all_pairs_that_are_tried():
    rng = np.random.default_rng(3)
    truth, member = rng.random((2, 120)) < 0.5
    scores = truth + member * rng.normal(0.5, 0.5, 120) + rng.normal(size=120)
    chosen = discovery._thresholds(truth, member, scores, now=0.5, margin=0.1)
    tried = [np.unique([*np.quantile(scores[side], np.linspace(0, 1, 51)), 0.5]) for side in (member, ~member)]
    outcomes = {}
    for pair in itertools.product(*tried):
        says = scores > np.where(member, *pair)
        rates = [[says[side & (truth == yes)].mean() for yes in (True, False)] for side in (member, ~member)]
        outcomes[pair] = np.max(np.abs(np.subtract(*rates))), (says == truth).mean()
    apart, right = outcomes[chosen]
    assert apart <= 0.1
    assert right == max(of for apart, of in outcomes.values() if apart <= 0.1)


def test_both_repairs_lower_a_planted_gap_on_images_that_did_not_choose_them():
    truth, member, features, scores = planted()
    found = repaired(truth, member, features, scores)
    assert found.unmeasured == []
    assert set(found.tables["repair"]["repair"]) == {"thresholds", "last layer"}
    measured = ~discovery.first_half(answered(truth, member, scores), 0)
    before = (scores > 0) == truth
    for row in found.tables["repair"].to_dict("records"):
        of = measured & (truth == (row["among"] == "cat"))
        assert row["gap_before"].estimate == pytest.approx(before[of & member].mean() - before[of & ~member].mean())
        assert abs(row["gap_before"].estimate) > 0.9
        assert abs(row["gap_after"].estimate) < 0.1
        assert row["change"].estimate == pytest.approx(row["gap_after"].estimate - row["gap_before"].estimate)
        assert row["change"].low <= row["change"].estimate <= row["change"].high
        assert row["n_in"] + row["n_out"] == of.sum()


def test_who_pays_is_counted():
    truth, member, features, scores = planted()
    found = repaired(truth, member, features, scores)
    table = found.tables["repair_costs"]
    assert table["cell"].tolist() == 2 * ["all images", "cat, not old", "cat, old", "not cat, not old", "not cat, old"]
    for _, part in table.groupby("repair"):
        whole, cells = part.iloc[0], part.iloc[1:]
        for name in ("n", "newly_wrong", "newly_right"):
            assert whole[name] == cells[name].sum()
        for row in part.to_dict("records"):
            gained = (row["newly_right"] - row["newly_wrong"]) / row["n"]
            assert row["right_after"].estimate - row["right_before"] == pytest.approx(gained)
            assert row["right_after"].n == row["n"]
    # those who were right because they are as the model assumes
    paying = table[table["newly_wrong"] > table["newly_right"]]["cell"]
    assert set(paying) <= {"cat, old", "not cat, not old"}
    assert len(paying)
    for sentence, (_, part) in zip(found.sentences, table.groupby("repair", sort=False), strict=True):
        cells = part.iloc[1:].to_dict("records")
        worst = max(cells, key=lambda row: row["newly_wrong"] / row["n"])
        counted = f"{worst['newly_wrong']} of {worst['n']} images are newly wrong."
        assert sentence.endswith(f"It costs most in the cell {worst['cell']}: {counted}")


def test_what_is_measured_chooses_nothing():
    truth, member, features, scores = planted(400)
    chosen = discovery.first_half(answered(truth, member, scores), 0)
    other = np.where(chosen, truth, ~truth)
    layers = [discovery._last_layer(features, of, member, chosen, seed=0) for of in (truth, other)]
    np.testing.assert_array_equal(*layers)


def test_a_last_layer_of_balanced_cells_does_not_learn_that_target_and_group_go_together():
    rng = np.random.default_rng(1)
    truth, member, features, _ = planted(4000)
    kept = rng.random(4000) < np.where(truth == member, 1.0, 0.1)
    truth, member, features, chosen = truth[kept], member[kept], features[kept], rng.random(kept.sum()) < 0.5
    right = discovery._last_layer(features, truth, member, chosen, seed=0) == truth
    conflicting = ~chosen & (truth != member)
    assert right[conflicting].mean() > 0.9
    assert abs(right[conflicting].mean() - right[~chosen & (truth == member)].mean()) < 0.05


def test_where_there_is_no_gap_nothing_much_changes():
    truth, member, features, scores = planted(lean=0.0)
    table = repaired(truth, member, features, scores).tables["repair_costs"]
    whole = table[table["cell"] == "all images"]
    assert (whole["newly_wrong"] < 0.03 * whole["n"]).all()
    again = repaired(truth, member, features, scores).tables["repair_costs"]
    pd.testing.assert_frame_equal(table, again)


def test_a_cell_of_few_images_and_a_model_that_cannot_be_read_are_said():
    truth, member, _, scores = planted(200)
    member &= ~truth | (np.arange(200) < 8)
    found = repaired(truth, member, np.empty((0, 0)), scores)
    assert (found.tables, found.sentences) == ({}, [])
    layer, few = found.unmeasured
    assert layer.startswith("A last layer trained anew: there is no model")
    assert few.startswith("Repairs for old: a cell has ")
    assert few.endswith(" images in one half, not 10.")


def test_images_of_one_patient_count_as_far_as_they_differ():
    truth, member, features, scores = planted(400)
    patient = np.arange(400) // 8
    given = {"now": 0.0, "margin": 0.05, "seed": 0}
    found = discovery.repairs(answered(truth, member, scores, patient), features, **given)
    rows = found.tables["repair"].to_dict("records")
    assert all(np.isfinite([row["gap_after"].estimate, row["gap_before"].estimate]).all() for row in rows)
    assert all(np.isnan(row["change"].low) for row in rows)


def test_scores_without_a_model_have_thresholds_alone_and_the_page_says_whom_they_cost(tmp_path):
    truth, member, _, scores = planted(600)
    table = pd.DataFrame({"file": [f"{row}.png" for row in range(600)], "cat": truth * 1, "old": member * 1})
    asked = {"target": "cat", "groups": "old", "predictions": "score", "threshold": 1.5} | QUICK
    table = table.assign(score=scores + 1.5)
    found = audit.run(labels=table, repair=True, **asked)
    assert set(found.tables["repair"]["repair"]) == {"thresholds"}
    assert any(reason.startswith("A last layer trained anew: there is no model") for reason in found.unmeasured)
    page = audit.page(found)
    for words in (
        "What a repair would change",
        "to treat people by their group may be forbidden",
        found.repairs[0][:60],
    ):
        assert words in page
    assert "newly wrong" in page
    plain = audit.run(labels=table, **asked)
    for name, before in plain.tables.items():
        pd.testing.assert_frame_equal(before, found.tables[name])
    with pytest.raises(BiaslibError, match="give predictions that are scores with a threshold"):
        audit.run(labels=table.assign(score=truth * 1), repair=True, **(asked | {"threshold": None}))


def test_the_last_layer_of_an_audited_model_is_trained_anew(tmp_path):
    draw(tmp_path, n=400)
    asked = {
        "data": tmp_path / "images",
        "labels": tmp_path / "labels.csv",
        "target": "green",
        "groups": ["red", "random"],
    }
    found = audit.run(model=Spots(600.0, 400.0), repair=True, **asked, **PLAIN, **QUICK)
    assert [sentence.partition(":")[0] for sentence in found.repairs] == [
        "Thresholds for red", "Last layer for red", "Thresholds for random", "Last layer for random"
    ]  # fmt: skip
    table = found.tables["repair"]
    layer = table[(table["group"] == "red") & (table["repair"] == "last layer")].to_dict("records")
    assert all(abs(row["gap_before"].estimate) == 1.0 and abs(row["gap_after"].estimate) < 0.3 for row in layer)
    whole = found.tables["repair_costs"].query("group == 'red' and repair == 'last layer' and cell == 'all images'")
    assert whole["right_after"].iloc[0].estimate > 0.85 > whole["right_before"].iloc[0]
    assert found.conclusions()[-4:] == list(found.repairs)
