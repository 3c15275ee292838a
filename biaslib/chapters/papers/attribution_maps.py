"""The tables that Schaaf et al. (2021) print about models with a planted bias and about where they look."""

from typing import Final

import pandas as pd

# Table 1. Rows: use case and test images; columns: network and the images it was trained on.
_ACCURACY: Final = {
    ("pets", "biased"): (0.99, 0.97, 0.97, 0.86),
    ("pets", "unbiased"): (0.74, 0.97, 0.80, 0.89),
    ("fruits", "biased"): (0.97, 0.82, 0.98, 0.95),
    ("fruits", "unbiased"): (0.77, 0.90, 0.77, 0.96),
}
_NETWORKS: Final = (
    ("EfficientNet", "biased"),
    ("EfficientNet", "unbiased"),
    ("MobileNet", "biased"),
    ("MobileNet", "unbiased"),
)
# Tables 2 and 4, in the order of their columns.
_PETS_METHODS: Final = ("Grad-CAM", "ε-LRP", "Integrated gradients", "Score-CAM")
_PETS: Final = {
    ("EfficientNet", "rma"): ((0.00, 0.00, 0.00, 0.00), (0.30, 0.33, 0.07, 0.17), (0.00, 0.00, 0.00, 0.00)),
    ("EfficientNet", "rra"): ((0.00, 0.00, 0.06, 0.00), (0.00, 0.89, 0.48, 0.83), (0.00, 0.00, 0.00, 0.00)),
    ("MobileNet", "rma"): ((0.00, 0.00, 0.01, 0.00), (0.00, 0.07, 0.02, 0.33), (0.00, 0.00, 0.00, 0.00)),
    ("MobileNet", "rra"): ((0.00, 0.29, 0.91, 0.00), (0.00, 0.47, 0.04, 0.61), (0.00, 0.00, 0.00, 0.00)),
}
_FRUITS: Final = {
    ("EfficientNet", "Grad-CAM"): (0.00, 0.07, 0.00, 0.00, 0.48, 0.00, 0.00, 0.00, 0.00, 0.00),
    ("EfficientNet", "ε-LRP"): (0.00, 0.00, 0.12, 0.71, 0.95, 0.90, 0.12, 0.93, 0.52, 0.14),
    ("EfficientNet", "Integrated gradients"): (0.00, 0.00, 0.06, 0.02, 0.25, 0.25, 0.82, 0.98, 0.34, 0.10),
    ("EfficientNet", "Score-CAM"): (0.00, 0.00, 0.00, 0.50, 0.00, 0.16, 0.00, 0.00, 0.00, 0.00),
    ("MobileNet", "Grad-CAM"): (0.00, 0.04, 0.13, 0.00, 0.30, 0.00, 0.13, 0.00, 0.94, 0.00),
    ("MobileNet", "ε-LRP"): (0.00, 0.00, 0.66, 0.41, 0.46, 0.44, 0.11, 0.21, 0.02, 0.07),
    ("MobileNet", "Integrated gradients"): (0.00, 0.00, 0.09, 0.01, 0.90, 0.45, 0.16, 0.84, 0.33, 0.00),
    ("MobileNet", "Score-CAM"): (0.00, 0.00, 0.56, 0.14, 0.03, 0.01, 0.01, 0.34, 0.09, 0.00),
}

LEVEL: Final = 0.05  # section 4.2: the null hypothesis is rejected where p <= 0.05
# Images of one object, which is what a test of Tables 2 and 4 is about: half of 288 validation images, a fifth of 810
# test images. The paper leaves out those that a network is wrong about, and does not say how many they are.
IMAGES_A_TEST: Final = {"pets": 288 // 2, "fruits": 810 // 5}


def accuracies() -> pd.DataFrame:
    """Table 1: columns use_case, network, trained and tested ("biased" or "unbiased" images), accuracy in [0, 1]."""
    rows = [
        (use_case, network, trained, tested, accuracy)
        for (use_case, tested), line in _ACCURACY.items()
        for (network, trained), accuracy in zip(_NETWORKS, line, strict=True)
    ]
    return pd.DataFrame(rows, columns=["use_case", "network", "trained", "tested", "accuracy"])


def family(network: str) -> str | None:
    """The paper's network ("EfficientNet" or "MobileNet") that a network is named after, or None."""
    return next((name for name in ("EfficientNet", "MobileNet") if name.lower() in network.lower()), None)


def p_values() -> pd.DataFrame:
    """Tables 2 and 4: p of Welch's test between one biased and one unbiased network, two decimals, not corrected.

    Returns:
        Columns use_case, network, object, method, measure ("rma" or "rra") and p; 0.00 stands for p < 0.005.
    """
    rows = [
        ("pets", network, object_, method, measure, p)
        for (network, measure), blocks in _PETS.items()
        for object_, block in zip(("Cat", "Dog", "Ball"), blocks, strict=True)
        for method, p in zip(_PETS_METHODS, block, strict=True)
    ]
    fruits = [
        (name, measure) for name in ("Apple", "Banana", "Corn", "Peach", "Pineapple") for measure in ("rma", "rra")
    ]
    rows += [
        ("fruits", network, object_, method, measure, p)
        for (network, method), line in _FRUITS.items()
        for (object_, measure), p in zip(fruits, line, strict=True)
    ]
    return pd.DataFrame(rows, columns=["use_case", "network", "object", "method", "measure", "p"])


def not_rejected(object_: str, measure: str) -> tuple[int, int]:
    """In how many of the paper's tests of an object the change is not significant, and how many tests there are.

    Args:
        object_: such as "Cat" or "Apple".
        measure: "rma" or "rra".

    Returns:
        Tests with p above `LEVEL`, and all tests: two networks by four methods. Both are 0 for an unknown object.
    """
    table = p_values()
    p = table[(table["object"] == object_) & (table["measure"] == measure)]["p"]
    return int((p > LEVEL).sum()), len(p)
