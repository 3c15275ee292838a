import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binomtest
from sklearn.calibration import calibration_curve
from sklearn.metrics import matthews_corrcoef, roc_auc_score
from statsmodels.stats.proportion import confint_proportions_2indep

from biaslib.audit import amplifying, findings, measurements
from biaslib.audit.inputs import Binary, LabelledImages
from biaslib.audit.predictions import Predictions
from biaslib.metrics import Labels, bias_amplification, permutation_baseline
from biaslib.statistics import Interval, holm, proportions, sign_flip

TARGET = Binary("cat", ("0", "1"), ("not cat", "cat"))
GROUP = Binary("ball", ("0", "1"), ("not ball", "ball"))


def drawn(n, *, tie=0.0, wrong=(0.1, 0.1), seed=0):
    """Labels, and answers that are wrong so often in and outside the group."""
    rng = np.random.default_rng(seed)
    ball = rng.random(n) < 0.5
    cat = np.where(rng.random(n) < tie, ball, rng.random(n) < 0.5)
    labels = pd.DataFrame({"cat": cat, "ball": ball})
    return labels, pd.DataFrame({"cat": cat ^ (rng.random(n) < np.where(ball, *wrong))})


def answered(labels, predicted=None, train=None, groups=(GROUP,), clusters=None):
    files = tuple(map(str, labels.index))
    told = labels if predicted is None else predicted
    return LabelledImages(files, labels, told, train, TARGET, groups, clusters=clusters)


def measured(labels, predicted=None, *, predictions=None, roles=None, groups=(GROUP,), clusters=None, seed=0):
    asked = answered(labels, predicted, groups=groups, clusters=clusters)
    return measurements.measure(asked, predictions, roles=roles or {}, seed=seed)


def test_cells_and_counts_by_hand():
    labels = pd.DataFrame({"cat": [True, True, False], "ball": [True, False, False]})
    assert list(answered(labels).cells(GROUP)) == ["cat, ball", "cat, not ball", "not cat, not ball"]
    counts = measured(labels)["counts"]
    assert list(counts["n"]) == [1, 1, 0, 1]
    assert counts["small"].all()


def overall(labels, predicted):
    return measured(labels, predicted, groups=())["overall"].set_index("measure")["value"]


def test_the_performance_over_all_images_by_hand():
    labels = pd.DataFrame({"cat": [True] * 4 + [False] * 6})
    predicted = pd.DataFrame({"cat": [True] * 3 + [False] * 5 + [True] * 2})
    value = overall(labels, predicted)
    assert {name: (one.estimate, one.n) for name, one in value.items()} == {
        "accuracy": (0.7, 10),
        "sensitivity": (0.75, 4),
        "specificity": (pytest.approx(4 / 6), 6),
        "share said yes": (0.5, 10),
        "share labelled yes": (0.4, 10),
    }
    known = binomtest(3, 4).proportion_ci(method="wilson")
    assert (value["sensitivity"].low, value["sensitivity"].high) == (known.low, known.high)
    nobody = overall(labels[:4], predicted[:4])
    assert np.isnan(nobody["specificity"].estimate)
    assert nobody["specificity"].n == 0


def test_average_maps_are_shares_and_leave_empty_maps_out():
    labels = pd.DataFrame({"cat": [True, True, True, False], "ball": [True, True, False, False]})
    maps = np.array([[[4.0, 0.0]], [[1.0, 1.0]], [[0.0, 0.0]], [[0.0, 5.0]]])
    found = measurements.average_maps(maps, answered(labels), GROUP)
    assert list(found) == ["cat, ball", "not cat, not ball"]
    np.testing.assert_allclose(found["cat, ball"], [[0.75, 0.25]])
    np.testing.assert_allclose(found["not cat, not ball"], [[0.0, 1.0]])


@pytest.mark.slow
def test_correlations_are_scikit_learns_and_their_intervals_cover():
    labels, predicted = drawn(500, tie=0.4)
    row = measured(labels, predicted)["correlations"].iloc[0]
    assert row["in the labels"].estimate == pytest.approx(matthews_corrcoef(labels["cat"], labels["ball"]))
    assert row["of the answers"].estimate == pytest.approx(matthews_corrcoef(predicted["cat"], labels["ball"]))
    assert np.isnan(row["in the training labels"])
    covered = 0
    for seed in range(60):
        labels, predicted = drawn(300, tie=0.4, seed=seed)
        found = measured(labels, predicted, seed=seed)["correlations"].iloc[0]["in the labels"]
        covered += found.low <= 0.4 <= found.high
    assert covered >= 51  # 57 are expected


def test_gaps_by_hand_and_undefined_without_images():
    labels = pd.DataFrame({"cat": [True] * 20, "ball": [True] * 10 + [False] * 10})
    correct = np.array([True] * 9 + [False] + [True] * 5 + [False] * 5)
    predicted = pd.DataFrame({"cat": correct})
    (_, with_cat), (_, without) = measured(labels, predicted)["gaps"].iterrows()
    assert with_cat["gap"].estimate == pytest.approx(0.4)
    assert with_cat[["n_in", "n_out", "right_in", "right_out"]].tolist() == [10, 10, 0.9, 0.5]
    assert np.isnan(without["gap"].estimate)
    assert np.isnan(without["p"])
    detectable = measurements.detectable_gaps(answered(labels, predicted), alpha=0.05, margin=0.05)
    assert detectable["smallest"].isna().tolist() == [False, True]
    assert detectable["outcome"].tolist() == ["cannot be told", "cannot be told"]


def outcomes(gap, *, n, margin=0.05, alpha=0.05 / 3, groups=10, seed=0):
    """Of so many groups with n images inside and outside among the cats, and no image else; 90 % right outside."""
    rng = np.random.default_rng(seed)
    members = rng.permuted(np.tile(np.arange(2 * n) < n, (groups, 1)), axis=1)
    found = []
    for member in members:
        labels = pd.DataFrame({"cat": True, "ball": member})
        predicted = pd.DataFrame({"cat": rng.random(2 * n) < np.where(member, 0.9 - gap, 0.9)})
        row = measurements.detectable_gaps(answered(labels, predicted), alpha=alpha, margin=margin).iloc[0]
        assert row["gap"].confidence == pytest.approx(1 - alpha)
        found.append(row["outcome"])
    return found


def test_the_three_outcomes_are_right_where_the_truth_is_off_the_margin(monkeypatch):
    # what could have been seen takes most of the time, and is tested elsewhere
    monkeypatch.setattr(measurements, "minimum_detectable_gap", lambda *_, **__: np.nan)
    monkeypatch.setattr(measurements, "images_needed", lambda *_, **__: np.nan)
    told = {}
    cases = [(gap, n) for gap in (-0.1, -0.085, 0.0, 0.015, 0.085, 0.12) for n in (300, 1000, 3000)]
    for seed, (gap, n) in enumerate(cases):
        true = "shown" if abs(gap) > 0.05 else "excluded"
        found = outcomes(gap, n=n, groups=40, seed=seed)
        # silence is always allowed, and the opposite of the truth nearly never
        assert sum(one not in (true, "cannot be told") for one in found) <= 2
        told.setdefault(n, []).append(np.mean([one == true for one in found]))
    assert np.mean(told[3000]) >= 0.9
    # few images tell less and do not acquit
    assert np.mean(told[300]) < np.mean(told[1000]) < np.mean(told[3000])


def test_an_interval_that_only_touches_the_margin_tells_nothing():
    labels = pd.DataFrame({"cat": True, "ball": [True] * 100 + [False] * 100})
    predicted = pd.DataFrame({"cat": [True] * 80 + [False] * 20 + [True] * 95 + [False] * 5})
    gap = measurements.detectable_gaps(answered(labels, predicted), alpha=0.05, margin=0.05)["gap"][0]
    by_margin = {
        -gap.high - 1e-9: "shown",
        -gap.high: "cannot be told",
        -gap.low: "cannot be told",
        -gap.low + 1e-9: "excluded",
    }
    for margin, outcome in by_margin.items():
        (found, _) = measurements.detectable_gaps(answered(labels, predicted), alpha=0.05, margin=margin)["outcome"]
        assert found == outcome


def test_rates_are_those_of_each_group_and_of_the_others():
    labels, predicted = drawn(400, wrong=(0.3, 0.1))
    tables = measured(labels, predicted)
    inside, outside, less = tables["rates"].to_dict("records")
    assert (inside["of"], outside["of"]) == GROUP.words[::-1]
    ball, cat = labels["ball"], labels["cat"]
    assert inside["n"] == ball.sum()
    assert inside["selection_rate"].estimate == pytest.approx(predicted["cat"][ball].mean())
    assert inside["true_positive_rate"].estimate == pytest.approx(predicted["cat"][ball & cat].mean())
    assert inside["true_positive_rate"].n == (ball & cat).sum()
    assert outside["precision"].estimate == pytest.approx(cat[~ball & predicted["cat"]].mean())
    gap = less["selection_rate"]
    low, high = confint_proportions_2indep(
        predicted["cat"][ball].sum(), ball.sum(), predicted["cat"][~ball].sum(), (~ball).sum(), method="newcomb"
    )
    assert (gap.low, gap.high) == pytest.approx((low, high))
    assert gap.estimate == pytest.approx(inside["selection_rate"].estimate - outside["selection_rate"].estimate)
    apart = tables["disparities"].set_index("disparity")
    assert "intersections" not in tables
    rates = [row["selection_rate"].estimate for row in (inside, outside)]
    assert apart.loc["demographic_parity", "difference"] == pytest.approx(max(rates) - min(rates))
    assert apart.loc["demographic_parity", "ratio"] == pytest.approx(min(rates) / max(rates))
    assert "scores" not in tables


def crossed(n=900, seed=0):
    """Answers that are wrong more often about cats with a ball in fog, which are rare."""
    labels, _ = drawn(n, seed=seed)
    rng = np.random.default_rng(seed + 1)
    labels["fog"] = rng.random(n) < 0.04
    wrong = rng.random(n) < np.where(labels["ball"] & labels["fog"], 0.6, 0.1)
    words = np.where(labels["ball"], "ball", "not ball") + np.where(labels["fog"], " x fog", " x not fog").astype(
        object
    )
    fog = Binary("fog", ("0", "1"), ("not fog", "fog"))
    asked = answered(labels, pd.DataFrame({"cat": labels["cat"] ^ wrong}), groups=(GROUP, fog))
    return replace(asked, combinations=words.astype(str))


def test_combinations_have_fairlearns_rates():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from fairlearn import metrics as fairlearn
    asked = crossed()
    tables = measurements.measure(asked, None, roles={}, seed=0)
    given = {"y_true": asked.labels["cat"], "y_pred": asked.predicted["cat"]}
    given["sensitive_features"] = asked.labels[["ball", "fog"]]
    named = {
        name: getattr(fairlearn, name)
        for name in ("selection_rate", "true_positive_rate", "false_positive_rate", "false_negative_rate")
    }
    frame = fairlearn.MetricFrame(metrics=named | {"n": fairlearn.count}, **given)
    rows = tables["intersections"].set_index("of")
    assert len(rows) == 4
    for (ball, fog), theirs in frame.by_group.iterrows():
        row = rows.loc[f"{'ball' if ball else 'not ball'} x {'fog' if fog else 'not fog'}"]
        assert row["n"] == theirs["n"]
        assert [row[name].estimate for name in named] == pytest.approx(theirs[list(named)].tolist(), abs=1e-12)


def test_a_small_combination_is_drawn_toward_all_images():
    asked = crossed()
    tables = measurements.measure(asked, None, roles={}, seed=0)
    rows, overall = tables["intersections"].set_index("of"), asked.correct.mean()
    small, large = rows.loc["ball x fog"], rows.loc["ball x not fog"]
    assert small["n"] < 30 < large["n"]
    assert small["accuracy"].estimate == asked.correct[asked.combinations == "ball x fog"].mean()
    assert small["accuracy"].estimate < small["shrunk"].estimate < overall
    assert abs(large["shrunk"].estimate - large["accuracy"].estimate) < 0.01
    assert small["shrunk"].low < small["shrunk"].estimate < small["shrunk"].high
    # images that come in clusters count for fewer, and so are drawn further
    patients = replace(asked, clusters=np.arange(len(asked.labels)) // 3)
    clustered = measurements.measure(patients, None, roles={}, seed=0)["intersections"].set_index("of")
    assert clustered.loc["ball x fog", "accuracy"].estimate == small["accuracy"].estimate
    assert clustered.loc["ball x fog", "shrunk"].n == small["n"]


def of_few_patients(right, sizes, *, patients):
    """Four combinations of so many images, so many of them right, each with its own patients."""
    cells = np.repeat(np.arange(4), sizes)
    correct = np.concatenate([np.arange(size) < yes for size, yes in zip(sizes, right, strict=True)])
    labels = pd.DataFrame({"cat": [True] * len(cells), "ball": cells > 1})
    clusters = 100 * cells + np.concatenate([np.arange(size) % patients for size in sizes])
    asked = replace(answered(labels, pd.DataFrame({"cat": correct}), clusters=clusters), combinations=cells.astype(str))
    return asked, measurements.measure(asked, None, roles={}, seed=0)["intersections"]


def test_of_clusters_the_accuracy_that_is_drawn_is_that_of_the_images():
    # of few independent images the nearest whole hit may be on the other side of the mean
    for right in ([67, 68, 66, 54], [70, 65, 61, 58], [73, 66, 63, 40]):
        asked, rows = of_few_patients(right, [75] * 4, patients=4)
        own, drawn = (np.array([share.estimate for share in rows[name]]) for name in ("accuracy", "shrunk"))
        ends = np.sort([own, np.full(4, asked.correct.mean())], axis=0)
        assert ((ends[0] - 0.003 < drawn) & (drawn < ends[1] + 0.003)).all()


def test_combinations_that_seem_alike_are_not_known_to_the_last_digit():
    _, rows = of_few_patients([58, 59, 58, 59], [75] * 4, patients=15)
    for shrunk in rows["shrunk"]:
        assert shrunk.estimate == pytest.approx(0.78, abs=0.005)
        assert shrunk.low < 0.76 < 0.8 < shrunk.high


def test_areas_and_calibration_are_scikit_learns():
    labels, predicted = drawn(500, wrong=(0.3, 0.1))
    scores = np.clip(0.2 + 0.6 * predicted["cat"] + np.random.default_rng(1).normal(0, 0.15, 500), 0, 1).to_numpy()
    tables = measurements.measure(replace(answered(labels, predicted), scores=scores), None, roles={}, seed=0)
    for row, inside in zip(tables["scores"].to_dict("records"), (labels["ball"], ~labels["ball"]), strict=True):
        truth, score = labels["cat"][inside], scores[inside]
        assert row["AUC"].estimate == roc_auc_score(truth, score)
        assert row["AUC"].low < row["AUC"].estimate < row["AUC"].high
        shares, means = calibration_curve(truth, score, n_bins=10, strategy="quantile")
        bins = tables["calibration"].query("of == @row['of']")
        np.testing.assert_allclose(bins["score"], means, rtol=0, atol=1e-12)
        np.testing.assert_allclose([one.estimate for one in bins["share labelled yes"]], shares, rtol=0, atol=1e-12)
        assert bins["n"].sum() == row["n"] == inside.sum()
        tenths = np.array_split(np.argsort(score, kind="stable"), 10)
        assert bins["n"].max() - bins["n"].min() <= 1 + (np.clip(score, 0.01, 0.99) != score).sum()  # ties at 0 and 1
        by_hand = sum(abs((truth.to_numpy()[at] - score[at]).mean()) * len(at) for at in tenths)
        assert row["calibration error"] == pytest.approx(by_hand / row["n"], abs=0.02)
        error = np.average(abs(shares - means), weights=bins["n"])
        assert row["calibration error"] == pytest.approx(error, abs=1e-12)


def test_scores_that_are_no_probabilities_have_an_area_and_no_calibration():
    labels = pd.DataFrame({"cat": [True, True, False, False] * 5, "ball": [True, False, False, False] * 5})
    scores = np.array([3.0, 2.0, 1.0, -1.0] * 5)
    tables = measurements.measure(replace(answered(labels), scores=scores), None, roles={}, seed=0)
    inside, outside = tables["scores"].to_dict("records")
    assert np.isnan(inside["AUC"].estimate)  # all of them are cats
    assert outside["AUC"].estimate == 1
    assert outside["AUC"].low < 0.95
    assert np.isnan([inside["calibration error"], outside["calibration error"]]).all()
    assert len(tables["calibration"]) == 0


@pytest.mark.slow
def test_with_corrected_tests_false_alarms_are_as_rare_as_they_are_meant_to_be():
    groups = [Binary(f"g{i}", ("0", "1"), (f"not g{i}", f"g{i}")) for i in range(4)]
    alarms = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        labels = pd.DataFrame(rng.random((400, 5)) < 0.4, columns=["cat", "g0", "g1", "g2", "g3"])
        predicted = pd.DataFrame({"cat": labels["cat"] ^ ~(rng.random(400) < 0.85)})
        gaps = measurements._gaps(answered(labels, predicted, groups=groups))  # alone, as there are a hundred
        alarms += (holm(gaps["p"]) <= 0.05).any()
    # 5 % of 100 are 5, and 12 is three standard errors more
    assert alarms <= 12


def test_amplification_is_the_metrics_own():
    labels, predicted = drawn(400, tie=0.5, wrong=(0.3, 0.05))
    predicted["ball"] = labels["ball"] ^ (np.random.default_rng(1).random(400) < 0.2)
    train, _ = drawn(300, tie=0.6, seed=2)
    rows = amplifying.amplification(answered(labels, predicted, train), permutations=20, seed=0)
    sides = [Labels(frame[["cat"]].to_numpy(), frame["ball"].to_numpy(int)) for frame in (train, labels, predicted)]
    assert rows["direction"].tolist() == list(amplifying._KINDS.values())
    for kind, row in zip(amplifying._KINDS, rows.itertuples(), strict=True):
        signed = bias_amplification(*sides, kind=kind, absolute=False).mean
        assert row.signed.estimate == pytest.approx(signed)
        # cats and balls go together here, so that the signed mean of both changes is half of what sets them apart
        halves = 2 if kind == "group_to_attribute" else 1
        assert row.shift.estimate == pytest.approx(halves * signed)
        assert row.shift.low <= row.shift.estimate <= row.shift.high


@pytest.mark.parametrize(("n_in", "n_out"), [(900, 100), (500, 500), (100, 900)])
def test_mistakes_that_all_go_one_way_are_found_by_whom_they_hit_whatever_the_groups_sizes(n_in, n_out):
    """A mean of sizes would weigh both groups alike, chance weighs them by their images, and the sign would turn."""
    ball = np.repeat([True, False], [n_in, n_out])
    cat = np.tile([True, False], 500)
    missed = cat & (np.arange(1000) % 20 < np.where(ball, 8, 2))  # .4 of the cats with a ball, .1 of those without one
    rows = []
    for wrong in (missed, cat & (np.arange(1000) % 20 < 4)):
        labels = pd.DataFrame({"cat": cat, "ball": ball})
        rows.append(
            amplifying.amplification(answered(labels, labels[["cat"]] ^ wrong[:, None]), permutations=99, seed=0)
        )
    harmful, alike = (table.iloc[0] for table in rows)
    assert harmful["shift"].estimate == pytest.approx(-0.15)
    assert abs(harmful["unrelated errors"]) < 0.02
    assert harmful["p"] == 0.01
    assert alike["shift"].estimate == pytest.approx(0, abs=1e-12)
    assert alike["p"] > 0.5


def apart(train, test, said, kind):
    """The change of the share in the group, less that outside it where these are shares of different images."""
    target, own = ((of.attributes[:, 0], of.groups == 1) for of in (test, said))
    (truth, group), (answer, of_group) = target, own
    if kind == "group_to_attribute":
        return np.subtract(*(answer[side].mean() - truth[side].mean() for side in (group, ~group)))
    if kind == "attribute_to_group":
        return of_group[truth].mean() - group[truth].mean()
    return of_group[answer].mean() - (train.groups == 1)[train.attributes[:, 0]].mean()


@pytest.mark.parametrize("with_train", [False, True])
def test_permuted_and_redrawn_amplification_is_that_of_permuted_and_redrawn_labels(with_train):
    """Image by image and metric by metric, with the same random numbers, for two groups of which one is predicted."""
    labels, predicted = drawn(60, tie=0.5, wrong=(0.3, 0.05))
    rng = np.random.default_rng(3)
    labels["sky"] = rng.random(60) < 0.3
    predicted["sky"] = labels["sky"] ^ (rng.random(60) < 0.2)
    sky = Binary("sky", ("0", "1"), ("not sky", "sky"))
    train = drawn(50, tie=0.6, seed=2)[0].assign(sky=rng.random(50) < 0.5) if with_train else None
    rows = amplifying.amplification(answered(labels, predicted, train, (GROUP, sky)), permutations=30, seed=5)
    assert rows["group"].tolist() == ["ball", "sky", "sky", "sky"]
    for (_, row), kind in zip(rows.iterrows(), ["group_to_attribute", *amplifying._KINDS], strict=True):
        said = predicted if row["group"] in predicted else predicted.assign(ball=labels["ball"])
        frames = (labels, said) if train is None else (labels, said, train)
        test, answers, *rest = (
            Labels(frame[["cat"]].to_numpy(), frame[row["group"]].to_numpy(int)) for frame in frames
        )
        rng, chance, redrawn = np.random.default_rng(5), [], []
        for _ in range(30):
            errors = permutation_baseline(test, answers, rng=rng)
            chance.append(apart(*(rest or [test]), test, errors, kind))
        for _ in range(30):
            index = rng.integers(60, size=60)
            again, said_again = test.take(index), answers.take(index)
            redrawn.append(apart(*(rest or [again]), again, said_again, kind))
        assert row["unrelated errors"] == pytest.approx(np.mean(chance), abs=1e-15)
        far = np.abs(np.array(chance) - np.mean(chance)) >= abs(row["shift"].estimate - np.mean(chance)) - 1e-12
        assert row["p"] == (1 + far.sum()) / 31
        assert [row["shift"].low, row["shift"].high] == pytest.approx(np.quantile(redrawn, [0.025, 0.975]))


def test_signed_amplification_needs_a_tie_and_the_other_ways_predictions_of_the_group():
    labels, predicted = drawn(400)
    (row,) = amplifying.amplification(answered(labels, predicted), permutations=20, seed=0).itertuples()
    assert row.direction == "group → target"
    assert np.isnan(row.signed)


@pytest.mark.slow
def test_amplification_tests_find_an_effect_and_no_other():
    labels, predicted = drawn(300, wrong=(0.4, 0.0))
    predicted = predicted.assign(cat=predicted["cat"] | labels["ball"])
    assert amplifying.amplification(answered(labels, predicted), permutations=99, seed=0)["p"][0] == 0.01
    p = []
    for seed in range(30):
        labels, predicted = drawn(200, tie=0.3, wrong=(0.15, 0.15), seed=seed)
        p.append(amplifying.amplification(answered(labels, predicted), permutations=19, seed=seed)["p"][0])
    # 10 % of 30 are 3, and 8 is three standard errors more
    assert (np.array(p) <= 0.1).sum() <= 8


def test_attention_is_one_for_equal_maps_and_less_for_those_of_others():
    maps = np.random.default_rng(0).random((30, 1, 4, 4)) ** 4
    both = np.concatenate([maps, maps], axis=1)
    both[3] = 0
    predictions = Predictions(np.ones(30, bool), np.zeros((30, 2)), both, mass={}, score={}, area={})
    labels, predicted = drawn(30)
    shared = measured(labels, predicted, predictions=predictions)["attention"].iloc[0]
    assert shared["score"].estimate == pytest.approx(1.0)
    assert shared["another image"].high < 0.9
    assert shared["empty"] == 1


def test_regions_compare_the_map_with_the_area():
    nan = np.nan
    mass = {"ball": np.array([0.5, 0.7, nan, 0.6] * 5), "tree": np.full(20, nan)}
    area = {"ball": np.array([0.1, 0.1, 0.1, 0.2] * 5), "tree": np.full(20, nan)}
    roles = {"ball": "unwanted", "tree": "unwanted"}
    predictions = Predictions(np.ones(20, bool), np.zeros((20, 1)), np.zeros((20, 1, 2, 2)), mass, mass, area)
    labels = pd.DataFrame({"cat": [True, False, False, False] * 5, "ball": [True, True, False, False] * 5})
    found = measured(labels, predictions=predictions, roles=roles)
    ball, tree = found["regions"].itertuples()
    assert ball.n == 15
    assert ball.excess.estimate == pytest.approx((0.4 + 0.6 + 0.4) / 3)
    assert ball.p < 0.001
    assert np.isnan(tree.p)
    described = measured(labels, predictions=predictions)["regions"]
    assert described["role"].tolist() == ["neutral", "neutral"]
    assert described["p"].isna().all()
    assert described["excess"][0] == ball.excess
    cells = found["regions_by_cell"].set_index("cell")
    assert cells["n"].to_dict() == {"cat, ball": 5, "not cat, ball": 5, "not cat, not ball": 5}
    assert isinstance(cells.loc["cat, ball", "mass"], Interval)


def of_patients(seed, *, patients=100, images=6, mixed=False):
    """Nine of ten images of a patient are answered as the patient is; the group is the patient's, or each image's."""
    rng = np.random.default_rng(seed)
    patient = np.repeat(np.arange(patients), images)
    ball = rng.random(len(patient)) < 0.5 if mixed else (rng.random(patients) < 0.4)[patient]
    right = np.where(
        rng.random(len(patient)) < 0.9, (rng.random(patients) < 0.7)[patient], rng.random(len(patient)) < 0.7
    )
    return pd.DataFrame({"cat": right | True, "ball": ball}), pd.DataFrame({"cat": right}), patient


@pytest.mark.slow
@pytest.mark.parametrize("mixed", [False, True])
def test_images_of_one_patient_make_false_alarms_only_where_they_are_taken_to_be_independent(mixed):
    alarms = np.zeros(2, int)
    for seed in range(300):
        labels, predicted, patient = of_patients(seed, mixed=mixed)
        p = [measurements._gaps(answered(labels, predicted, clusters=of))["p"][0] for of in (patient, None)]
        alarms += np.array(p) <= 0.05
    level = binomtest(int(alarms[0]), 300).proportion_ci(method="wilson")
    if mixed:  # nothing is gained where a patient's images fall on both sides
        assert level.low <= 0.05
    else:
        assert level.low <= 0.05 <= level.high
        assert alarms[1] > 100


@pytest.mark.slow
def test_a_gap_between_few_patients_is_found_as_rarely_as_a_corrected_test_asks_for():
    """Eight patients, four of either group, with as many right answers: no gap."""
    rng, p, of_shares = np.random.default_rng(1), [], []
    patient = np.repeat(np.arange(8), 60)
    ball = patient < 4
    for _ in range(400):
        right = rng.random(480) < rng.beta(4.5, 1.1, 8)[patient]
        labels, predicted = pd.DataFrame({"cat": True, "ball": ball}), pd.DataFrame({"cat": right})
        p.append(measurements._gaps(answered(labels, predicted, clusters=patient))["p"][0])
        sides = proportions.as_independent([right[ball], right[~ball]], [patient[ball], patient[~ball]])
        of_shares.append(proportions.compare_shares(*sides).p)
    p, of_shares = np.array(p), np.array(of_shares)
    np.testing.assert_array_equal(p <= 0.05, of_shares <= 0.05)
    assert (p <= 0.05).mean() <= 0.06
    # at the level of ten tests, where two of 400 are expected, p is no longer small too often
    assert (p <= 0.005).sum() <= 2 < (of_shares <= 0.005).sum()


def test_a_gap_with_two_patients_on_a_side_has_no_p_and_cannot_be_told():
    patient = np.repeat(np.arange(12), 30)
    for few, known in ((2, False), (3, True)):
        labels = pd.DataFrame({"cat": True, "ball": patient < few})
        predicted = pd.DataFrame({"cat": (patient >= few) | (np.arange(360) % 5 == 0)})
        asked = answered(labels, predicted, clusters=patient)
        gap = measurements._gaps(asked).iloc[0]
        assert gap["gap"].estimate == pytest.approx(-0.8)
        assert np.isfinite(gap["gap"].low)
        assert np.isfinite(gap["p"]) == known
        outcome = measurements.detectable_gaps(asked, alpha=0.05, margin=0.05)["outcome"][0]
        assert outcome == ("shown" if known else "cannot be told")
        tables = measured(labels, predicted, clusters=patient)
        said = [sentence for sentence in findings.without_labels(tables, asked) if "fewer than 3 clusters" in sentence]
        assert said == [] if known else said[0].startswith("Whether the gap of ball among cat is more than chance")


def test_rates_outcomes_and_calibration_count_a_patient_s_images_as_the_gaps_do():
    labels, predicted, patient = of_patients(1)
    labels["cat"] = np.random.default_rng(0).random(len(labels)) < 0.5
    scores = np.where(predicted["cat"], 0.8, 0.3)
    alone, of_all = (
        measurements.measure(replace(answered(labels, predicted, clusters=of), scores=scores), None, roles={}, seed=0)
        for of in (None, patient)
    )
    for one, other in zip(alone["rates"].itertuples(), of_all["rates"].itertuples(), strict=True):
        assert (one.selection_rate.estimate, one.selection_rate.n) == (
            other.selection_rate.estimate, other.selection_rate.n
        )  # fmt: skip
        assert other.selection_rate.low < one.selection_rate.low < one.selection_rate.high < other.selection_rate.high
    pd.testing.assert_frame_equal(alone["disparities"], of_all["disparities"])
    assert of_all["scores"]["calibration error"].tolist() == alone["scores"]["calibration error"].tolist()
    for one, other in zip(alone["scores"]["AUC"], of_all["scores"]["AUC"], strict=True):
        assert one.estimate == other.estimate
        assert np.isfinite([one.low, one.high]).all()
        assert np.isnan([other.low, other.high]).all()
    outcome = [
        measurements.detectable_gaps(answered(labels, predicted, clusters=of), alpha=0.001, margin=0.2).iloc[0]
        for of in (None, patient)
    ]
    assert outcome[0]["gap"].estimate == outcome[1]["gap"].estimate
    assert np.ptp([outcome[1]["gap"].low, outcome[1]["gap"].high]) > np.ptp(
        [outcome[0]["gap"].low, outcome[0]["gap"].high]
    )


def test_a_gap_between_patients_is_found_and_its_estimate_is_that_of_the_images():
    labels, predicted, patient = of_patients(0, patients=200)
    predicted["cat"] &= ~(labels["ball"] & (patient % 2 == 0))
    alone, of_all = (measured(labels, predicted, clusters=of) for of in (None, patient))
    one, other = alone["gaps"].iloc[0], of_all["gaps"].iloc[0]
    assert one["gap"].estimate == other["gap"].estimate
    assert (
        one[["n_in", "n_out", "right_in", "right_out"]].tolist()
        == other[["n_in", "n_out", "right_in", "right_out"]].tolist()
    )
    assert other["gap"].low < one["gap"].low < one["gap"].high < other["gap"].high < 0
    assert one["p"] < other["p"] < 0.001
    for name, column in (("overall", "value"), ("accuracies", "accuracy"), ("correlations", "of the answers")):
        for independent, clustered in zip(alone[name][column], of_all[name][column], strict=True):
            assert clustered.estimate == independent.estimate or np.isnan(independent.estimate)
            assert clustered.n == independent.n
            if 0 < independent.estimate < 1:
                assert clustered.low < independent.low < independent.high < clustered.high
    visible = [
        measurements.detectable_gaps(answered(labels, predicted, clusters=of), alpha=0.05, margin=0.05).iloc[0]
        for of in (None, patient)
    ]
    assert visible[1]["smallest"] > 1.5 * visible[0]["smallest"]
    assert visible[1]["needed"] > 3 * visible[0]["needed"]
    assert visible[0]["images"] == visible[1]["images"] == 1200


def test_amplification_of_images_in_clusters_is_described_and_not_tested(monkeypatch):
    labels, predicted, patient = of_patients(0)
    permuted, made = amplifying._Images.permuted, []
    monkeypatch.setattr(amplifying._Images, "permuted", lambda *given: made.append(1) or permuted(*given))
    labels["cat"] = np.random.default_rng(1).random(len(labels)) < 0.5
    alone, of_all = (
        amplifying.amplification(answered(labels, predicted, clusters=of), permutations=19, seed=0).iloc[0]
        for of in (None, patient)
    )
    assert alone["shift"].estimate == of_all["shift"].estimate
    assert np.isfinite(alone["p"])
    assert np.isnan([of_all["p"], of_all["unrelated errors"], of_all["shift"].low, of_all["shift"].high]).all()
    assert len(made) == 19  # nothing is permuted that no p comes of


def test_attention_is_of_clusters_each_of_which_counts_once():
    labels, predicted = drawn(40)
    patient = np.repeat([0, 1, 2, 3, 4, 5, 6], [34, 1, 1, 1, 1, 1, 1])
    mass = {"ball": np.where(patient == 0, 0.9, 0.1) + np.arange(40) / 1000}
    area = {"ball": np.full(40, 0.3)}
    predictions = Predictions(np.ones(40, bool), np.zeros((40, 1)), np.ones((40, 1, 2, 2)), mass, mass, area)
    given = {"predictions": predictions, "roles": {"ball": "unwanted"}}
    alone, of_all = (measured(labels, predicted, clusters=of, **given)["regions"].iloc[0] for of in (None, patient))
    means = pd.Series(mass["ball"]).groupby(patient).mean()
    assert of_all["mass"].estimate == pytest.approx(means.mean())
    assert alone["p"] < 0.01
    assert of_all["p"] == pytest.approx(sign_flip(means - 0.3).p)
    assert of_all["p"] > 0.3
