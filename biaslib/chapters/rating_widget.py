"""A small form for rating pairs of images in a notebook; it needs a running kernel."""

import io
from collections.abc import Mapping
from typing import Any

import numpy as np
from PIL import Image

from biaslib.chapters.rating import ANSWERS, Session
from biaslib.errors import BiaslibError

SIDE = 256


def widget(session: Session, pictures: Mapping[str, np.ndarray]) -> Any:
    """Two faces, a question and three buttons; every answer is written to the session's file before the next is shown.

    Args:
        session: which rater, which trials and where the answers go; it goes on where it was left.
        pictures: what is moved -> (pairs, 2, H, W, 3) uint8, each pair the image and the moved one.

    Returns:
        An `ipywidgets.VBox`, to be shown by a notebook.

    Raises:
        BiaslibError: where the plan asks about pictures that are not there.
    """
    import ipywidgets as widgets  # takes a moment, and only a live notebook needs it

    for moved, last in session.plan.groupby("moved")["pair"].max().items():
        if moved not in pictures or last >= len(pictures[str(moved)]):
            raise BiaslibError(f"The plan asks about pairs along {moved} that are not among the pictures.")
    left, right = (widgets.Image(format="png", width=SIDE, height=SIDE) for _ in range(2))
    question, progress = widgets.HTML(), widgets.HTML()
    buttons = [widgets.Button(description=word) for word in ANSWERS]
    faces, row = widgets.HBox([left, right]), widgets.HBox(buttons)

    def show() -> None:
        trials = session.left()
        total = len(session.plan)
        progress.value = f"{total - len(trials)} of {total} answered, kept in {session.path.name}"
        if trials.empty:
            question.value = "That was the last pair. Thank you."
            faces.layout.display = row.layout.display = "none"
            return
        trial = trials.iloc[0]
        before, after = pictures[trial["moved"]][trial["pair"]]
        first, second = (after, before) if trial["swapped"] else (before, after)
        left.value, right.value = _png(first), _png(second)
        asked = str(trial["asked"]).replace("_", " ")
        question.value = f"Compared with the face on the left, the one on the right has … of this: <b>{asked}</b>"

    def clicked(button: Any) -> None:
        session.answer(button.description)
        show()

    for button in buttons:
        button.on_click(clicked)
    show()
    return widgets.VBox([faces, question, row, progress])


def _png(pixels: np.ndarray) -> bytes:
    """Enlarged without new edges, so that nobody rates squares."""
    buffer = io.BytesIO()
    Image.fromarray(pixels).resize((SIDE, SIDE), Image.Resampling.BICUBIC).save(buffer, format="PNG")
    return buffer.getvalue()
