"""Each event of a worker carries the cause of the command that it rests on."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.integration.worker.harness import (
    CAUSES,
    WorkerHarness,
    events_after_restart,
    killable_worker,
    memory_log,
    next_line,
    running,
    settings_for,
    wait_until_gone,
)
from trackside.contracts.device_commands import RecallTask, RunTask, StopTask
from trackside.contracts.fleet import WorkerLeft
from trackside.contracts.message import Envelope
from trackside.contracts.tasks import AttemptEnded, TaskAccepted, TaskReturned
from trackside.contracts.topics import Topics
from trackside.worker.reporting.journal import Journal, JournalEntry

RUN, STOP, RECALL = CAUSES[RunTask], CAUSES[StopTask], CAUSES[RecallTask]


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[WorkerHarness]:
    topics = Topics("t.")
    async with running(await memory_log(topics), topics, settings_for(tmp_path)) as made:
        yield made


async def test_what_runs_rests_on_its_run_task_and_a_stopped_end_on_its_stop(harness: WorkerHarness) -> None:
    await harness.run("a", {"reports": [0.5], "value": 0.9})
    await harness.end("a")
    assert {cause for _, cause in await harness.causes("a")} == {RUN}
    command = await harness.run("b", {"tell_pid": True, "seconds": 600})
    await harness.pid("b")
    await harness.stop(command)
    await harness.end("b")
    *before, end = await harness.causes("b")
    assert {cause for _, cause in before} == {RUN}
    assert end[1] == STOP


async def test_an_end_that_came_before_the_stop_rests_on_the_run_task_and_stays_the_only_one(
    harness: WorkerHarness,
) -> None:
    command = await harness.run("a", {"value": 0.9})
    await harness.end("a")
    before = await harness.causes("a")
    await harness.stop(command)
    await harness.run("b")
    await harness.end("b")
    assert await harness.causes("a") == before
    assert before[-1] == ("attempt-ended", RUN)


async def test_a_refusal_and_a_return_rest_on_their_command(harness: WorkerHarness) -> None:
    await harness.run("a", task_type="unheard-of")
    running_task = await harness.run("b", {"tell_pid": True, "seconds": 600})
    await harness.pid("b")
    held = await harness.run("c", wait=True)
    await harness.recall(held)
    await harness.first(TaskReturned, harness.topics.events, "s-c")
    assert [cause for _, cause in await harness.causes("a")] == [RUN]
    assert [cause for _, cause in await harness.causes("c")] == [RECALL]
    await harness.stop(running_task.model_copy(update={"task_id": "d", "stream": "s-d"}))
    await harness.end("d")
    assert [cause for _, cause in await harness.causes("d")] == [STOP]


async def test_the_end_that_the_successor_of_a_killed_worker_reports_has_its_cause(tmp_path: Path) -> None:
    with killable_worker(tmp_path, {"tell_pid": True, "seconds": 600}) as process:
        _, pid = next_line(process), int(next_line(process))
        process.kill()
        assert wait_until_gone(pid)
    successor, story = await events_after_restart(tmp_path)
    assert [type(event) for event in story] == [TaskAccepted, AttemptEnded]
    assert {cause for _, cause in await successor.causes("a")} == {RUN}
    fleet = (successor.topics.fleet.name, 0)
    reader = successor.log.reader({fleet: 0})
    headers = [Envelope(dict(entry.headers)) for entry in await reader.read(1.0)]  # type: ignore[arg-type]
    await reader.close()
    assert [each.causation_id for each in headers] == ["", f"{successor.worker_id}@0"]
    assert headers[1].type == WorkerLeft.wire_type()


def test_a_journal_of_an_earlier_release_names_no_cause(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    entry = JournalEntry("s", "a", 1, 1, "i", cause="s@7")
    journal.write(entry)
    assert journal.entries_without_end() == [entry]
    path = journal.entry_file(entry)
    path.write_text(path.read_text().replace(', "cause": "s@7"', "").replace('"cause": "s@7", ', ""))
    assert "cause" not in path.read_text()
    assert [found.cause for found in journal.entries_without_end()] == [""]
