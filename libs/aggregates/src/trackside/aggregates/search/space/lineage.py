"""Which trial continues which, as a tree of lines. Pure."""

from collections import defaultdict
from collections.abc import Sequence

from trackside.domain.display.text import as_text, number
from trackside.domain.rows.table import ViewRow

_FORK, _LAST, _PAST, _BLANK = "├─ ", "└─ ", "│  ", "   "


def lineage_lines(trials: Sequence[ViewRow]) -> list[str]:
    """Returns a line for each trial, below the one that it continues, each in the order of their numbers.

    A trial that none continues, and that continues none, has a line too. Parameters are said where they are
    not those of the trial before.
    """
    below: dict[int | None, list[ViewRow]] = defaultdict(list)
    known = {row["trial"]: row for row in trials}
    for row in trials:
        below[row["from_trial"] if row["from_trial"] in known else None].append(row)
    lines: list[str] = []
    # A line of trials may be longer than Python's stack is deep.
    pending = [(row, "", "") for row in reversed(below[None])]
    while pending:
        row, lead, indent = pending.pop()
        lines.append(f"{lead}{_text(row, known.get(row['from_trial']))}")
        children = below[row["trial"]]
        for place, child in reversed(list(enumerate(children))):
            last = place == len(children) - 1
            pending.append((child, indent + (_LAST if last else _FORK), indent + (_BLANK if last else _PAST)))
    return lines


def _text(row: ViewRow, before: ViewRow | None) -> str:
    value = row["last_value"] if row["value"] is None else row["value"]
    parts = [f"trial {row['trial']}"]
    if before is not None:
        parts.append("from the first step" if row["from_step"] is None else f"from step {row['from_step']}")
    if row["step_limit"] is not None:
        parts.append(f"to {row['step_limit']}")
    parts += [str(row["status"]), number(value)]
    if before is None or before["parameters"] != row["parameters"]:
        parts.append(as_text(row["parameters"]))
    return "  ".join(part for part in parts if part)
