"""Tags of a job by kind."""

from dataclasses import dataclass

from trackside.projections.database.postgres import Connection, sql
from trackside.projections.summaries.errors import is_storable
from trackside.projections.summaries.jobs import read_job
from trackside.projections.tables.metrics import SYSTEM_TAGS

TAGS_LIMIT = 10_000
"""How many tags a read returns at most, as many as a job may have."""
_NOT_FINITE = {1: "nan", 2: "inf", 3: "-inf"}


@dataclass(frozen=True, slots=True)
class JobTag:
    """A tag of a job and how many values it has in all attempts or sessions.

    `last_value` is that of a scalar's newest attempt: a number, "nan", "inf", "-inf", or None where it isn't
    known. `last_step` is the highest of all attempts, times are ms since 1970.
    """

    kind: str
    tag: str
    attempts: int
    points: int
    first_step: int
    last_step: int
    first_ms: int
    last_ms: int
    last_value: float | str | None

    @property
    def is_system(self) -> bool:
        """Whether it is a measurement of the worker's."""
        return self.tag.startswith(SYSTEM_TAGS)


@dataclass(frozen=True, slots=True)
class PluginTags:
    """The tags of one kind of a job, sorted: the answer to MindInsight's get_train_job_by_plugin."""

    job_id: str
    name: str
    tags: list[str]


async def read_tags(
    connection: Connection,
    job_id: str,
    kind: str | None = None,
    limit: int = TAGS_LIMIT,
    offset: int = 0,
) -> list[JobTag]:
    """Returns the tags of a job, of all kinds or of one, sorted by kind and tag; of an unknown kind none.

    Raises SummaryReadRefused for an unknown job.
    """
    if not is_storable(job_id + (kind or "")):
        await read_job(connection, job_id)
        return []
    rows = await connection.fetch(sql("queries", "summary_tags"), job_id, kind, limit, offset)
    if not rows:
        await read_job(connection, job_id)
    found = []
    for row in rows:
        values = dict(row)
        code = values.pop("last_non_finite")
        if code is not None:
            values["last_value"] = _NOT_FINITE.get(code)
        found.append(JobTag(**values))
    return found


async def read_tag_names(connection: Connection, job_id: str) -> list[tuple[str, str]]:
    """Returns kind and name of each tag of a job, none for an unknown job."""
    query = "SELECT DISTINCT kind, tag FROM metric_series WHERE task_id = $1"
    return [(row["kind"], row["tag"]) for row in await connection.fetch(query, job_id)]


async def read_plugin_tags(connection: Connection, job_id: str, plugin: str) -> PluginTags | None:
    """Returns the tags of one kind of a job (S12): of an unknown kind none.

    None for a job without values so far. Raises SummaryReadRefused for an unknown job.
    """
    job = await read_job(connection, job_id)
    if not job.points and not job.items:
        return None
    return PluginTags(
        job_id, plugin, sorted(each.tag for each in await read_tags(connection, job_id, plugin))
    )
