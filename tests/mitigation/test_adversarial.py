import numpy as np
import pandas as pd
import pytest
import torch
from torch.nn.functional import binary_cross_entropy_with_logits

from biaslib import training
from biaslib.errors import BiaslibError
from biaslib.mitigation import Adversarial
from biaslib.mitigation.objectives import AdversarialLoss, _reversed
from biaslib.models import to_tensor
from biaslib.samples import Samples
from biaslib.training import TrainingConfig


def patches(n, seed):
    """Two attributes in the upper quarters; the group tints the lower half and says nothing of them."""
    rng = np.random.default_rng(seed)
    labels = pd.DataFrame(
        {"a": rng.integers(2, size=n), "b": rng.integers(2, size=n), "group": rng.integers(2, size=n)}
    )
    images = rng.integers(0, 90, (n, 16, 16, 3))
    images[:, :8, :8] += 40 * labels["a"].to_numpy()[:, None, None, None]
    images[:, :8, 8:] += 40 * labels["b"].to_numpy()[:, None, None, None]
    images[:, 8:, :, 0] += 160 * labels["group"].to_numpy()[:, None, None]
    return Samples(images.astype(np.uint8), labels)


def test_the_gradient_is_reversed_and_the_values_are_kept():
    values = torch.tensor([1.0, -2.0], requires_grad=True)
    passed = _reversed(values, 3.0)
    assert passed.tolist() == [1.0, -2.0]
    (passed * torch.tensor([1.0, 10.0])).sum().backward()
    assert values.grad.tolist() == [-3.0, -30.0]


def loss_of(weight, seed=0):
    torch.manual_seed(seed)
    return AdversarialLoss(4, 2, weight=weight, hidden=8, class_weight=torch.ones(2))


def test_the_adversary_descends_while_the_features_climb_its_loss():
    generator = torch.Generator().manual_seed(1)
    group = torch.arange(32) % 2
    targets = torch.stack([group.float(), group.float()], 1)
    maps = torch.randn(32, 4, 1, 1, generator=generator)
    maps[:, 0] += 3 * group[:, None, None]  # in plain sight, so that the adversary is soon better than guessing
    loss = loss_of(weight=2.0)
    optimiser = torch.optim.Adam(loss.parameters(), lr=0.05)
    for _ in range(60):
        optimiser.zero_grad()
        loss(torch.zeros(32, 1), targets, maps).backward()
        optimiser.step()
    assert loss._adversary_loss(maps.mean((2, 3)), group).item() < 0.2
    maps.requires_grad_()
    loss(torch.zeros(32, 1), targets, maps).backward()
    climbed = loss._adversary_loss((maps + 0.01 * -maps.grad.sign()).mean((2, 3)), group)
    assert climbed > loss._adversary_loss(maps.mean((2, 3)), group)


def test_features_are_left_alone_while_the_adversary_guesses():
    targets = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    maps = torch.randn(2, 4, 1, 1, generator=torch.Generator().manual_seed(0)).requires_grad_()
    loss = loss_of(weight=2.0)
    last = loss.adversary[-1]
    torch.nn.init.zeros_(last.weight)
    torch.nn.init.zeros_(last.bias)
    with torch.no_grad():
        last.bias += torch.tensor([1e-3, -1e-3])  # no better than guessing on a balanced pair
    loss(torch.zeros(2, 1), targets, maps).backward()
    assert not maps.grad.any()


def test_without_maps_it_is_the_attributes_loss():
    targets = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    logits = torch.tensor([[0.3], [-2.0]])
    expected = binary_cross_entropy_with_logits(logits, targets[:, :1])
    torch.testing.assert_close(loss_of(2.0)(logits, targets, None), expected)


@pytest.mark.slow
def test_worked_against_the_adversary_does_little_better_than_chance(monkeypatch):
    train, test = patches(1000, seed=0), patches(1000, seed=1)
    kept = []
    build = Adversarial.criterion
    monkeypatch.setattr(Adversarial, "criterion", lambda *a: kept.append(build(*a)) or kept[-1])
    config = TrainingConfig(
        outputs=2, epochs=12, batch=32, learning_rate=2e-3, augmentation=(), precision="float32", seed=0
    )

    def accuracies(weight):
        objective = Adversarial(attributes=2, groups=2, weight=weight)
        model = training.fit(train, train.labels.to_numpy(), config, objective=objective)
        right = (training.predict(model, test.images) > 0) == test.labels[["a", "b"]]
        with torch.inference_mode():
            features = model.forward_features(to_tensor(test.images)).mean((2, 3))
            guess = kept[-1].eval().adversary(features).argmax(1).numpy()
        return (guess == test.labels["group"]).mean(), right.to_numpy().mean()

    onlooker, _ = accuracies(weight=0.0)
    opponent, right = accuracies(weight=2.0)
    assert onlooker > 0.7
    assert opponent < 0.6
    assert right > 0.95


def test_bad_input_is_one_sentence():
    with pytest.raises(BiaslibError, match="0 or more, not -1"):
        Adversarial(attributes=2, groups=2, weight=-1)
    objective = Adversarial(attributes=1, groups=2)
    with pytest.raises(BiaslibError, match="does not have"):
        objective.criterion(objective.checked(np.array([[1, 0], [0, 1]])), torch.zeros(1, 5, 4))
    with pytest.raises(BiaslibError, match="batches of at least 2"):
        loss_of(1.0)(torch.zeros(1, 1), torch.zeros(1, 2), torch.zeros(1, 4, 2, 2))
