"""DPA and leakage by tables: the package's values, where its attackers converge, and where they do not."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from bias_amplification.attacker_models.ANN import simpleDenseModel
from bias_amplification.metrics.PredMetrics import DPA, Leakage

from biaslib.metrics import Labels, predictability_amplification
from biaslib.store.files import module_of

predictability = module_of(Path(__file__).parents[2] / "data" / "submissions" / "biaslib" / "predictability.py")
# by cue and target: images of each group as in training, as balanced, and in how many of ten the target is said
TIED, EVEN = np.array([[800, 200], [200, 800]]), np.full((2, 2), 500)
BIASED, FAIR = np.array([[0.1, 0.6], [0.4, 0.9]]), np.array([[0.2, 0.8], [0.2, 0.8]])


def images(counts, rates):
    """Cue, target and answer of so many images, at exactly these rates."""
    groups = np.repeat(np.arange(4), counts.ravel())
    place = np.concatenate([np.arange(n) / n for n in counts.ravel()])
    return groups // 2, groups % 2 == 1, place < rates.ravel()[groups] - 1e-9


def case(rates, trained=TIED):
    cue, truth, answer = images(EVEN, rates)
    train_cue, target, _ = images(trained, rates)
    return SimpleNamespace(cue=cue == 1, truth=truth, answer=answer, train=Labels(target[:, None], train_cue))


def package(seed=0, **options):
    torch.manual_seed(seed)
    attackers = [simpleDenseModel(1, 1, 1, numFirst=1, activations=["sigmoid"]) for _ in range(2)]
    trained = {"learning_rate": 0.3, "loss_function": "bce", "epochs": 12, "batch_size": 1000}
    return DPA(*attackers, trained, **options)


def asked(metric, columns, trials=3):
    columns = [torch.tensor(values[:, None], dtype=torch.float32) for values in columns]
    tested = dict(zip(("feat_test", "data_test", "pred_test"), columns, strict=True))
    return tuple(map(float, metric.computeBiasAmp(*columns, mode="AtoT", num_trials=trials, **tested).split(" ± ")))


@pytest.mark.parametrize("rates", [BIASED, FAIR])
def test_as_in_training_it_is_the_packages_value_for_images_mixed_like_that(rates):
    mean, sd = asked(package(eval_metric="accuracy"), images(TIED, rates))
    assert sd < 0.01
    value = predictability.as_in_training(case(rates))
    assert mean == pytest.approx(value, abs=4 * sd / np.sqrt(3) + 1e-4)
    assert value == pytest.approx(predictability_amplification(*images(TIED, rates)).value, abs=1e-3)
    assert (value > 0.02) == (rates is BIASED)


def test_on_balanced_images_it_is_the_packages_value_too():
    given = case(BIASED)
    value = predictability.balanced(given)
    mean, sd = asked(package(eval_metric="accuracy"), (given.cue, given.truth, given.answer))
    # where labels are balanced its attacker says either answer for either cue, and is no table
    assert mean == pytest.approx(value, abs=0.02 + 4 * sd)
    assert value > 0.1
    assert predictability.balanced(case(FAIR)) == pytest.approx(0, abs=1e-2)


@pytest.mark.parametrize("rates", [BIASED, FAIR])
def test_leakage_is_what_the_packages_attackers_find_that_guess_the_cue(rates):
    """As in the paper; the package's own classes only guess answers, so its training is called the other way round."""
    given = case(rates)
    torch.manual_seed(0)
    cue, truth, answer = (
        torch.tensor(each[:, None], dtype=torch.float32) for each in (given.cue, given.truth, given.answer)
    )
    trained = {"learning_rate": 0.3, "loss_function": "bce", "epochs": 12, "batch_size": 1000}
    metric = Leakage(simpleDenseModel(1, 1, 1, numFirst=1, activations=["sigmoid"]), trained, eval_metric="accuracy")
    turned = metric.permuteData(truth, (truth == answer).float().mean(), None)
    qualities = []
    for name, told in (("D", turned), ("M", answer)):
        metric.train(told, cue, name)
        qualities.append(float(metric.calcLambda(getattr(metric, f"attacker_{name}"), told, cue)))
    # labels say nothing about the cue here: which of two equal guesses its attacker takes is chance
    assert qualities[0] == pytest.approx(0.5, abs=0.03)
    assert qualities[1] - 0.5 == pytest.approx(predictability.leakage(given), abs=1e-4)
    assert (predictability.leakage(given) > 0.1) == (rates is BIASED)


def test_leakage_by_hand():
    cue, truth = np.array([1, 1, 1, 1, 0, 0, 0, 0]) == 1, np.array([1, 1, 1, 0, 1, 0, 0, 0]) == 1
    told = SimpleNamespace(cue=cue, truth=truth, answer=cue)
    # the answers tell the cue always; the labels in 3 of 4, and after a quarter of them turned in 5 of 8
    assert predictability.leakage(told) == pytest.approx(1 - 5 / 8)
    told.answer = truth
    assert predictability.leakage(told) == 0.0


def test_leakage_does_not_need_a_frequent_target_and_dpa_does():
    rare = SimpleNamespace(cue=np.repeat([True, False], 100), truth=np.tile(np.arange(100) < 15, 2))
    rare.answer = rare.truth | (rare.cue & (np.tile(np.arange(100), 2) < 40))
    assert predictability.leakage(rare) > 0.1
    assert predictability.balanced(rare) < 0.05


def test_by_hand():
    # of a tenth of the images, all without the usual label, the answer is the usual one
    shares, said = np.array([[0.45, 0.05], [0.05, 0.45]]), np.array([[0.0, 0.0], [1.0, 1.0]])
    model, labels = 1.0, 0.9 * 0.9 + 0.1 * 0.1
    assert predictability.amplification(shares, said) == pytest.approx((model - labels) / (model + labels))
    right = np.array([[0.0, 1.0], [0.0, 1.0]])
    assert predictability.amplification(shares, right) == 0.0


def test_nothing_is_left_to_amplify_where_the_cue_foretells_the_labels():
    only = case(BIASED, trained=np.array([[1000, 0], [0, 1000]]))
    assert predictability.as_in_training(only) == pytest.approx(0, abs=1e-12)
    assert predictability.balanced(only) > 0.1


def test_the_package_is_another_number_with_another_seed_and_trains_the_given_attacker():
    columns = images(TIED // 10, BIASED)
    metric = package(eval_metric="accuracy")
    given = metric.model_params["attacker_AtoT"]
    before = given.layer_0.weight.detach().clone()
    first = asked(metric, columns, trials=2)
    assert not torch.equal(before, given.layer_0.weight)  # where the next trial goes on from
    assert first != asked(package(seed=1, eval_metric="accuracy"), columns, trials=2)


def test_the_packages_own_choice_of_quality_is_undefined_for_attackers_that_are_right():
    cue, target, _ = images(np.array([[500, 0], [0, 500]]), BIASED)
    assert np.isnan(asked(package(), (cue, target, target), trials=2)[0])
    shares = np.array([[0.5, 0], [0, 0.5]])
    assert predictability.amplification(shares, np.array([[0, np.nan], [np.nan, 1]])) == 0.0


def test_two_examples_of_the_packages_readme_stop():
    columns = [torch.tensor(values[:, None], dtype=torch.float32) for values in images(TIED // 100, BIASED)]
    with pytest.raises(TypeError, match="model_acc"):
        Leakage(simpleDenseModel(1, 1, 1, numFirst=1, activations=["sigmoid"]), {}, model_acc=0.8)
    cue, target, answer = columns
    with pytest.raises(TypeError):
        package().computeBiasAmpBidirectional(cue, target, cue, answer)


def test_undefined_where_a_group_was_not_tested_or_the_target_is_not_said():
    some = case(BIASED)
    rows = some.cue | some.truth
    for name in ("cue", "truth", "answer"):
        setattr(some, name, getattr(some, name)[rows])
    assert np.isnan(predictability.as_in_training(some))
    several = case(BIASED)
    several.train = Labels(np.repeat(several.train.attributes, 2, axis=1), several.train.groups)
    assert np.isnan(predictability.as_in_training(several))
    one = case(BIASED, trained=np.array([[0, 0], [500, 500]]))
    assert np.isnan(predictability.as_in_training(one))
    one.cue = np.ones_like(one.cue)
    assert np.isnan(predictability.balanced(one))
    assert np.isnan(predictability.leakage(one))
