"""Rows that single events of a job add or complete: its state keeps only the current round.

An event gives the cells that it knows; the others stay as they are. So there is a row for each round, stage
and deployment that a job has ever had, and what the job keeps of them stays small.
"""

from collections.abc import Iterable
from typing import Any, Protocol

from trackside.aggregates.rounds.state import IncrementalJob, job_of
from trackside.contracts.envelope.message import Record
from trackside.domain.rows.table import RowValues, Table
from trackside.domain.streams.stream import Stream

Cells = dict[str, Any]


class CellSource(Protocol):
    """Cells of a table that the events of a job give."""

    table: Table

    def cells(self, job: IncrementalJob, record: Record) -> Iterable[Cells]:
        """Yields the cells of each row that an event adds or completes, by column."""
        ...


def rows_of(source: CellSource, stream: Stream, record: Record) -> Iterable[RowValues]:
    """Returns the rows of an event, with None where it says nothing."""
    job = job_of(stream)
    if job is None:
        return ()
    columns = source.table.columns
    return [
        tuple({"job_id": job.job_id, **cells}.get(name) for name in columns)
        for cells in source.cells(job, record)
    ]
