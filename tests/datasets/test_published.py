import shutil

import numpy as np
import pandas as pd
import pytest

from biaslib.datasets import celeba, published
from biaslib.errors import BiaslibError

pytestmark = pytest.mark.filterwarnings("ignore::biaslib.datasets.DatasetWarning")


@pytest.fixture
def copy(released, tmp_path, monkeypatch):
    """A copy of the released folder that a test may damage."""
    shutil.copytree(released / "attention-iou", tmp_path / "attention-iou")
    monkeypatch.setenv("BIASLIB_DATA", str(tmp_path))
    return tmp_path


def test_attributes_are_celebas_in_its_order():
    names = list(published.printed_values()["average_precision"]["attribute"])
    assert names == list(celeba.ATTRIBUTES)
    assert len(names) == 40
    assert names[:2] == ["5_o_Clock_Shadow", "Arched_Eyebrows"]
    assert names[-1] == "Young"
    assert names.index("Male") == 20
    assert set(published.OWN_REGION) < set(names)
    assert len(published.OWN_REGION) == 17
    assert set(published.OWN_REGION.values()) < set(published._REGIONS)


def test_labels_join_the_predictions(released):
    labels = published.annotated_labels().to_numpy()
    assert labels.shape == (4500, 40)
    for backbone, models in (("resnet", 20), ("efficientnet", 10), ("positive", 10), ("negative", 10)):
        predicted = published.predictions(backbone)
        assert predicted.shape == (models, 4500, 40)
        # the generated models are right in nine of ten cases, which a wrong join would never show
        assert (predicted == labels).mean() == pytest.approx(0.9, abs=0.005)


def test_training_images_are_the_first_seventy_percent_and_no_test_images_of_theirs(released):
    index, rows = published._join()
    numbers = celeba.hq_numbers(len(rows), "train")
    expected = celeba.attributes(released).iloc[rows[numbers]].reset_index(drop=True)
    pd.testing.assert_frame_equal(published.annotated_labels("trained on"), expected)
    assert len(expected) == round(0.7 * len(rows))
    parts = celeba.partition(released, 4600)[rows[index]]
    assert published.images_in_celebas_training() == (parts == 0).sum() > 0


def test_predictions_equal_a_general_reader(released):
    path = released / "attention-iou/results/evaluations/evaluations-celeb_all_resnet50_extended_3.csv"
    expected = pd.read_csv(path, header=None).to_numpy() == 1
    np.testing.assert_array_equal(published.predictions("resnet")[3], expected)


def test_heatmap_scores_read_means_then_deviations(released):
    table = published.heatmap_scores("resnet").set_index(["attribute", "group"])
    name = "Heatmap-all_Bald_Male_GradCAM_element_wise_normalized_averaged_scores.csv"
    values = np.loadtxt(released / "attention-iou/results/heatmap" / name)
    assert len(table) == 40 * 5
    assert table.loc[("Bald", "TT"), "mean"] == values[0]
    assert table.loc[("Bald", "FF"), "mean"] == values[3]
    assert tuple(table.loc[("Bald", "all")]) == (values[4], values[9])


def test_mask_scores_are_those_of_all_images(released):
    table = published.mask_scores("efficientnet").set_index(["attribute", "region"])
    name = "Masks-all_Young_Male_GradCAM_element_wise_normalized_averaged_scores.csv"
    values = np.loadtxt(released / "attention-iou/results/efficientnet" / name, delimiter=",")
    assert len(table) == 40 * 14
    assert tuple(table.loc[("Young", "hair")]) == (values[4, 8], values[9, 8])


def test_waterbirds_scores_put_the_bird_second(released):
    table = published.waterbirds_scores("resnet").set_index(["bias", "region"])
    name = "Masks-waterbirds95_GradCAM_element_wise_normalized_averaged_scores.csv"
    values = np.loadtxt(released / "attention-iou/results/waterbirds" / name, delimiter=",")
    assert tuple(table.loc[(95, "bird")]) == (values[1, 2], values[1, 5])
    assert tuple(table.loc[(95, "background")]) == (values[0, 2], values[0, 5])


def test_training_sets_run_from_strong_to_weak_correlation(released):
    for attribute, ends in (("Blond_Hair", (-0.5, -0.1)), ("Wavy_Hair", (-0.51, -0.11))):
        table = published.subgroup_scores(attribute)
        values = table["target_mcc"].unique()
        assert len(values) == 41
        assert (values[0], values[-1]) == ends
        assert (np.diff(values) > 0).all()


def test_remaining_tables_have_their_shapes(released):
    assert published.waterbirds_predictions(90, "resnet").shape == (19, 5794)
    assert published.waterbirds_predictions(100, "efficientnet").shape == (10, 5794)
    assert published.one_sided_scores()["region"].value_counts().max() == 2
    assert published.uniform_bar()["region"].tolist() == list(published._REGIONS)
    assert published.waterbirds_unused_scores()["bias"].tolist() == list(published.BIASES)


def test_printed_values_hold_what_the_paper_quotes():
    printed = published.printed_values()
    precision = printed["normalized_average_precision"].set_index("attribute")["mean"]
    assert precision["Male"] == pytest.approx(0.994, abs=5e-4)
    assert precision["Eyeglasses"] == pytest.approx(0.998, abs=5e-4)
    assert printed["waterbirds_worst_group_accuracy"]["bias"].tolist() == list(published.BIASES)


def test_missing_folder_names_source_licence_and_command(tmp_path, monkeypatch):
    monkeypatch.setenv("BIASLIB_DATA", str(tmp_path))
    with pytest.raises(
        BiaslibError, match=r"results is missing.*github.com/aaronserianni.*MIT.*data fetch attention-iou"
    ):
        published.predictions("resnet")


@pytest.mark.parametrize("broken", ["", "0,1,1\n", "0,1\n" * 4500, "x" * 360_000])
def test_damaged_predictions_are_named(copy, broken):
    path = copy / "attention-iou/results/evaluations/evaluations-celeb_all_resnet50_extended_7.csv"
    path.write_text(broken)
    with pytest.raises(BiaslibError, match=r"extended_7\.csv is damaged \(it is not 4500 lines of 40 zeros and ones\)"):
        published.predictions("resnet")


def test_truncated_predictions_are_named_and_a_missing_last_newline_is_not(copy):
    path = copy / "attention-iou/results/evaluations/evaluations-celeb_all_resnet50_extended_0.csv"
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    assert len(published.predictions("resnet")) == 20
    path.write_bytes(whole[:-2000])
    with pytest.raises(BiaslibError, match=r"extended_0\.csv is damaged"):
        published.predictions("resnet")


def test_damaged_tables_and_index_are_named(copy):
    folder = copy / "attention-iou/results/heatmap"
    table = folder / "Heatmap-all_Bald_Male_GradCAM_element_wise_normalized_averaged_scores.csv"
    whole = table.read_text()
    for broken in (whole[: len(whole) // 2], "no numbers\n"):
        table.write_text(broken)
        with pytest.raises(BiaslibError, match=r"Heatmap-all_Bald.*is damaged"):
            published.heatmap_scores("resnet")
    table.unlink()
    with pytest.raises(BiaslibError, match=r"Heatmap-all_Bald.*is missing"):
        published.heatmap_scores("resnet")
    index = copy / "attention-iou/test_idx_sorted.npy"
    np.save(index, np.arange(10))
    with pytest.raises(BiaslibError, match=r"test_idx_sorted\.npy is damaged \(it is not 4500 row numbers\)"):
        published.annotated_labels()
    index.write_bytes(b"\x93NUMPY")
    with pytest.raises(BiaslibError, match=r"test_idx_sorted\.npy is damaged"):
        published.annotated_labels()


def test_index_is_never_unpickled(copy):
    np.save(copy / "attention-iou/test_idx_sorted.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(BiaslibError, match=r"test_idx_sorted\.npy is damaged"):
        published.annotated_labels()


@pytest.mark.parametrize("side", ["positive", "negative"])
def test_damaged_predictions_of_one_sided_models_are_named(copy, side):
    name = f"evaluations-celeb_all_one-sided-{side}-Eyeglasses_resnet50_extended_4.csv"
    (copy / "attention-iou/results/one_sided/evaluations" / name).write_text("0,1,2\n")
    with pytest.raises(BiaslibError, match=rf"{name} is damaged \(it is not 4500 lines of 40 zeros and ones\)"):
        published.predictions(side)


def test_unknown_bias_and_attribute_are_named(released):
    with pytest.raises(BiaslibError, match="resnet, efficientnet, positive, negative, not 'vit'"):
        published.predictions("vit")
    with pytest.raises(BiaslibError, match="not 85"):
        published.waterbirds_predictions(85, "resnet")
    with pytest.raises(BiaslibError, match="not 'Bald'"):
        published.subgroup_scores("Bald")
