"""A read model: a table, the keys that an event touches, and the row of a key computed from the state."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:  # what reads rows only has no need of messages
    from trackside.contracts.envelope.message import Event, Record
    from trackside.domain.streams.stream import Stream

RowKey = tuple[Any, ...]
RowValues = tuple[Any, ...]
ViewRow = dict[str, Any]
"""A row of a view, by column: JSON-like values and datetimes."""
FoldedState = TypeVar("FoldedState", contravariant=True)


@dataclass(frozen=True)
class Table:
    """A table of read models; rows are tuples in the order of `columns`, the key's columns first.

    `keeps_first`: columns that keep their first non-null value. `insert_only`: a key keeps its first row.
    `changes_after_close`: rows still change when their stream is closed. `grouped`: rows may also vanish, so
    all rows with one value of the first column are replaced together.
    """

    name: str
    columns: tuple[str, ...]
    key_width: int
    keeps_first: frozenset[str] = frozenset()
    grouped: bool = False
    changes_after_close: bool = False
    insert_only: bool = False
    first_value_indexes: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        """Finds the indexes of the columns that keep their first value."""
        indexes = tuple(at for at, name in enumerate(self.columns) if name in self.keeps_first)
        object.__setattr__(self, "first_value_indexes", indexes)

    @property
    def key(self) -> tuple[str, ...]:
        """The columns of the primary key."""
        return self.columns[: self.key_width]

    def merged(self, old: RowValues, new: RowValues) -> RowValues:
        """Returns the row that results when `new` follows `old`, as the upsert computes it."""
        if self.insert_only:
            return old
        if not self.first_value_indexes:
            return new
        cells = list(new)
        for at in self.first_value_indexes:
            cells[at] = new[at] if old[at] is None else old[at]
        return tuple(cells)


@dataclass(slots=True)
class TableWrite:
    """Rows to write into a table; `groups`: values of the first key column whose rows these replace."""

    table: Table
    rows: list[RowValues] = field(default_factory=list)
    groups: list[str] = field(default_factory=list)


class Projection(Protocol[FoldedState]):
    """Rows that are a pure function of folded state, of a stream or of the fleet."""

    @property
    def table(self) -> Table:
        """The table written."""
        ...

    def touched(self, state: FoldedState, event: "Event") -> Iterable[RowKey]:
        """Returns the keys whose row may have changed by an event that was applied.

        For a grouped table: the first part of the keys only.
        """
        ...

    def keys(self, state: FoldedState) -> Iterable[RowKey]:
        """Returns the keys of all rows of a state, except of what it has forgotten."""
        ...

    def row(self, state: FoldedState, key: RowKey) -> RowValues:
        """Computes the row of a key."""
        ...


def settled_keys(projection: Projection[FoldedState], state: FoldedState) -> Iterable[RowKey] | None:
    """Returns the keys of rows that never change again while their stream goes on, such as those of tasks.

    They are those of `keys` that `shrink` makes impossible to compute. None for a projection without a method
    `settled_keys`. (`isinstance` with a protocol would take 20 times as long, and this is asked of all.)
    """
    found: Callable[[FoldedState], Iterable[RowKey]] | None = getattr(projection, "settled_keys", None)
    return None if found is None else found(state)


class RecordProjection(Protocol):
    """Rows that single records add or complete, because the state doesn't keep all of their content."""

    @property
    def table(self) -> Table:
        """The table written."""
        ...

    @property
    def kinds(self) -> "frozenset[type[Event]]":
        """The events that may have rows; `rows` is asked of no others."""
        ...

    def rows(self, stream: "Stream", record: "Record") -> Iterable[RowValues]:
        """Returns the rows of a folded record; `Table.merged` merges them with existing ones."""
        ...
