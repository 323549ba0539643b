"""What `trackside logs` shows of a task's lines: numbered, each once, gaps named, attempts in order."""

import asyncio
import json
from functools import partial
from itertools import count

import pytest

from tests.unit.cli.given import TASK, TaskStream
from tests.unit.domain.given import FIRST_MS
from trackside.cli.commands.logs import OutputPrinter, show_logs
from trackside.cli.runtime.failures import CommandFailed
from trackside.contracts.tasks import AttemptEnd
from trackside.contracts.topics import Topics, partition_of
from trackside.eventlog.errors import OffsetGoneError
from trackside.eventlog.log import Entry
from trackside.eventlog.memory import MemoryLog, MemoryReader
from trackside.eventlog.task_output import printable
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


async def show(
    written: TaskStream,
    task_id: str = TASK,
    *,
    follow: bool = False,
    attempt: int = 0,
    source: str | None = None,
    as_json: bool = False,
) -> None:
    client = Client("nowhere:1", log=written.log)
    printer = OutputPrinter(task_id, attempt, source, as_json)
    await show_logs(written.log, client, TOPICS, task_id, follow, printer)


async def test_the_lines_of_a_task_are_shown_in_order_and_those_of_others_are_not(
    written: TaskStream, capsys: pytest.CaptureFixture[str]
) -> None:
    await written.runs()
    await written.lines(1, "one", "two")
    await written.lines(1, "not ours", task_id="other.0")
    await written.lines(1, "careful", source="stderr")
    await written.lines(3, "three")
    await show(written)
    assert capsys.readouterr().out.splitlines() == ["one", "two", "careful", "three"]
    await show(written, source="stderr")
    assert capsys.readouterr().out.splitlines() == ["careful"]


async def test_lines_that_are_missing_are_counted_where_they_are_missing(
    written: TaskStream, capsys: pytest.CaptureFixture[str]
) -> None:
    await written.runs()
    await written.lines(3, "three", "[1500 more lines came too fast and were left out]")
    await written.lines(1504, "last but one")
    await written.lines(1506, "last")
    await show(written)
    assert capsys.readouterr().out.splitlines() == [
        "[2 lines of stdout were left out: 1 to 2]",
        "three",
        "[1,500 lines of stdout were left out: 4 to 1503]",
        "last but one",
        "[1 line of stdout was left out: 1505]",
        "last",
    ]
    await show(written, as_json=True)
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(item["number"], item.get("text"), item.get("left_out")) for item in found] == [
        (1, None, 2),
        (3, "three", None),
        (4, None, 1500),
        (1504, "last but one", None),
        (1505, None, 1),
        (1506, "last", None),
    ]
    assert {(item["task_id"], item["attempt"], item["source"]) for item in found} == {(TASK, 1, "stdout")}


async def test_lines_sent_twice_are_shown_once_and_those_of_a_new_placement_again(
    written: TaskStream, capsys: pytest.CaptureFixture[str]
) -> None:
    await written.runs()
    await written.lines(1, "one", message_id="m-1")
    await written.lines(2, "two", message_id="m-2")
    await written.lines(1, "one", message_id="m-1")
    await written.lines(2, "two", message_id="m-2")
    await written.lines(1, "one again", message_id="m-3")
    await written.lines(2, "two again", message_id="m-4")
    await show(written)
    assert capsys.readouterr().out.splitlines() == ["one", "two", "one again", "two again"]


async def test_attempts_have_headings_and_one_of_them_may_be_asked_for(
    written: TaskStream, capsys: pytest.CaptureFixture[str]
) -> None:
    await written.runs()
    await written.lines(1, "first try")
    await written.ends(AttemptEnd.FAILED)
    await written.runs(attempt=2)
    await written.lines(1, "second try", attempt=2)
    await show(written)
    assert capsys.readouterr().out.splitlines() == ["first try", "-- attempt 2 --", "second try"]
    await show(written, attempt=2)
    assert capsys.readouterr().out.splitlines() == ["second try"]
    with pytest.raises(CommandFailed, match=r"digits-1\.0 has no attempt 3; it has 2"):
        await show(written, attempt=3)


@pytest.mark.thorough
async def test_following_ends_with_the_task_and_has_lines_that_come_behind_its_end(
    written: TaskStream, capsys: pytest.CaptureFixture[str]
) -> None:
    following = asyncio.create_task(show(written, follow=True))
    await written.runs()
    await written.lines(1, "first try")
    await written.ends(AttemptEnd.FAILED)
    await written.runs(attempt=2)
    await written.lines(1, "second try", attempt=2)
    await written.ends(attempt=2)
    await written.lines(2, "late", attempt=2)
    await asyncio.wait_for(following, 60)
    printer = ["first try", "-- attempt 2 --", "second try", "late"]
    assert capsys.readouterr().out.splitlines() == printer
    await show(written, follow=True)
    assert capsys.readouterr().out.splitlines() == printer


@pytest.mark.thorough
async def test_following_one_attempt_ends_with_that_attempt(
    written: TaskStream, capsys: pytest.CaptureFixture[str]
) -> None:
    following = asyncio.create_task(show(written, follow=True, attempt=1))
    await written.runs()
    await written.lines(1, "first try")
    await written.ends(AttemptEnd.FAILED)
    await asyncio.wait_for(following, 60)
    assert capsys.readouterr().out.splitlines() == ["first try"]


async def test_what_is_no_task_is_said(written: TaskStream) -> None:
    for unknown in ("digits-1.7", "digits-2.0", "nothing"):
        with pytest.raises(
            CommandFailed, match=f"there is no task {unknown} in the log; the task of trial 7"
        ):
            await show(written, unknown)
    with pytest.raises(
        CommandFailed, match=r"digits-1 is no task; give one of its tasks, such as digits-1\.0"
    ):
        await show(written, "digits-1")


async def test_a_task_without_lines_says_so(written: TaskStream, capsys: pytest.CaptureFixture[str]) -> None:
    await show(written)
    assert capsys.readouterr() == ("", "digits-1.0 has written nothing yet\n")
    await written.runs()
    await written.ends()
    await show(written)
    assert capsys.readouterr() == ("", "digits-1.0 has written nothing\n")


async def test_lines_that_have_expired_are_an_error(written: TaskStream, log: ExpiringLog) -> None:
    await written.runs()
    await written.lines(1, "long ago")
    await written.ends()
    log.kept_from = 1
    with pytest.raises(
        CommandFailed, match=r"lines of digits-1\.0, attempt 1, have expired: it ended .* kept for 7 days"
    ):
        await show(written)


async def test_lines_of_an_attempt_that_have_expired_are_said_beside_those_kept(
    written: TaskStream, log: ExpiringLog, capsys: pytest.CaptureFixture[str]
) -> None:
    await written.runs()
    await written.lines(1, "first try")
    await written.ends(AttemptEnd.FAILED)
    await written.runs(attempt=2)
    await written.lines(1, "gone too", attempt=2)
    await written.lines(2, "kept", attempt=2)
    log.kept_from = 2
    await show(written)
    out, err = capsys.readouterr()
    assert out.splitlines() == ["-- attempt 2 --", "[1 line of stdout was left out: 1]", "kept"]
    assert "lines of digits-1.0, attempt 1, have expired" in err


async def test_lines_that_expire_while_they_are_read_are_left_out(
    written: TaskStream, log: ExpiringLog, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
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
    await show(written)
    assert capsys.readouterr().out.splitlines() == ["[1 line of stdout was left out: 1]", "kept"]


@pytest.mark.parametrize(
    ("text", "printer"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("a\tb é", "a\tb é"),
        ("\x1b]0;title\x07after", "after"),
        ("bell\x07 and \x9b2J", "bell� and �2J"),
    ],
)
def test_a_line_cannot_steer_the_terminal(text: str, printer: str) -> None:
    assert printable(text) == printer
