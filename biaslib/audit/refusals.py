"""What an audit refuses, in the sentences of `refusals.toml`; short ones stand where the problem is found."""

import tomllib
from pathlib import Path
from typing import Any, Final

from biaslib.errors import BiaslibError

_SENTENCES: Final = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


def refused(problem: str, **words: Any) -> BiaslibError:
    """The error of a problem, by its name, with the words that its sentence takes."""
    return BiaslibError(_SENTENCES[problem].format(**words))
