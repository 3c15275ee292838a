"""The one kind of error that is a reader's to mend."""


class BiaslibError(Exception):
    """A wrong input, named in one sentence together with its remedy.

    The command line prints the sentence and exits with code 2; no traceback is shown,
    because nothing in the program has to be read to mend it.
    """
