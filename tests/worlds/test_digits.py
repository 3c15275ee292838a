import numpy as np
import pandas as pd
import pytest

from biaslib.errors import BiaslibError
from biaslib.metrics import Labels, bias_amplification
from biaslib.samples import Samples
from biaslib.worlds import digits
from biaslib.worlds.digits import CORNERS, Digits

WORLD = Digits()


def table(**options):
    return WORLD.factors(**{"n": 400, "strength": 0.6, "seed": 0, **options})


@pytest.mark.parametrize("strength", [0.0, 0.2, 0.6, 1.0])
def test_singles_are_balanced_and_the_left_pair_is_skewed(strength):
    found = table(strength=strength)
    white = found[list(CORNERS)].astype(bool)
    for corner in CORNERS:
        assert found["group"][white[corner]].mean() == 0.5
        assert white[corner].mean() == 0.5
    both = white["top_left"] & white["bottom_left"]
    assert found["group"][both].mean() == pytest.approx((1 + strength) / 2, abs=0.011)
    assert found["group"][white["top_left"] & white["top_right"]].mean() == 0.5
    assert found["group"][white["bottom_left"] & white["top_right"]].mean() == 0.5


def test_no_metric_of_single_attributes_can_see_the_pair():
    found = table(strength=1.0)
    labels = Labels(found[list(CORNERS)].to_numpy(), found["group"].to_numpy().astype(int))
    said = Labels(np.roll(labels.attributes, 1, axis=0), labels.groups)
    singles = bias_amplification(labels, labels, said, max_size=1).mean
    assert singles == 0
    assert bias_amplification(labels, labels, said, min_size=2).mean > 0


def test_the_cue_agrees_with_the_target_as_often_as_the_strength_says_beside_the_other_corner():
    for strength in (0.0, 0.5, 1.0):
        found = table(n=2000, strength=strength)
        matched = found["top_left"] == found[WORLD.cue]
        assert (matched == found[WORLD.target]).mean() == pytest.approx((1 + strength) / 2, abs=0.005)


def test_groups_are_five_classes_each_and_the_assignment_draws_them():
    found = table()
    assert sorted(found["digit"][found["group"]].unique()) == list(WORLD.group_one)
    assert sorted(found["digit"].unique()) == list(range(10))
    assert found["digit"].value_counts().tolist() == [40] * 10
    groups = {Digits(i).group_one for i in range(5)}
    assert len(groups) == 5
    assert all(len(group) == 5 for group in groups)


def test_training_and_test_share_no_scan():
    train, test = (set(table(n=3000, split=split)["scan"]) for split in ("train", "test"))
    assert not train & test
    assert len(train) + len(test) == len(WORLD.scans.digits) == 1797
    found = table()
    assert (WORLD.scans.digits[found["scan"]] == found["digit"]).all()


def test_the_strength_changes_corners_only_and_blur_its_own_column():
    plain = table()
    assert plain.drop(columns=list(CORNERS)).equals(table(strength=0.1).drop(columns=list(CORNERS)))
    assert plain.drop(columns="blur").equals(table(blur=5.0).drop(columns="blur"))


@pytest.mark.parametrize("corner", CORNERS)
@pytest.mark.parametrize("size", [28, 41])
def test_a_flipped_corner_changes_that_corner_and_no_other_pixel(corner, size):
    factors = table(n=24, blur=5.0)
    before = WORLD.render(factors, size=size)
    after = WORLD.render(factors.assign(**{corner: 1 - factors[corner]}), size=size)
    changed = (before.images != after.images).any(axis=-1)
    np.testing.assert_array_equal(changed, before.masks[corner])
    side = round(3 * size / 28)
    assert (before.masks[corner].sum(axis=(1, 2)) == side**2).all()


def test_the_corners_show_their_labels():
    factors = table(n=60)
    drawn = WORLD.render(factors)
    for corner in CORNERS:
        tone = drawn.images[drawn.masks[corner]].reshape(60, -1)
        assert (tone == 255 * factors[corner].to_numpy().astype(int)[:, None]).all()
        np.testing.assert_array_equal(drawn.labels[corner], factors[corner].astype(bool))


def test_blur_keeps_the_digits_weight_and_takes_its_edges():
    factors = table(n=50)
    sharp, blurred = (WORLD.render(factors.assign(blur=blur)) for blur in (0.0, 2.0))
    inside = sharp.masks["digit"]
    assert blurred.images[inside].mean() == pytest.approx(sharp.images[inside].mean(), rel=0.08)
    edges = [np.abs(np.diff(part.images[:, 4:-4, 4:-4, 0].astype(int), axis=2)).mean() for part in (sharp, blurred)]
    assert edges[1] < 0.7 * edges[0]


def test_corners_that_lean_have_their_shares():
    shares = (0.55, 0.7, 0.9)
    found = WORLD.skewed(2000, shares=shares, seed=1)
    for corner, share in zip(CORNERS, shares, strict=True):
        assert found["group"][found[corner] == 1].mean() == pytest.approx(share, abs=1e-9)
    given = found[found["group"]]
    assert np.corrcoef(given["top_left"], given["bottom_left"])[0, 1] == pytest.approx(0, abs=0.08)


def test_other_scans_take_the_place_of_the_small_ones():
    def some(n):
        pages = np.zeros((n, 28, 28, 3), np.uint8)
        pages[:, 10:18, 10:18] = (20 * (np.arange(n) % 10) + 20)[:, None, None, None]
        return Samples(pages, pd.DataFrame({"digit": np.arange(n) % 10}))

    world = Digits(scans=digits.scans_of(some(40), some(20)), corner=1)
    factors = world.factors(30, strength=0.0, seed=0, split="test")
    assert factors["scan"].between(40, 59).all()
    drawn = world.render(factors)
    np.testing.assert_array_equal(drawn.images[:, 14, 14, 0], 20 * factors["digit"].astype(int) + 20)
    assert drawn.masks["top_left"].sum() == 30
    with pytest.raises(BiaslibError, match="all of 0 to 9"):
        digits.scans_of(some(40), some(9))
    with pytest.raises(BiaslibError, match="load both at one size"):
        digits.scans_of(some(40), Samples(np.zeros((1, 8, 8, 3), np.uint8), pd.DataFrame({"digit": [0]})))


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: Digits(-1), "assignment must be a whole number of at least 0, not -1"),
        (
            lambda: Digits(corner=5),
            r"corner, .* must be a whole number in \[1, 4\], not 5",
        ),
        (lambda: table(split="val"), "split must be one of train, test, not 'val'"),
        (lambda: table(blur=-1), r"blur, in pixels, must be a number in \[0, 100\], not -1"),
        (lambda: WORLD.skewed(10, shares=(0.5, 0.5), seed=0), r"one number in \[0, 1\] for each of top_left"),
        (lambda: WORLD.skewed(10, shares=(0.5, 0.5, 1.5), seed=0), r"one number in \[0, 1\] for each"),
        (lambda: WORLD.render(table(n=4).assign(scan=1797)), r"factor 'scan' must be a whole number in \[0, 1796\]"),
        (lambda: WORLD.render(table(n=4).drop(columns="blur")), "lacks the factor blur"),
    ],
)
def test_bad_arguments_are_named(call, sentence):
    with pytest.raises(BiaslibError, match=sentence):
        call()
