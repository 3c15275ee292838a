import numpy as np
import pytest
import torch
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from biaslib.errors import BiaslibError
from biaslib.training.objectives import Binary, CrossEntropy, Joint

MAPS = torch.zeros(1, 4, 2, 2)


def test_joint_is_the_mean_over_all_targets():
    targets = np.array([[1, 0, 2], [0, 1, 0], [1, 1, 1]])
    logits = torch.randn(3, 5, generator=torch.Generator().manual_seed(0))
    objective = Joint(attributes=2, groups=3)
    checked = objective.checked(targets)
    loss = objective.criterion(checked, MAPS)(logits, checked, None)
    attributes = binary_cross_entropy_with_logits(logits[:, :2], torch.tensor(targets[:, :2]).float())
    assert objective.outputs == 5
    torch.testing.assert_close(loss, (2 * attributes + cross_entropy(logits[:, 2:], torch.tensor([2, 0, 1]))) / 3)


def test_balanced_losses_weigh_rare_answers_by_hand():
    classes = CrossEntropy(outputs=2)
    targets = classes.checked(np.array([0, 0, 0, 1]))
    assert classes.criterion(targets, MAPS).loss.weight.tolist() == pytest.approx([2 / 3, 2])
    binary = Binary(outputs=1)
    targets = binary.checked(np.array([[1], [0], [0], [0]]))
    assert binary.criterion(targets, MAPS).loss.pos_weight.tolist() == [3]
    assert Binary(outputs=1, balanced=False).criterion(targets, MAPS).loss.pos_weight is None


@pytest.mark.parametrize(
    ("targets", "sentence"),
    [
        (np.zeros((4, 2), int), "must be .N, 3. whole numbers, 2 attributes and the group"),
        (np.zeros((4, 3)), "not float64"),
        (np.array([[2, 0, 0]]), "attributes must be 0 or 1"),
        (np.array([[1, 0, 3]]), "from 3 to 3 but the model has 3 outputs"),
        (np.array([[1, 0, 0], [1, 1, 0]]), "column 0 has one value only"),
        (np.array([[1, 0, 0], [0, 1, 2]]), "no training image is of group 1"),
    ],
)
def test_targets_that_do_not_fit_are_refused(targets, sentence):
    objective = Joint(attributes=2, groups=3)
    with pytest.raises(BiaslibError, match=sentence):
        objective.criterion(objective.checked(targets), MAPS)


def test_classes_are_no_binary_targets():
    with pytest.raises(BiaslibError, match="0 and 1 only"):
        Binary(outputs=1).checked(np.array([[0], [3], [2], [1]]))
