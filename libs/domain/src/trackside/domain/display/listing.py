"""The line of a stream in a list: what lists need of an aggregate, apart from the rest of its view.

Modules of listings import no messages and no state, whose models take long to make: `ls` begins sooner.
"""

from dataclasses import dataclass
from typing import ClassVar

from trackside.domain.rows.table import ViewRow


@dataclass(frozen=True, slots=True)
class Listed:
    """What is special in the line of a list; status, start and duration are in every line."""

    ended: str = ""
    """How many of its parts have ended: `3/20`."""
    best: float | None = None
    tuner: str = ""
    runs: str = ""
    """What it runs: a task type, or how many groups of tasks."""


class StreamListing:
    """How the streams of one kind of aggregate are found and listed. All methods are pure."""

    kind: ClassVar[str]
    """The kind of the aggregate."""
    id_column: ClassVar[str]
    """The column of the stream's id, in the rows of `newest` and `one`."""
    listing: ClassVar[str]
    """A statement without parameters: all streams of this kind as a list of several kinds shows them.

    Its columns are `id`, `name`, `status`, `started_at`, `ended_at`, `duration_s`; `ended` and `total`: how
    many parts have ended, and how many there are, NULL if that is not known; `best`, `tuner` and `runs` as in
    `Listed`. What isn't asked for of its columns should cost nothing: join one row at most, by LEFT JOIN.
    """
    newest: ClassVar[str]
    """A statement for the newest streams of this kind, $1: at most so many.

    Rows have `name`, `status`, `started_at`, `ended_at` and `duration_s`, like those of `one`.
    """
    one: ClassVar[str]
    """A statement for one stream, $1: its id."""

    def listed(self, row: ViewRow) -> Listed:
        """Returns what is special in its line of a list, from its row of `newest`."""
        return Listed()
