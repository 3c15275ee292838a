"""What a result was computed with: the machine, the versions, the commit, the hour."""

import datetime
import importlib.metadata
import os
import platform
import subprocess
from pathlib import Path

_LIBRARIES = ("biaslib", "torch", "torchvision", "timm", "numpy", "scipy", "scikit-learn", "pandas", "matplotlib")


def device() -> str:
    """What this machine computes on, in words."""
    import torch  # imported here, as it takes seconds and reading a record needs no device

    if torch.cuda.is_available():
        return torch.cuda.get_device_name()
    return f"{os.cpu_count()} cores ({platform.machine()})"


def now() -> str:
    """The time of day in UTC, to the second."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def commit(folder: Path) -> str:
    """The commit checked out in a folder, with "-dirty" where files differ from it; "unknown" without git."""
    command = ["git", "-C", str(folder), "describe", "--always", "--dirty"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def versions() -> dict[str, str]:
    """The versions of Python and of the libraries that the book's numbers depend on."""
    found = {"python": platform.python_version()}
    for library in _LIBRARIES:
        try:
            found[library] = importlib.metadata.version(library)
        except importlib.metadata.PackageNotFoundError:
            found[library] = "not installed"
    return found
