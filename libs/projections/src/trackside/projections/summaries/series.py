"""Series of jobs and tags, and from which step on another one counts instead."""

from collections.abc import Sequence
from dataclasses import dataclass

from trackside.projections.database.postgres import Connection, sql
from trackside.projections.summaries.errors import is_storable


@dataclass(frozen=True, slots=True)
class SeriesExtent:
    """One series: the values of a tag in one attempt of a task, or in one session of a directory.

    `points` counts its values, times are ms since 1970. Its values count below the step `counted_below`:
    from there on a later attempt or session has them; None if it counts to its end.
    """

    series: int
    job_id: str
    attempt: int
    tag: str
    points: int
    first_step: int
    last_step: int
    first_ms: int
    last_ms: int
    counted_below: int | None

    @property
    def counts(self) -> bool:
        """Whether any of its values counts."""
        return self.counted_below is None or self.first_step < self.counted_below


async def read_series(
    connection: Connection, jobs: Sequence[str], kind: str, tags: Sequence[str] | None = None
) -> list[SeriesExtent]:
    """Returns the series of jobs, of all tags or of some, by job, tag and attempt.

    Jobs and tags that don't exist have none.
    """
    ids = [job for job in jobs if is_storable(job)]
    names = None if tags is None else [tag for tag in tags if is_storable(tag)]
    rows = await connection.fetch(sql("queries", "summary_series"), ids, kind, names)
    return [SeriesExtent(**dict(row)) for row in rows]
