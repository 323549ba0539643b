"""Which rows of a list are shown, and in which order: options of `trackside show`. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trackside.contracts.envelope.refusals import nearest
from trackside.domain.rows.table import ViewRow

SHOWN_ROWS = 50
"""How many rows people see unless they ask for another number."""


@dataclass(frozen=True, slots=True)
class SortKey:
    """What rows are sorted by; rows for which it is None come last."""

    value: Callable[[ViewRow], Any]
    descending: bool = False


@dataclass(frozen=True, slots=True)
class Selection:
    """The wanted rows: how many at most, sorted by which name, of which status; None and "" for any."""

    limit: int | None = None
    sort: str = ""
    status: str = ""

    def __bool__(self) -> bool:
        return self != Selection()


class BadSelectionError(ValueError):
    """A name to sort by, or a status, that the list doesn't have; the message lists those it has."""


def selected(
    rows: Sequence[ViewRow],
    selection: Selection,
    keys: Mapping[str, SortKey],
    status_of: Callable[[ViewRow], str],
    statuses: Sequence[str],
) -> list[ViewRow]:
    """Returns the wanted rows; without a name to sort by the last ones, in their own order.

    Raises BadSelectionError.
    """
    if selection.sort and selection.sort not in keys:
        raise BadSelectionError(_unknown("--sort", selection.sort, list(keys)))
    known = {name.lower(): name for name in statuses}
    wanted = known.get(selection.status.lower())
    if selection.status and wanted is None:
        raise BadSelectionError(_unknown("--status", selection.status, statuses))
    found = [row for row in rows if wanted is None or status_of(row) == wanted]
    if not selection.sort:
        return found if selection.limit is None else found[-selection.limit :]
    key = keys[selection.sort]
    valued = [(value, row) for row in found if (value := key.value(row)) is not None]
    valued.sort(key=lambda each: each[0], reverse=key.descending)
    rest = [row for row in found if key.value(row) is None]
    return [*(row for _, row in valued), *rest][: selection.limit]


def _unknown(option: str, name: str, names: Sequence[str]) -> str:
    return f"{option} {name!r} isn't known here; expected one of: {', '.join(names)}{nearest(name, names)}"
