"""What a read model is: a table, which keys an event touched, and the row of a key computed from state."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from trackside.contracts.message import Event, Record
from trackside.domain.stream import Stream

Key = tuple[Any, ...]
Row = tuple[Any, ...]
State = TypeVar("State", contravariant=True)


@dataclass(frozen=True)
class Table:
    """A table of read models; rows are tuples in the order of `columns`, the key's columns first.

    `kept`: columns whose first value that isn't null stays. `insert_only`: the first row of a key stays.
    `outlives`: rows still change when their stream is closed. `grouped`: rows may also vanish, so all
    rows with one value of the first column are replaced together.
    """

    name: str
    columns: tuple[str, ...]
    key_width: int
    kept: frozenset[str] = frozenset()
    grouped: bool = False
    outlives: bool = False
    insert_only: bool = False
    kept_places: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        """Finds the places of the columns that are kept."""
        places = tuple(at for at, name in enumerate(self.columns) if name in self.kept)
        object.__setattr__(self, "kept_places", places)

    @property
    def key(self) -> tuple[str, ...]:
        """The columns of the primary key."""
        return self.columns[: self.key_width]

    def merged(self, old: Row, new: Row) -> Row:
        """Gives the row that stands when `new` follows `old`, as the upsert does."""
        if self.insert_only:
            return old
        if not self.kept_places:
            return new
        cells = list(new)
        for at in self.kept_places:
            cells[at] = new[at] if old[at] is None else old[at]
        return tuple(cells)


@dataclass(slots=True)
class Write:
    """Rows to write into a table; `groups`: first parts of keys whose rows these replace."""

    table: Table
    rows: list[Row] = field(default_factory=list)
    groups: list[str] = field(default_factory=list)


class Projection(Protocol[State]):
    """Rows that are a pure function of folded state, of a stream or of the fleet."""

    @property
    def table(self) -> Table:
        """The table written."""
        ...

    def touched(self, state: State, event: Event) -> Iterable[Key]:
        """Gives the keys whose row this event, which was applied, may have changed.

        For a grouped table: the first part of the keys, alone.
        """
        ...

    def keys(self, state: State) -> Iterable[Key]:
        """Gives the keys of all rows of a state."""
        ...

    def row(self, state: State, key: Key) -> Row:
        """Computes the row of a key."""
        ...


class RecordProjection(Protocol):
    """Rows that single records add or complete, because the state doesn't keep all that they say."""

    @property
    def table(self) -> Table:
        """The table written."""
        ...

    def rows(self, stream: Stream, record: Record) -> Iterable[Row]:
        """Gives the rows of a folded record; `Table.merged` says what becomes of an older one."""
        ...
