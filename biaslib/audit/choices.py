"""What goes together among the choices of an audit."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from biaslib.audit.tables import listed
from biaslib.errors import BiaslibError


def check(
    *,
    groups: Sequence[str],
    model: object,
    predictions: object,
    data: object,
    for_model: Mapping[str, Any],
    regions: Sequence[str],
    threshold: float | None,
    deals: int | None,
) -> None:
    """Refuses what does not go together, before anything is read.

    Args:
        groups: columns of the groups.
        model: or None.
        predictions: or None.
        data: folder of the images, or None.
        for_model: the options that only a model has a use for; None where one was not given.
        regions: names of regions that were given a role.
        threshold: of outputs or scores, or None.
        deals: of the answers, or None.

    Raises:
        BiaslibError: in one sentence, with the remedy.
    """
    if (model is None) == (predictions is None):
        raise BiaslibError("Give either a model or its predictions, one of the two.")
    if model is not None and data is None:
        raise BiaslibError("A model needs images: name their folder.")
    idle = [name for name, value in for_model.items() if value is not None]
    if predictions is not None and idle:
        verb, pronoun = ("has", "it") if len(idle) == 1 else ("have", "them")
        raise BiaslibError(
            f"{' and '.join(idle)} {verb} no effect beside predictions, as there is no model to ask: leave {pronoun} "
            "out, or give the model."
        )
    if regions and for_model["masks"] is None:
        raise BiaslibError(f"{regions[0]!r} is to be a region, but there are no masks: name their folder.")
    if threshold is not None and not np.isfinite(threshold):
        raise BiaslibError(f"threshold must be a finite number, not {threshold}.")
    if deals is not None and deals < 1:
        raise BiaslibError(f"deals must be at least 1, not {deals}.")
    group_outputs = for_model["group_outputs"]
    if group_outputs is not None and len(group_outputs) != len(groups):
        raise BiaslibError(
            f"There are {len(groups)} groups but {len(group_outputs)} outputs for them: name one for each."
        )


def roles_of(regions: Iterable[str], *, wanted: Sequence[str], unwanted: Sequence[str]) -> dict[str, str]:
    """Region -> wanted, unwanted or neutral.

    Raises:
        BiaslibError: for a role of a region that is not there, and for two roles of one region.
    """
    roles = dict.fromkeys(regions, "neutral")
    for role, names in (("wanted", wanted), ("unwanted", unwanted)):
        for name in names:
            if name not in roles:
                raise BiaslibError(f"There is no region {name!r}: the masks have {listed(list(roles))}.")
            if roles[name] not in ("neutral", role):
                raise BiaslibError(f"Region {name!r} cannot be wanted and unwanted at once: name it in one of the two.")
            roles[name] = role
    return roles
