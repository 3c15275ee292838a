"""Squares of the right colour, strength and words."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_rgb

from biaslib import figures
from biaslib.errors import BiaslibError


@pytest.fixture
def frame():
    return pd.DataFrame([[1.0, -0.5], [0.0, np.nan]], index=["hat", "glasses"], columns=["smile", "skin"])


def squares(figure):
    return figure.axes[0].collections[0]


def test_sign_is_the_colour_and_size_the_strength(frame):
    hues = squares(figures.matrix(frame)).get_facecolors()
    assert len(hues) == 3  # the undefined one is empty
    np.testing.assert_allclose(hues[0], (*to_rgb(figures.COLOURS["vermillion"]), 1.0))
    np.testing.assert_allclose(hues[1], (*to_rgb(figures.COLOURS["blue"]), 0.5))
    assert hues[2, 3] == 0


def test_a_limit_makes_matrices_comparable(frame):
    assert squares(figures.matrix(frame, limit=2.0)).get_facecolors()[:, 3].tolist() == [0.5, 0.25, 0.0]
    assert squares(figures.matrix(frame, limit=0.25)).get_facecolors()[:, 3].tolist() == [1.0, 1.0, 0.0]


def test_every_square_says_its_pair_and_number(frame):
    page = figures.show(figures.matrix(frame, digits=1), alt="a").html
    for text in ("hat, smile: 1.0", "hat, skin: −0.5", "glasses, smile: 0.0"):
        assert f"<title>{text}</title>" in page
    assert "nan" not in page


def test_numbers_are_written_where_asked_for(frame):
    written = [text.get_text() for text in figures.matrix(frame, numbers=True).axes[0].texts]
    assert written == ["1.00", "−0.50", "0.00"]
    assert not figures.matrix(frame).axes[0].texts


def test_all_zero_and_all_undefined_are_drawn(frame):
    assert squares(figures.matrix(frame * 0)).get_facecolors()[:, 3].tolist() == [0, 0, 0]
    assert "<svg" in figures.show(figures.matrix(frame * np.nan), alt="a").html


def test_nothing_and_words_are_refused(frame):
    with pytest.raises(BiaslibError, match="at least one row"):
        figures.matrix(frame[:0])
    with pytest.raises(BiaslibError, match="the matrix"):
        figures.matrix(frame.astype(object).assign(smile="a"))
