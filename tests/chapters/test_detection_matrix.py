import pandas as pd

from tests.of_pages import functions


def test_the_matrix_has_a_row_for_every_metric_that_was_measured():
    powers = pd.DataFrame(
        [("birds", "Accuracy gap", s, 1000, 1, s) for s in (0.5, 1.0)],
        columns=["world", "metric", "strength", "images", "models", "power"],
    )
    false_positives = pd.DataFrame(
        [("birds", "Accuracy gap", 10, 1)], columns=["world", "metric", "audits", "false_positives"]
    )
    effects = pd.DataFrame([("birds", s, s**2) for s in (0.0, 0.5, 1.0)], columns=["world", "strength", "effect"])
    of_page = functions("dial", TRUTH="truth", GAP=0.9, LEFT=0.42, HEAD=6.0, ROW=0.03)
    (axes,) = of_page["detection_matrix"](powers, false_positives, effects, images=1000).axes
    words = [text.get_text() for text in axes.texts]
    assert {"truth", "Accuracy gap", "birds", "0", "1"} <= set(words)
    assert "Heatmap score" not in words
    pale, filled = axes.collections
    # three truths, one false positive rate, two powers
    assert len(filled.get_paths()) == len(pale.get_paths()) == 6
    assert [round(float(colour[3]), 2) for colour in filled.get_facecolor()] == [0, 0.25, 1, 0.1, 0.5, 1]
