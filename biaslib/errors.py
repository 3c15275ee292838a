"""The kinds of error that are told without a traceback."""

from collections.abc import Collection


class BiaslibError(Exception):
    """A wrong input, named in one sentence together with its remedy.

    The command line prints the sentence and exits with code 2; no traceback is shown,
    because nothing in the program has to be read to mend it.
    """


class PageError(Exception):
    """A notebook stopped at a cell, or the pages could not be made; the text shows the place and the error."""


def check_known(what: str, value: object, known: Collection[object]) -> None:
    """Refuses a value that is not among the known ones."""
    if value not in known:
        raise BiaslibError(f"{what} must be one of {', '.join(map(str, known))}, not {value!r}.")


def reason(error: Exception) -> str:
    """The first line of what an error says, without a stop."""
    return (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".:")
