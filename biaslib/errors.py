"""The one kind of error that is a reader's to mend."""


class BiaslibError(Exception):
    """A wrong input, named in one sentence together with its remedy.

    The command line prints the sentence and exits with code 2; no traceback is shown,
    because nothing in the program has to be read to mend it.
    """


def reason(error: Exception) -> str:
    """The first line of what an error says, without a stop."""
    return (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".:")
