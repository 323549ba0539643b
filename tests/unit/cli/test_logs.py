import asyncio
import json
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any

import pytest

from tests.unit.cli.given import TASK, TaskStream
from tests.unit.domain.given import FIRST_MS
from trackside.cli.commands.logs import OutputPrinter, show_logs
from trackside.cli.runtime.failures import CommandFailed
from trackside.contracts.envelope.topics import Topics, partition_of
from trackside.contracts.tasks.tasks import AttemptEnd
from trackside.eventlog.errors import OffsetGoneError
from trackside.eventlog.log import Entry
from trackside.eventlog.memory import MemoryLog, MemoryReader
from trackside.eventlog.output.task_output import printable
from trackside.sdk import Client

TOPICS = Topics()
LOGS = (TOPICS.logs.name, partition_of(TASK, TOPICS.logs.partitions))


class ExpiringLog(MemoryLog):
    """A log whose records of output before an offset have expired."""

    kept_from = 0

    async def beginnings(self, topic: str) -> dict[int, int]:
        found = await super().beginnings(topic)
        return found | ({LOGS[1]: self.kept_from} if topic == LOGS[0] else {})


@pytest.fixture
def log() -> ExpiringLog:
    return ExpiringLog(clock=partial(next, count(FIRST_MS, 1_000)))


@pytest.fixture
async def written(log: ExpiringLog) -> TaskStream:
    made = TaskStream(log, TOPICS)
    await made.queued()
    return made


@dataclass
class Screen:
    written: TaskStream
    capsys: pytest.CaptureFixture[str]
    err: str = ""

    async def shown(self, task_id: str = TASK, *, follow: bool = False, **asked: Any) -> list[str]:
        client = Client("nowhere:1", log=self.written.log)
        options: dict[str, Any] = {"attempt": 0, "source": None, "as_json": False, **asked}
        printer = OutputPrinter(task_id, **options)
        await show_logs(self.written.log, client, TOPICS, task_id, follow, printer)
        out, self.err = self.capsys.readouterr()
        return out.splitlines()


@pytest.fixture
def screen(written: TaskStream, capsys: pytest.CaptureFixture[str]) -> Screen:
    return Screen(written, capsys)


async def second_try(written: TaskStream) -> None:
    await written.runs()
    await written.lines(1, "first try")
    await written.ends(AttemptEnd.FAILED)
    await written.runs(attempt=2)


async def test_the_lines_of_a_task_alone_are_shown_in_order(written: TaskStream, screen: Screen) -> None:
    await written.runs()
    await written.lines(1, "one", "two")
    await written.lines(1, "not ours", task_id="other.0")
    await written.lines(1, "careful", source="stderr")
    await written.lines(3, "three")
    assert await screen.shown() == ["one", "two", "careful", "three"]
    assert await screen.shown(source="stderr") == ["careful"]


async def test_missing_lines_are_counted_where_they_are_missing(written: TaskStream, screen: Screen) -> None:
    await written.runs()
    await written.lines(3, "three", "[1500 more lines came too fast and were left out]")
    await written.lines(1504, "last but one")
    await written.lines(1506, "last")
    first, third = "[2 lines of stdout were left out: 1 to 2]", "[1 line of stdout was left out: 1505]"
    second = "[1,500 lines of stdout were left out: 4 to 1503]"
    assert await screen.shown() == [first, "three", second, "last but one", third, "last"]
    found = [json.loads(line) for line in await screen.shown(as_json=True)]
    assert [item["number"] for item in found] == [1, 3, 4, 1504, 1505, 1506]
    assert [item.get("text") for item in found] == [None, "three", None, "last but one", None, "last"]
    assert [item.get("left_out") for item in found] == [2, None, 1500, None, 1, None]
    assert {(item["task_id"], item["attempt"], item["source"]) for item in found} == {(TASK, 1, "stdout")}


async def test_lines_sent_twice_are_shown_once_a_placement(written: TaskStream, screen: Screen) -> None:
    await written.runs()
    for _ in range(2):
        await written.lines(1, "one", message_id="m-1")
        await written.lines(2, "two", message_id="m-2")
    await written.lines(1, "one again", message_id="m-3")
    await written.lines(2, "two again", message_id="m-4")
    assert await screen.shown() == ["one", "two", "one again", "two again"]


async def test_attempts_have_headings_and_one_may_be_asked_for(written: TaskStream, screen: Screen) -> None:
    await second_try(written)
    await written.lines(1, "second try", attempt=2)
    assert await screen.shown() == ["first try", "-- attempt 2 --", "second try"]
    assert await screen.shown(attempt=2) == ["second try"]
    with pytest.raises(CommandFailed, match=r"digits-1\.0 has no attempt 3; it has 2"):
        await screen.shown(attempt=3)


@pytest.mark.thorough
@pytest.mark.parametrize("attempt", [0, 1])
async def test_following_ends_with_the_task_or_its_attempt_and_has_lines_that_come_behind_its_end(
    written: TaskStream, screen: Screen, attempt: int
) -> None:
    following = asyncio.create_task(screen.shown(follow=True, attempt=attempt))
    await second_try(written)
    if attempt:
        assert await asyncio.wait_for(following, 60) == ["first try"]
        return
    await written.lines(1, "second try", attempt=2)
    await written.ends(attempt=2)
    await written.lines(2, "late", attempt=2)
    expected = ["first try", "-- attempt 2 --", "second try", "late"]
    assert await asyncio.wait_for(following, 60) == expected
    assert await screen.shown(follow=True) == expected


async def test_what_is_no_task_is_said(screen: Screen) -> None:
    for unknown in ("digits-1.7", "digits-2.0", "nothing"):
        with pytest.raises(
            CommandFailed, match=f"there is no task {unknown} in the log; the task of trial 7"
        ):
            await screen.shown(unknown)
    with pytest.raises(
        CommandFailed, match=r"digits-1 is no task; give one of its tasks, such as digits-1\.0"
    ):
        await screen.shown("digits-1")


async def test_a_task_without_lines_says_so(written: TaskStream, screen: Screen) -> None:
    assert (await screen.shown(), screen.err) == ([], "digits-1.0 has written nothing yet\n")
    await written.runs()
    await written.ends()
    assert (await screen.shown(), screen.err) == ([], "digits-1.0 has written nothing\n")


async def test_expired_lines_are_told_of(written: TaskStream, screen: Screen, log: ExpiringLog) -> None:
    await second_try(written)
    await written.lines(1, "gone too", attempt=2)
    await written.lines(2, "kept", attempt=2)
    log.kept_from = 2
    assert await screen.shown() == ["-- attempt 2 --", "[1 line of stdout was left out: 1]", "kept"]
    assert "lines of digits-1.0, attempt 1, have expired" in screen.err
    log.kept_from = 3
    await written.ends(attempt=2)
    gone = r"lines of digits-1\.0, attempt 2, have expired: it ended .* kept for 7 days"
    with pytest.raises(CommandFailed, match=gone):
        await screen.shown(attempt=2)


async def test_lines_that_expire_while_they_are_read_are_left_out(
    written: TaskStream, screen: Screen, log: ExpiringLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    await written.runs()
    await written.lines(1, "gone")
    await written.lines(2, "kept")
    read = MemoryReader.read

    async def expiring(self: MemoryReader, max_wait_s: float, max_records: int = 10_000) -> list[Entry]:
        if LOGS in self._positions and not log.kept_from:
            log.kept_from = 1
            raise OffsetGoneError("expired")
        return await read(self, max_wait_s, max_records)

    monkeypatch.setattr(MemoryReader, "read", expiring)
    assert await screen.shown() == ["[1 line of stdout was left out: 1]", "kept"]


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("a\tb é", "a\tb é"),
        ("\x1b]0;title\x07after", "after"),
        ("bell\x07 and \x9b2J", "bell� and �2J"),
    ],
)
def test_a_line_cannot_steer_the_terminal(text: str, printed: str) -> None:
    assert printable(text) == printed
