"""Nothing: the network as it was. Whatever a table says of it is noise of the table."""

from torch import nn

from biaslib import dial
from biaslib.dial.repairing import Trained


@dial.repair(name="Nothing", labels=0)
def nothing(case: Trained) -> nn.Module:
    """The network."""
    return case.network
