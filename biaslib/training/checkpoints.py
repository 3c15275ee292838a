"""What lets a killed training go on: a checkpoint that is trusted only as a whole."""

import io
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, TypeVar

import torch

from biaslib import store
from biaslib.errors import BiaslibError


class DamagedCheckpointWarning(UserWarning):
    """A checkpoint could not be trusted, and the training it belongs to starts anew."""


class _Resumable(Protocol):
    """A training that can take up what a checkpoint holds."""

    device: torch.device

    def restore(self, state: dict[str, Any]) -> None:
        """Sets everything that training changes to what the state holds."""


_R = TypeVar("_R", bound=_Resumable)


def save_checkpoint(state: dict[str, Any], path: Path) -> None:
    """Writes a state with its checksum, in place of an earlier one."""
    content = io.BytesIO()  # its own writer hides the reason where the disk is full
    torch.save(state, content)
    with store.sealed(path) as partial:
        partial.write_bytes(content.getbuffer())


def resumed(start: Callable[[], _R], path: Path) -> _R:
    """A training as it was when it was killed, or from its start where there is no checkpoint that can be trusted."""
    run = start()
    if not path.exists():
        return run
    try:
        if not store.is_whole(path):
            raise BiaslibError("the checksum differs")
        content = io.BytesIO(path.read_bytes()[: -store.SEAL])
        run.restore(torch.load(content, map_location=run.device, weights_only=True))
    except Exception as error:  # no checkpoint, whatever is wrong with it, may keep a training from its result
        reason = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".:")
        warnings.warn(
            f"checkpoint {path} is damaged; the training starts anew ({reason}).", DamagedCheckpointWarning, 3
        )
        return start()  # the first one may be half changed
    return run
