"""What the commands of summaries have in common: reads of one snapshot, tags that are left out, names."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from trackside.cli.runtime.addresses import Addresses
from trackside.cli.runtime.failures import BadUsage
from trackside.cli.runtime.run import run
from trackside.domain.display.text import one_line
from trackside.domain.display.times import Time, time_of_ms
from trackside.projections.database.postgres import Connection, database
from trackside.projections.summaries.jobs import SummaryJobRow
from trackside.projections.summaries.tags import JobTag, read_tags

SHOWN_TAGS = 8
"""How many tags a message names."""
T = TypeVar("T")


def read(work: Callable[[Connection], Awaitable[T]]) -> T:
    """Runs a read in one transaction: all its queries see one snapshot."""
    return run(_read(work))


async def _read(work: Callable[[Connection], Awaitable[T]]) -> T:
    async with database(Addresses().dsn) as opened:
        return await opened.transaction(work, repeatable_read=True)


async def only_tag(connection: Connection, job: str, kind: str, tag: str) -> str:
    """Returns a tag as it is given, or the only one that the job has of a kind.

    Raises BadUsage if there are none or several, SummaryReadRefused for an unknown job.
    """
    if tag:
        return tag
    tags = [each for each in await read_tags(connection, job, kind) if not each.is_system]
    if len(tags) == 1:
        return tags[0].tag
    if not tags:
        raise BadUsage(
            f"job {job} has no values of kind {kind}; `trackside summaries tags {job}` lists its tags"
        )
    raise BadUsage(f"job {job} has {len(tags)} tags of kind {kind}; name one with --tag: {some(tags)}")


def some(tags: Sequence[JobTag]) -> str:
    """Returns the first of several tags as text."""
    names = [one_line(each.tag)[:60] for each in tags[:SHOWN_TAGS]]
    return ", ".join(names) + (f" and {len(tags) - SHOWN_TAGS} more" if len(tags) > SHOWN_TAGS else "")


def is_directory(job: SummaryJobRow) -> bool:
    """Returns whether a job is a directory with event files; the others are tasks."""
    return bool(job.base or job.path)


def place_of(job: SummaryJobRow) -> str:
    """Returns where a job is from: the path of its directory, or the stream of its task."""
    return job.path if is_directory(job) else job.stream_id


def time_of(ms: int | None) -> Time | None:
    """Returns a time in ms since 1970 for a table; None for none."""
    return None if ms is None else time_of_ms(ms)
