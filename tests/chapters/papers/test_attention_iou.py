import numpy as np
import pandas as pd
import pytest
import scipy.stats
from sklearn.metrics import matthews_corrcoef

from biaslib.chapters.papers import attention_iou
from biaslib.datasets import celeba, published, waterbirds
from biaslib.metrics.groups import matthews_from_counts

pytestmark = pytest.mark.filterwarnings("ignore::biaslib.datasets.DatasetWarning")


def test_mcc_is_the_mean_over_models_without_its_sign(computed, released):
    predicted = published.predictions("resnet")
    labels = published.annotated_labels()
    table = computed["attributes"].set_index("attribute")
    for name in ("Bald", "Young"):
        a, male = list(labels).index(name), list(labels).index("Male")
        per_model = [matthews_corrcoef(model[:, a], model[:, male]) for model in predicted]
        assert table.loc[name, "mcc"] == pytest.approx(abs(np.mean(per_model)), abs=1e-6)
        assert table.loc[name, "label_mcc"] == pytest.approx(matthews_corrcoef(labels[name], labels["Male"]), abs=1e-6)
    assert table.loc["Male", "mcc"] == 1


def test_worst_group_is_found_by_hand(computed, released):
    labels = published.annotated_labels()
    correct = (published.predictions("resnet") == labels.to_numpy()).mean(axis=0)
    table = computed["attributes"].set_index("attribute")
    name = "Goatee"
    frame = pd.DataFrame({"target": labels[name], "male": labels["Male"], "c": correct[:, list(labels).index(name)]})
    groups = frame.groupby(["target", "male"])["c"].agg(["mean", "size"])
    large = groups[groups["size"] >= 45]["mean"]
    assert table.loc[name, "wga"] == pytest.approx(large.min(), abs=1e-6)
    target, male = large.idxmin()
    assert table.loc[name, "worst_group"] == f"{'FT'[int(target)]}{'FT'[int(male)]}"
    assert table.loc[name, "any_wga"] == pytest.approx(groups["mean"].min(), abs=1e-6)


def test_a_higher_bar_can_only_raise_the_worst_accuracy(released):
    low, high = (attention_iou._attributes("efficientnet", s, 5, 0)["wga"] for s in (0.0, 0.2))
    assert (high >= low).all()
    assert (high > low).any()


def test_intervals_hold_their_estimate_and_shrink_with_agreement(computed):
    table = computed["attributes"]
    for value in ("mcc", "wga", "heatmap"):
        known = table[table[f"{value}_low"].notna()]
        assert len(known) >= 39
        assert (known[f"{value}_low"] <= known[value]).all()
        assert (known[f"{value}_high"] >= known[value]).all()


@pytest.mark.slow
def test_one_seed_gives_the_same_digits(computed, released):
    again = attention_iou.compute(resamples=60)
    for name, table in computed.items():
        pd.testing.assert_frame_equal(table, again[name], check_exact=True)


def test_all_attributes_and_regions_are_there(computed):
    assert computed["attributes"]["attribute"].tolist() == list(celeba.ATTRIBUTES)
    assert computed["attributes_efficientnet"]["attribute"].tolist() == list(celeba.ATTRIBUTES)
    assert (
        dict(zip(computed["regions"]["attribute"], computed["regions"]["region"], strict=True)) == published.OWN_REGION
    )
    assert computed["waterbirds"]["models"].tolist() == [20, 20, 20, 20, 19, 20, 20] + [10] * 7
    assert len(computed["subgroup_trends"]) == 10


def test_models_of_figure_4_are_asked_on_both_kinds_of_faces(computed, released):
    labels, predicted = published.annotated_labels(), published.predictions("negative")
    table = computed["one_sided"].set_index(["trained_on", "faces"])
    with_glasses, male = labels["Eyeglasses"].to_numpy(), list(labels).index("Male")
    right = predicted[:, with_glasses, male] == labels.loc[with_glasses, "Male"].to_numpy()
    assert table.loc[("negative", "with"), "male"] == pytest.approx(right.mean(), abs=1e-6)
    assert table.loc[("negative", "with"), "n"] == with_glasses.sum()
    trained = published.annotated_labels("trained on")["Eyeglasses"]
    assert table["training"].tolist() == [trained.sum()] * 2 + [(~trained).sum()] * 2
    says_yes = predicted[:, :, list(labels).index("Eyeglasses")].mean(axis=1)
    assert table.loc["negative", "glasses_most"].tolist() == pytest.approx([says_yes.max()] * 2, abs=1e-6)


def test_groups_have_their_own_trends(computed):
    part = computed["by_group"].query("group == 'FF' and attribute != 'Male'").set_index("attribute")["mean"]
    mcc = computed["attributes"].set_index("attribute")["mcc"].drop("Male")
    trend = computed["trends"].set_index("name").loc["heatmap_mcc_FF"]
    expected = scipy.stats.kendalltau(mcc, part.reindex(mcc.index))
    assert (trend["tau"], trend["p"]) == pytest.approx(expected, abs=1e-6)


def test_subsampled_sets_reach_their_correlation_and_no_more_than_there_are(computed):
    groups = ["TT", "TF", "FT", "FF"]
    for _, whole in computed["sizes"].groupby("attribute"):
        part = whole[whole["target"].notna()]
        assert (part[groups] <= whole[whole["target"].isna()][groups].to_numpy()).to_numpy().all()
        assert len(set(part[groups].sum(axis=1))) == 1
        for _, row in part.iterrows():
            both, a, b = row["TT"], row["TT"] + row["TF"], row["TT"] + row["FT"]
            assert matthews_from_counts(both=both, a=a, b=b, n=row[groups].sum()) == pytest.approx(
                row["target"], abs=1e-3
            )


def test_accuracy_on_waterbirds_is_that_of_the_predictions(computed, released):
    truth = waterbirds.cub_test_labels(released)
    predicted = published.waterbirds_predictions(95, "resnet")
    row = computed["waterbirds"].query("backbone == 'resnet' and bias == 95").iloc[0]
    assert row["waterbirds"] == pytest.approx(predicted[:, truth].mean(), abs=1e-6)


def test_file_of_one_model_has_no_interval():
    scores = pd.DataFrame({"mean": [0.5, 0.5], "sd": [0.0, 0.1]})
    spread = attention_iou._over_models(scores, 10)
    assert np.isnan(spread.loc[0, "low"])
    # Student's t with 9 degrees of freedom, population deviation 0.1 of 10 models
    assert spread.loc[1, "high"] == pytest.approx(0.5 + 2.262157 * 0.1 / 3, abs=1e-6)


def test_missing_says_what_is_not_there(released, tmp_path, monkeypatch):
    assert attention_iou.missing() == []
    monkeypatch.setenv("BIASLIB_DATA", str(tmp_path))
    assert "celeba/list_attr_celeba.txt" in attention_iou.missing()


def test_residuals_by_hand():
    table = pd.DataFrame({"attribute": list("abcd"), "mcc": [0.0, 1.0, 0.0, 1.0], "heatmap": [0.1, 0.3, -0.1, -0.3]})
    rest = attention_iou.residuals(table)
    # the line is level at 0; the residuals' standard deviation with two parameters fitted is sqrt(0.2 / 2)
    assert rest.tolist() == pytest.approx([0.1 / 0.1**0.5, 0.3 / 0.1**0.5, -0.1 / 0.1**0.5, -0.3 / 0.1**0.5])


@pytest.mark.parametrize("mcc", [[], [0.1], [0.1, 0.2], [0.1, 0.1, 0.1]])
def test_too_few_attributes_leave_no_residuals(mcc):
    table = pd.DataFrame({"attribute": list("abc")[: len(mcc)], "mcc": mcc, "heatmap": [0.5, 0.7, 0.6][: len(mcc)]})
    rest = attention_iou.residuals(table)
    assert rest.isna().all()
    assert list(rest.index) == list(table["attribute"])
