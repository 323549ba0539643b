"""What people see of an aggregate: a line of a list, a page, a report, its progress, its end, its state."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

from trackside.contracts.tasks.tasks import AttemptEnd
from trackside.domain.display import report, task_rows, task_state
from trackside.domain.display.listing import StreamListing
from trackside.domain.display.report import ReportSection
from trackside.domain.display.selection import SortKey
from trackside.domain.display.task_state import Fields
from trackside.domain.display.text import TextTable, duration, fields_line
from trackside.domain.rows.table import ViewRow
from trackside.domain.streams.stream import Stream
from trackside.domain.tasks.task import TaskState

S = TypeVar("S")
QueriedRows = Mapping[str, Sequence[ViewRow]]
"""The rows of several queries, by the name of the query."""
TASKS, LAST_ATTEMPTS, CHILDREN = "tasks", "last_attempts", "children"
"""Queries over any stream: its tasks, the newest attempt of each, and its children."""
PICTURE = "picture"
"""The query of a view whose report has a picture, a graph: its nodes in order.

They have `name`, `what`, `state`, `color`, `took_s`, and in `needs` the names of those before them.
"""


@dataclass(frozen=True, slots=True)
class Page:
    """A stream in detail: facts with their names, then tables."""

    facts: Sequence[tuple[str, object]]
    tables: Sequence[TextTable]


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a stream is; times are ms since 1970, `ended_ms` is 0 before its end."""

    status: str
    started_ms: int
    ended_ms: int
    ended: int
    """How many of its parts have ended."""
    total: int | None
    """How many parts there are; None if that is not known."""
    unit: str
    """What the parts are: trials, tasks."""
    detail: str = ""
    """What follows in the progress as a line, with its punctuation."""
    lines: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    """A table without headings, for parts that have a progress of their own."""
    more: str = ""
    """What follows the rows if some are left out."""
    share: float | None = None
    """How far it is, from 0 to 1, where parts count differently; None: as many as have ended."""
    waits: bool = False
    """Whether it waits for a person, so that how fast its parts end says nothing of the rest."""

    @property
    def count(self) -> str:
        """How many parts have ended: `3/20 trials`."""
        return f"{self.ended}{'' if self.total is None else f'/{self.total}'} {self.unit}"

    @property
    def line(self) -> str:
        """The progress as a line."""
        return f"{self.count} ended{self.detail}"

    @property
    def duration_s(self) -> float:
        """How long it took, once it has ended."""
        return (self.ended_ms - self.started_ms) / 1000


@dataclass(frozen=True, slots=True)
class StreamEnd:
    """How a stream ended: for programs, as lines, and why that is a failure for the user who waited."""

    summary: Fields
    lines: Sequence[str]
    board_lines: Sequence[str] = ()
    """More lines, for where no board showed them: those of the progress."""
    failure: str = ""
    """Why it is a failure; empty if it is none."""


class View(StreamListing, ABC, Generic[S]):
    """What people see of one kind of aggregate. All methods are pure.

    They get the folded stream, or rows of named queries. Only `progress`, `listing` and two queries must be
    written; a view says more by overriding the others.
    """

    queries: ClassVar[Mapping[str, str]] = {}
    """Statements by name, on the views of schema `dashboards`; $1 is the id.

    They are named in `page_queries` or `report_queries`.
    """
    page_queries: ClassVar[Sequence[str]] = (TASKS, LAST_ATTEMPTS)
    """The queries whose rows its page needs: its own, or those over any stream."""
    report_queries: ClassVar[Sequence[str]] = (TASKS, LAST_ATTEMPTS)
    """The queries whose rows its report needs."""
    list_query: ClassVar[str] = TASKS
    """The query of `page_queries` whose rows people may choose from and sort: its name says what they are."""
    statuses: ClassVar[Sequence[str]] = (*TaskState, *AttemptEnd)
    """What `status_of` may return."""
    shows_failed_tasks: ClassVar[bool] = True
    """Whether its board lists the tasks that did not finish: for a search, that is part of its work."""
    parts: ClassVar[Mapping[str, str]] = {}
    """What its parts are called in the state of a stream, plural to singular: trials to trial.

    The singular is the `kind` in the part of a task that is for one of them.
    """
    state_names: ClassVar[Sequence[str]] = ()
    """The fields of its state that the state at one point in time shows as a line."""

    def left(self, row: ViewRow) -> int | None:
        """Returns how many of its parts have not ended, from its row; None if that is not known."""
        return None

    def ordered(self, row: ViewRow, listed: Sequence[ViewRow]) -> Sequence[ViewRow]:
        """Returns the rows of `list_query` in the order in which people see them."""
        return listed

    def sort_keys(self, row: ViewRow) -> Mapping[str, SortKey]:
        """Returns what the rows of `list_query` may be sorted by."""
        return {
            "value": SortKey(lambda task: task["objective"], descending=True),
            "queued": SortKey(lambda task: task["queued_at"], descending=True),
            "ended": SortKey(lambda task: task["ended_at"], descending=True),
            "type": SortKey(lambda task: task["task_type"]),
        }

    def status_of(self, row: ViewRow) -> str:
        """Returns the status of a row of `list_query`: how a task ended, or its state."""
        return str(row["ending"] or row["state"])

    def facts(self, row: ViewRow, rows: QueriedRows) -> Sequence[tuple[str, object]]:
        """Returns what its page says of it as a whole, from its row and all rows of `page_queries`."""
        facts = [("id", row[self.id_column]), *((name, row[name]) for name in ("name", "status"))]
        return [*facts, ("started", row["started_at"]), ("ended", row["ended_at"])]

    def tables(self, row: ViewRow, rows: QueriedRows) -> Sequence[TextTable]:
        """Returns the tables of its page, from its row and those rows of `page_queries` that are shown."""
        attempts = task_rows.by_task(rows[LAST_ATTEMPTS])
        return [task_rows.task_table(rows[TASKS], attempts, row[self.id_column])]

    def lists(self, row: ViewRow, rows: QueriedRows) -> dict[str, Sequence[ViewRow]]:
        """Returns the lists of its page by name, for programs."""
        attempts = task_rows.by_task(rows[LAST_ATTEMPTS])
        return {TASKS: [task_rows.with_newest_attempt(task, attempts) for task in rows[TASKS]]}

    def lineage(self, rows: QueriedRows) -> Sequence[str]:
        """Returns which of its parts continue which, as lines of a tree; none if parts never do."""
        return ()

    def chosen(self, listed: Sequence[ViewRow], limit: int) -> Sequence[ViewRow]:
        """Returns the rows of `list_query` that people see who don't sort them, at most so many."""
        return listed[-limit:]

    def left_out(self, listed: Sequence[ViewRow], every: Sequence[ViewRow]) -> str:
        """Returns what is said under rows that were chosen, where others were left out."""
        shown = f"the last {len(listed)} of {len(every)} {self.list_query}"
        return f"{shown}; see --limit, --sort and --status"

    def report_page(self, row: ViewRow, rows: QueriedRows) -> Page:
        """Returns the facts and tables that its report begins with, from those of `report_queries`."""
        return Page((), ())

    def sections(self, row: ViewRow, rows: QueriedRows) -> list[ReportSection]:
        """Returns the sections of its report, from its row and those of `report_queries`."""
        attempts = task_rows.by_task(rows[LAST_ATTEMPTS])
        return [report.section(TASKS, row["status"], rows[TASKS], attempts)]

    @abstractmethod
    def progress(self, stream: Stream[S]) -> Progress:
        """Returns how far it is, or was when it ended."""

    def end(self, stream: Stream[S], accepted: Collection[AttemptEnd]) -> StreamEnd:
        """Returns how it ended; `accepted`: ends of tasks that are no failure."""
        progress, bad = self.progress(stream), task_state.unfinished(stream, accepted)
        took = duration(progress.duration_s)
        summary = {
            self.id_column: stream.stream_id,
            "status": progress.status,
            progress.unit: progress.ended,
            "unfinished": [task_state.ended_task(task) for task in bad],
            "duration_s": progress.duration_s,
        }
        return StreamEnd(
            summary,
            [f"{stream.stream_id} {progress.status}: {progress.count} in {took}"],
            progress.lines,
            f"{stream.stream_id}: {len(bad)} of its tasks did not finish" if bad else "",
        )

    def state(self, stream: Stream[S]) -> Fields:
        """Returns its state as plain values that don't change with it, without its parts."""
        found = self.progress(stream)
        return {
            "status": found.status,
            "ended": found.ended,
            "total": found.total,
            "started_ms": found.started_ms,
            "ended_ms": found.ended_ms or None,
        }

    def state_of_parts(self, stream: Stream[S]) -> dict[str, dict[Any, Fields]]:
        """Returns the state of its parts: for each name in `parts`, their fields by their own name."""
        return {}

    def state_lines(self, state: Fields) -> list[str]:
        """Returns its state, as `state` returns it, as lines."""
        return [fields_line(state, self.state_names)] if self.state_names else []

    def state_tables(
        self, parts: Mapping[str, Mapping[Any, Fields]], tasks: Mapping[str, Fields]
    ) -> list[TextTable]:
        """Returns tables of its parts and its tasks, from their fields."""
        return [task_state.fields_table(tasks)] if tasks else []
