"""Each event of a worker carries the cause of the command that it rests on."""

from pathlib import Path

from tests.integration.worker.given import SHARES, shared_worker
from tests.integration.worker.harness import CAUSES, WorkerHarness, settings_for, stream_of
from trackside.contracts.tasks.device_commands import RecallTask, RunTask, StopTask
from trackside.contracts.tasks.tasks import TaskReturned
from trackside.worker.reporting.journal import Journal, JournalEntry

RUN, STOP, RECALL = CAUSES[RunTask], CAUSES[StopTask], CAUSES[RecallTask]


pytestmark = SHARES
worker = shared_worker(lambda folder: settings_for(folder / "worker"))


async def test_what_runs_rests_on_its_run_task_and_a_stopped_end_on_its_stop(harness: WorkerHarness) -> None:
    await harness.ended("a", {"reports": [0.5], "value": 0.9})
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
    await harness.ended("b")
    assert await harness.causes("a") == before
    assert before[-1] == ("attempt-ended", RUN)


async def test_a_refusal_and_a_return_rest_on_their_command(harness: WorkerHarness) -> None:
    await harness.run("a", task_type="unheard-of")
    running_task = await harness.run("b", {"tell_pid": True, "seconds": 600})
    await harness.pid("b")
    held = await harness.run("c", wait=True)
    await harness.recall(held)
    await harness.event(TaskReturned, "c")
    assert [cause for _, cause in await harness.causes("a")] == [RUN]
    assert [cause for _, cause in await harness.causes("c")] == [RECALL]
    own = harness.own("d")
    await harness.stop(running_task.model_copy(update={"task_id": own, "stream": stream_of(own)}))
    await harness.end("d")
    assert [cause for _, cause in await harness.causes("d")] == [STOP]
    await harness.stop(running_task)
    await harness.end("b")


async def test_a_journal_of_an_earlier_release_names_no_cause(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    entry = JournalEntry("s", "a", 1, 1, "i", cause="s@7")
    journal.write(entry)
    assert journal.entries_without_end() == [entry]
    path = journal.entry_file(entry)
    path.write_text(path.read_text().replace(', "cause": "s@7"', "").replace('"cause": "s@7", ', ""))
    assert "cause" not in path.read_text()
    assert [found.cause for found in journal.entries_without_end()] == [""]
