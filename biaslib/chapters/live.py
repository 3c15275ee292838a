"""Dials that a kernel answers: in JupyterLab a figure of the page is computed anew at every stop."""

import os
from collections.abc import Callable, Sequence
from typing import Any


def dial(show: Callable[..., Any], **stops: Sequence[Any]) -> Any:
    """A slider for each parameter of a function, and what the function gives under them.

    Args:
        show: gives a figure; its parameters are the names of `stops`.
        stops: of each slider, more than one; it begins on the first.

    Returns:
        An `ipywidgets.interactive`, to be the last thing of a cell; None while the book builds a page, as nobody
        answers there.
    """
    if "BIASLIB_PAGE" in os.environ:
        return None
    import ipywidgets

    sliders = {
        name: ipywidgets.SelectionSlider(options=list(values), description=name, continuous_update=False)
        for name, values in stops.items()
    }
    return ipywidgets.interactive(show, **sliders)
