from biaslib.attribution import METHODS
from biaslib.chapters.papers import perturbation
from biaslib.chapters.perturbation import RANDOM


def test_cells_of_tables_3_and_5_read_off_the_page():
    table = perturbation.aopc().set_index(["use_case", "network", "trained", "method", "classes"])["aopc"]
    assert table["pets", "EfficientNet", "biased", "Integrated gradients", "Cat"] == 0.72
    assert table["pets", "MobileNet", "biased", "Score-CAM", "Dog"] == 0.13
    assert table["pets", "EfficientNet", "unbiased", "Grad-CAM", "Dog"] == 0.35
    assert table["pets", "MobileNet", "unbiased", "Random", "all"] == 0.17
    assert table["fruits", "EfficientNet", "biased", "ε-LRP", "Apple"] == 0.03
    assert table["fruits", "MobileNet", "unbiased", "Integrated gradients", "Apple"] == 0.85
    assert table["fruits", "MobileNet", "unbiased", "Score-CAM", "Rest"] == 0.53


def test_every_cell_is_there_under_the_words_of_the_page():
    table = perturbation.aopc()
    assert len(table) == 2 * 4 * 9
    assert set(table["method"]) == {*METHODS, RANDOM}
    assert table.groupby("use_case")["classes"].unique().map(set).to_dict() == {
        "pets": {"Cat", "Dog", "all"},
        "fruits": {"Apple", "Rest", "all"},
    }
    assert table["aopc"].between(0, 1).all()
    assert not table.duplicated(["use_case", "network", "trained", "method", "classes"]).any()
