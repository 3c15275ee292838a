"""AOPC as Schaaf et al. (2021) print it: one network a cell, correct predictions only, no intervals."""

from typing import Final

import pandas as pd

_NETWORKS: Final = ("EfficientNet", "MobileNet")
_METHODS: Final = ("Grad-CAM", "ε-LRP", "Integrated gradients", "Score-CAM", "Random")
# classes side by side for each method, one value for the random order: rows biased EfficientNet, biased MobileNet,
# unbiased EfficientNet, unbiased MobileNet
_PETS: Final = """
0.12 0.01 0.67 0.00 0.72 0.00 0.11 0.01 0.04
0.07 0.14 0.29 0.14 0.35 0.15 0.07 0.13 0.10
0.02 0.35 0.05 0.20 0.04 0.18 0.00 0.36 0.04
0.03 0.39 0.02 0.50 0.02 0.50 0.02 0.34 0.17
"""
_FRUITS: Final = """
0.03 0.51 0.03 0.51 0.01 0.47 0.07 0.50 0.13
0.02 0.50 0.06 0.54 0.04 0.59 0.01 0.51 0.13
0.61 0.52 0.64 0.54 0.63 0.50 0.49 0.53 0.03
0.75 0.50 0.83 0.54 0.85 0.60 0.78 0.53 0.19
"""


def aopc() -> pd.DataFrame:
    """Tables 3 and 5: probability lost on average over 100 perturbation steps, two decimals.

    Returns:
        columns use_case ("pets" or "fruits"), network, trained ("biased" or "unbiased" images), method, classes ("Cat"
        and "Dog"; "Apple" and "Rest"; "all" for the random order, which the paper does not split) and aopc.
    """
    rows = []
    for use_case, text, classes in (("pets", _PETS, ("Cat", "Dog")), ("fruits", _FRUITS, ("Apple", "Rest"))):
        columns = [(method, name) for method in _METHODS[:-1] for name in classes] + [(_METHODS[-1], "all")]
        lines = [line.split() for line in text.split("\n") if line]
        models = [(network, trained) for trained in ("biased", "unbiased") for network in _NETWORKS]
        for (network, trained), line in zip(models, lines, strict=True):
            rows += [
                (use_case, network, trained, *column, float(value)) for column, value in zip(columns, line, strict=True)
            ]
    return pd.DataFrame(rows, columns=["use_case", "network", "trained", "method", "classes", "aopc"])
