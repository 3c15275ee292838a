"""What an audit hands on beside its page: a model card and an annex in Markdown, and whether a pipeline stops."""

import re
from typing import Any

from biaslib.audit import report
from biaslib.audit.records import CARDS, Audit
from biaslib.errors import BiaslibError
from biaslib.figures.table import number, p_value

_MARKS = re.compile(r"[\\`*_{}<>|~$&#]|\[(?![-−\d])|\](?=[(\[:])")


def cards(audit: Audit) -> dict[str, str]:
    """The model card and the annex by their files' names, in Markdown that no name or label can add to."""
    templates = report.templates(finalize=_escaped, keep_trailing_newline=True)
    templates.policies["json.dumps_kwargs"] = {"ensure_ascii": False}
    shown = {"audit": audit, "number": number, "p_value": p_value}
    return {name: templates.get_template(f"{name}.j2").render(shown) for name in CARDS}


def gap_limit(fail_on: str) -> float | None:
    """The limit of `gap>0.05`, None of `finding`; a BiaslibError for anything else."""
    limit = re.fullmatch(r"gap>(0?\.\d+)", fail_on)
    if limit is None and fail_on != "finding":
        raise BiaslibError(f"fail-on is 'finding' or a gap such as 'gap>0.05', in quotation marks, not {fail_on!r}.")
    return None if limit is None else float(limit[1])


def failure(audit: Audit, limit: float | None) -> str:
    """Why a pipeline stops, "" where it goes on: anything was found, or a gap is shown to be larger than a limit."""
    if limit is None:
        found = [each for _, one in audit.parts() for each in one.findings if each.kind != "smaller gap"]
        return f"{len(found)} found" if found else ""
    # whose intervals allow for the number of tests
    gaps = [row for _, one in audit.parts() for row in one.tables["visible"].to_dict("records")]
    beyond = [row for row in gaps if max(row["gap"].low, -row["gap"].high) > limit]
    return "; ".join(f"the gap of {row['group']} among {row['among']} is {number(row['gap'], '.3f')}" for row in beyond)


def _escaped(value: Any) -> str:
    # what is marked as safe is Markdown already
    if hasattr(value, "__html__"):
        return str(value)
    return _MARKS.sub(lambda mark: f"\\{mark[0]}", re.sub(r"\s+", " ", str(value)))
