"""A worker that is killed: what is left of it, and what its successor says."""

import os
import signal
import subprocess
from pathlib import Path

from tests.integration.worker.given import worker_with
from tests.integration.worker.harness import CAUSES, of, settings_for
from tests.integration.worker.processes import events_after_restart, killed_worker, recovered
from trackside.aggregates.registry import CODEC
from trackside.contracts.fleet.fleet import WorkerLeft
from trackside.contracts.tasks.device_commands import RunTask
from trackside.contracts.tasks.tasks import (
    AttemptEnd,
    AttemptEnded,
    MetricReported,
    TaskAccepted,
    TaskReturned,
)
from trackside.worker.attempts.device_locks import kill_holders, try_lock
from trackside.worker.child.process.orphans import kill_marked


async def test_a_killed_worker_leaves_no_task_behind_and_its_successor_says_lost(tmp_path: Path) -> None:
    """FM-11."""
    asked = {"tell_pid": True, "ignore_sigterm": True, "seconds": 600}
    incarnation, _ = killed_worker(tmp_path, asked)
    successor, story = await events_after_restart(tmp_path)
    recovered(story, AttemptEnd.LOST, incarnation)
    assert [type(event) for event in story] == [TaskAccepted, AttemptEnded]
    assert {cause for _, cause in await successor.causes("a")} == {CAUSES[RunTask]}
    assert list((tmp_path / "journal").iterdir()) == []
    reader = successor.log.reader({(successor.topics.fleet.name, 0): 0})
    headers = [CODEC.envelope(entry.headers) for entry in await reader.read(1.0)]
    await reader.close()
    assert [each.causation_id for each in headers] == ["", f"{successor.worker_id}@0"]
    assert headers[1].type == WorkerLeft.wire_type()


async def test_a_task_that_a_killed_worker_held_is_returned_by_its_successor(tmp_path: Path) -> None:
    """FM-10: it may run elsewhere as the same attempt. The lost behind it counts only if it had begun."""
    incarnation, _ = killed_worker(tmp_path, {"tell_pid": True, "seconds": 600, "held": True})
    async with worker_with(settings_for(tmp_path)) as harness:
        story = await harness.events_until_end("b")
        returned, end = story
        assert isinstance(returned, TaskReturned) and returned.incarnation == incarnation
        assert isinstance(end, AttemptEnded) and end.end is AttemptEnd.LOST
        assert (await harness.end("a")).end is AttemptEnd.LOST


async def test_a_result_on_disk_is_told_by_the_successor_of_a_killed_worker(tmp_path: Path) -> None:
    """FM-12."""
    asked = {"tell_pid": True, "reports": [0.5], "value": 0.9}
    incarnation, pid = killed_worker(tmp_path, asked, has_ended=True)
    _, story = await events_after_restart(tmp_path)
    assert isinstance(story[0], TaskAccepted)
    told = [(event.kind, event.step, event.value) for event in of(story, MetricReported)]
    assert told == [("PERIODICAL", 0, pid), ("PERIODICAL", 1, 0.5), ("FINAL", 2, 0.9)]
    end = recovered(story, AttemptEnd.FINISHED, incarnation)
    assert end.result is not None and end.result["device"] == "cpu"


def test_a_device_is_free_only_when_the_process_that_holds_it_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "cpu-0.lock"
    descriptor = try_lock(path)
    assert descriptor is not None
    with subprocess.Popen(["sleep", "600"], pass_fds=[descriptor]) as holder:
        os.close(descriptor)
        assert try_lock(path) is None
        assert kill_holders(path) == [holder.pid]
        assert holder.wait() == -signal.SIGKILL
    descriptor = try_lock(path)
    assert descriptor is not None
    os.close(descriptor)


def test_what_has_the_mark_or_the_lock_is_found_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "cpu-0.lock"
    lock = try_lock(path)
    assert lock is not None
    mine, free = f"{tmp_path}/1", f"{tmp_path}/2"
    with (
        subprocess.Popen(["sleep", "601"], env={"TRACKSIDE_WORKDIR": mine}) as first,
        subprocess.Popen(["sleep", "602"], env={}, pass_fds=[lock]) as second,
        subprocess.Popen(["sleep", "603"], env={"TRACKSIDE_WORKDIR": f"{mine}1"}) as other,
    ):
        found = kill_marked([mine, free], [str(path)])
        assert found == {mine: [f"{first.pid} sleep 601"], str(path): [f"{second.pid} sleep 602"]}
        assert (first.wait(), second.wait(), other.poll()) == (-signal.SIGKILL, -signal.SIGKILL, None)
        other.kill()
    os.close(lock)
