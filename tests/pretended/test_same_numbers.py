"""`same_numbers.py` in a process of its own: a device has to be there before the first derivative of a process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.book.conftest import ROOT

FILE = Path(__file__).with_name("same_numbers.py")


@pytest.mark.slow  # the device is compiled first
def test_everything_that_asks_networks_gives_the_same_numbers():
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", str(FILE)]
    alone = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    done = subprocess.run(command, cwd=ROOT, env=alone, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-5000:]
