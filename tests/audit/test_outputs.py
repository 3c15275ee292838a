"""How a model's outputs become a yes or a no."""

import pytest
import torch

from biaslib.audit.model import class_numbers, model_under_audit, read_as
from biaslib.errors import BiaslibError
from tests.audit.subjects import PLAIN, Spots

LOGITS = torch.tensor([[2.0, 1.0, 3.0, -1.0], [0.5, 4.0, 3.0, 1.0], [-3.0, -1.0, -2.0, -4.0]])


def test_one_output_two_classes_and_outputs_with_questions_of_their_own():
    assert read_as(1)(LOGITS[:, 0]).tolist() == [[2.0], [0.5], [-3.0]]
    assert read_as(1, threshold=0.5)(LOGITS[:, :1]).tolist() == [[1.5], [0.0], [-3.5]]
    assert read_as(2)(LOGITS[:, :2]).tolist() == [[-1.0], [3.5], [2.0]]
    both = read_as(4, output=2, groups=[0], threshold=1.0)
    assert both(LOGITS).tolist() == [[2.0, 1.0], [2.0, -0.5], [-3.0, -4.0]]


def test_a_class_is_a_yes_only_where_it_is_the_largest():
    # every logit of the first two rows is above 0 for class 2, and it wins in the first alone
    assert read_as(4, yes=[2])(LOGITS).ravel().tolist() == [1.0, -1.0, -1.0]
    # a class below 0 can win
    assert (read_as(4, yes=[1])(LOGITS) > 0).ravel().tolist() == [False, True, True]
    assert (read_as(4, yes=[0, 2])(LOGITS) > 0).ravel().tolist() == [True, False, False]
    # only the classes that are named compete
    assert (read_as(4, yes=[2], no=[0, 3])(LOGITS) > 0).ravel().tolist() == [True, True, True]
    assert read_as(4, yes=[1]).words() == "yes where the largest of the outputs 1 is above the largest of 0, 2 to 3"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, r"has 4 outputs: name the classes that mean yes"),
        ({"output": 2}, r"Output 2 is one of 4: name it as a class .* or give its threshold"),
        ({"output": 4, "threshold": 0.0}, r"There is no output 4: the model has 4"),
        ({"yes": [4]}, r"There is no output 4"),
        ({"yes": [1], "no": [0, 1]}, r"Class 1 means yes and no at once"),
        ({"no": [1]}, r"classes that mean no and none that mean yes"),
        ({"yes": [0, 1, 2, 3]}, r"All 4 classes mean yes"),
        ({"yes": [1], "threshold": 0.5}, r"without an output, outputs for groups and a threshold"),
        ({"yes": [1], "output": 1}, r"without an output, outputs for groups and a threshold"),
        ({"groups": [1]}, r"need the output of the target named"),
    ],
)
def test_what_is_not_clear_is_refused(given, said):
    with pytest.raises(BiaslibError, match=said):
        read_as(4, **given)


def test_a_threshold_of_two_classes_is_refused():
    with pytest.raises(BiaslibError, match="Two outputs are read as two classes"):
        read_as(2, threshold=0.5)


def test_numbers_and_ranges():
    assert class_numbers("281-285, 290") == [281, 282, 283, 284, 285, 290]
    for wrong in ("", "a", "3-1", "1,1", "1-", "-1", "1-2-3"):
        with pytest.raises(BiaslibError, match="Classes are"):
            class_numbers(wrong)


def test_one_output_of_many_is_never_read_above_zero_unless_that_is_said():
    many = Spots(1.0, 1.0, outputs=5)
    with pytest.raises(BiaslibError, match="Output 3 is one of 5"):
        model_under_audit(many, output=3, preprocessing=PLAIN)
    assert model_under_audit(many, yes=[3], preprocessing=PLAIN).described["answer"].startswith("yes where the largest")
    assert model_under_audit(many, output=3, threshold=0.0, preprocessing=PLAIN).described["answer"].endswith("above 0")
