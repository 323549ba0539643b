"""Each event of a worker carries the cause of the command that it rests on."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.integration.worker.harness import CAUSES, Rig, memory_log, running, settings_for
from tests.integration.worker.test_recovery import doomed, gone, said, story_after_restart
from trackside.contracts.fleet import WorkerLeft
from trackside.contracts.message import Envelope
from trackside.contracts.tasks import AttemptEnded, RecallTask, RunTask, StopTask, TaskAccepted, TaskReturned
from trackside.contracts.topics import Topics
from trackside.worker.reporting.journal import Journal, JournalEntry

RUN, STOP, RECALL = CAUSES[RunTask], CAUSES[StopTask], CAUSES[RecallTask]


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    topics = Topics("t.")
    async with running(await memory_log(topics), topics, settings_for(tmp_path)) as made:
        yield made


async def test_what_runs_rests_on_its_run_task_and_a_stopped_end_on_its_stop(rig: Rig) -> None:
    await rig.run("a", {"reports": [0.5], "value": 0.9})
    await rig.end("a")
    assert {cause for _, cause in await rig.causes("a")} == {RUN}
    command = await rig.run("b", {"tell_pid": True, "seconds": 600})
    await rig.pid("b")
    await rig.stop(command)
    await rig.end("b")
    *before, end = await rig.causes("b")
    assert {cause for _, cause in before} == {RUN}
    assert end[1] == STOP


async def test_an_end_that_came_before_the_stop_rests_on_the_run_task(rig: Rig) -> None:
    command = await rig.run("a", {"value": 0.9})
    await rig.end("a")
    await rig.stop(command)  # answered once more, with the cause of this command
    await rig.story("a", ends=2)
    *_, end, again = await rig.causes("a")
    assert (end[1], again[1]) == (RUN, STOP)


async def test_a_refusal_and_a_return_rest_on_their_command(rig: Rig) -> None:
    await rig.run("a", task_type="unheard-of")
    running_task = await rig.run("b", {"tell_pid": True, "seconds": 600})
    await rig.pid("b")
    held = await rig.run("c", wait=True)
    await rig.recall(held)
    await rig.first(TaskReturned, rig.topics.events, "s-c")
    assert [cause for _, cause in await rig.causes("a")] == [RUN]
    assert [cause for _, cause in await rig.causes("c")] == [RECALL]
    await rig.stop(running_task.model_copy(update={"task_id": "d", "stream": "s-d"}))
    await rig.end("d")
    assert [cause for _, cause in await rig.causes("d")] == [STOP]


async def test_the_end_that_the_successor_of_a_killed_worker_reports_has_its_cause(tmp_path: Path) -> None:
    with doomed(tmp_path, {"tell_pid": True, "seconds": 600}) as process:
        _, pid = said(process), int(said(process))
        process.kill()
        assert gone(pid)
    successor, story = await story_after_restart(tmp_path)
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
