import asyncio
from functools import partial
from itertools import count

import pytest

from tests.unit.cli.given import TASK, TaskStream
from tests.unit.domain.given import FIRST_MS
from trackside.contracts.envelope.topics import Topics, partition_of
from trackside.eventlog.memory import MemoryLog
from trackside.eventlog.output import output_tail
from trackside.eventlog.output.output_tail import (
    OutputItem,
    OutputQuery,
    OutputTail,
    read_following,
    read_tail,
    stream_output,
)
from trackside.eventlog.output.task_output import OutputGap, OutputLine

TOPICS = Topics()
LOGS = TOPICS.logs.name
STEP_MS = 1_000
"""How much later the log writes each record."""


def neighbour() -> str:
    """Returns a task whose lines are in the same partition."""
    partitions = TOPICS.logs.partitions
    names = (f"other.{number}" for number in count())
    return next(each for each in names if partition_of(each, partitions) == partition_of(TASK, partitions))


def texts(items: list[OutputItem] | OutputTail) -> list[str]:
    found = items.items if isinstance(items, OutputTail) else items
    return [each.text for each in found if isinstance(each, OutputLine)]


@pytest.fixture(autouse=True)
def small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output_tail, "FIRST_WINDOW", 4)


@pytest.fixture
async def written() -> TaskStream:
    """Returns a stream with 30 records of one line, and one of another task between each two of them."""
    made = TaskStream(MemoryLog(clock=partial(next, count(FIRST_MS, STEP_MS))), TOPICS)
    await made.log.ensure(TOPICS.shared)
    for number in range(1, 31):
        attempt = 1 if number <= 20 else 2
        source = "stderr" if number % 10 == 0 else "stdout"
        first = number if number <= 20 else number - 20
        await made.lines(first, f"line {number}", attempt=attempt, source=source)
        await made.lines(number, f"not ours {number}", task_id=neighbour())
    return made


async def tail(written: TaskStream, lines: int, limit_s: float = 60.0, **query: object) -> OutputTail:
    return await read_tail(written.log, LOGS, OutputQuery(TASK, **query), lines, limit_s)  # type: ignore[arg-type]


async def test_the_last_lines_are_in_the_order_in_which_they_were_written(written: TaskStream) -> None:
    found = await tail(written, 3)
    assert texts(found) == ["line 28", "line 29", "line 30"]
    assert found.has_earlier and not found.is_cut
    assert found.next_offset == 60
    assert not any(isinstance(each, OutputGap) for each in found.items), "earlier lines are no gap"
    found = await tail(written, 1_000)
    assert texts(found) == [f"line {number}" for number in range(1, 31)]
    assert not found.has_earlier
    found = await read_tail(written.log, LOGS, OutputQuery("silent.0"), 10)
    assert found.items == [] and not found.has_earlier


async def test_lines_are_selected_by_text_attempt_and_source(written: TaskStream) -> None:
    assert texts(await tail(written, 2, text="LINE 1")) == ["line 18", "line 19"]
    assert texts(await tail(written, 100, attempt=2, source="stderr")) == ["line 30"]
    assert texts(await tail(written, 100, text="not ours")) == []


async def test_lines_that_are_missing_in_the_log_are_a_gap(written: TaskStream) -> None:
    await written.lines(50, "much later", attempt=2)
    gap = (await tail(written, 2)).items[0]
    assert isinstance(gap, OutputGap) and gap.count > 0


async def test_what_was_written_long_after_the_end_of_an_attempt_is_not_read(written: TaskStream) -> None:
    ended_ms = FIRST_MS + 10 * STEP_MS
    found = await tail(written, 1_000, begin_ms=FIRST_MS, end_ms=ended_ms)
    assert found.next_offset < 30
    assert texts(found)[:5] == ["line 1", "line 2", "line 3", "line 4", "line 5"]


async def test_what_was_written_before_the_task_began_is_not_read(written: TaskStream) -> None:
    found = await tail(written, 1_000, begin_ms=FIRST_MS + 50 * STEP_MS)
    assert "line 30" in texts(found) and "line 1" not in texts(found)
    assert not found.has_earlier


async def test_a_read_that_takes_too_long_says_so(written: TaskStream) -> None:
    found = await tail(written, 10, limit_s=0.0)
    assert found.is_cut and found.has_earlier


async def test_new_lines_arrive_as_soon_as_they_are_written(written: TaskStream) -> None:
    query, end = OutputQuery(TASK), (await tail(written, 1)).next_offset
    found = await read_following(written.log, LOGS, query, end, 0.05)
    assert found.items == [] and found.next_offset == end == 60
    waiting = asyncio.create_task(read_following(written.log, LOGS, query, end, 60.0))
    await written.lines(31, "not ours", task_id=neighbour())
    await written.lines(11, "news", attempt=2)
    found = await waiting
    assert texts(found) == ["news"]
    assert found.next_offset == 62


async def test_the_whole_output_is_streamed_from_its_beginning(written: TaskStream) -> None:
    query = OutputQuery(TASK, attempt=1)
    found = [each async for each in stream_output(written.log, LOGS, query)]
    assert texts(found) == [f"line {number}" for number in range(1, 21)]
