import pytest

from biaslib.book import pages


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("the sum $\\sum_i a_i$ of all", "the sum :math:`\\sum_i a_i` of all"),
        ("the $AP_N$", "the :math:`AP_N`"),
        ("so $$a = b$$\n", "so :math:`a = b`\n"),
        ("over $a +\n    b$ lines", "over :math:`a + b` lines"),
        ("number of sets, |M|", "number of sets, \\|M\\|"),
        ("takes `int | None` or ``a | b``", "takes `int | None` or ``a | b``"),
        ("$BIASLIB_DATA, else $BIASLIB_STORE, and $x$", "$BIASLIB_DATA, else $BIASLIB_STORE, and :math:`x`"),
    ],
)
def test_formulas_and_bars_read_as_they_are_meant(written, read):
    assert pages.readable(written) == read
