"""A worker that is killed: what is left of it, and what its successor says."""

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.integration.worker.harness import LIMIT_S, Rig, memory_log, of, running, settings_for
from trackside.contracts.tasks import AttemptEnd, AttemptEnded, MetricReported, TaskAccepted, TaskReturned
from trackside.contracts.topics import Topics, partition_of
from trackside.worker.attempts.device_locks import kill_holders, try_lock

ROOT = Path(__file__).parents[3]


@contextmanager
def doomed(data_dir: Path, parameters: dict[str, Any], *task: str) -> Iterator[subprocess.Popen[str]]:
    """Starts a worker in a process of its own with one task: of `noop`, or of a catalogue and a type."""
    command = [
        sys.executable,
        "-m",
        "tests.integration.worker.killable_worker",
        str(data_dir),
        json.dumps(parameters),
    ]
    command += task
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def said(process: subprocess.Popen[str]) -> str:
    """Waits for the next line that the process writes on its own account."""
    assert process.stdout is not None
    while (line := process.stdout.readline()) and " [" in line:
        pass  # a line of the log
    return line.strip()


def gone(pid: int) -> bool:
    """Waits until a process has ended."""
    try:
        watched = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([watched], [], [], LIMIT_S)[0])
    finally:
        os.close(watched)


async def story_after_restart(data_dir: Path) -> tuple[Rig, list[Any]]:
    """Starts a successor; gives it, gone again, with what it said of task `a`."""
    topics = Topics("t.")
    async with running(await memory_log(topics), topics, settings_for(data_dir)) as rig:
        joined = await rig.joined()
        story = await rig.story("a")
        partition = partition_of("s-a", topics.events.partitions)
        ends = await rig.log.ends(topics.events.name)
        assert joined.after == {str(partition): ends[partition]}
    return rig, story


async def test_a_killed_worker_leaves_no_task_behind_and_its_successor_says_lost(tmp_path: Path) -> None:
    """FM-11."""
    with doomed(tmp_path, {"tell_pid": True, "ignore_sigterm": True, "seconds": 600}) as process:
        incarnation, pid = said(process), int(said(process))
        process.kill()
        assert gone(pid)
    _, story = await story_after_restart(tmp_path)
    end = story[-1]
    assert isinstance(end, AttemptEnded)
    assert (end.end, end.recovered, end.incarnation) == (AttemptEnd.LOST, True, incarnation)
    assert list((tmp_path / "journal").iterdir()) == []


async def test_a_task_that_a_killed_worker_held_is_returned_by_its_successor(tmp_path: Path) -> None:
    """FM-10: it may run elsewhere as the same attempt. The lost behind it counts only if it had begun."""
    with doomed(tmp_path, {"tell_pid": True, "seconds": 600, "held": True}) as process:
        incarnation, pid = said(process), int(said(process))
        process.kill()
        assert gone(pid)
    topics = Topics("t.")
    async with running(await memory_log(topics), topics, settings_for(tmp_path)) as rig:
        story = await rig.story("b")
        returned, end = story
        assert isinstance(returned, TaskReturned) and returned.incarnation == incarnation
        assert isinstance(end, AttemptEnded) and end.end is AttemptEnd.LOST
        assert (await rig.end("a")).end is AttemptEnd.LOST


async def test_a_result_on_disk_is_told_by_the_successor_of_a_killed_worker(tmp_path: Path) -> None:
    """FM-12."""
    with doomed(tmp_path, {"tell_pid": True, "reports": [0.5], "value": 0.9}) as process:
        incarnation, pid = said(process), float(said(process))
        assert said(process) == "withheld"
    _, story = await story_after_restart(tmp_path)
    assert isinstance(story[0], TaskAccepted)
    told = [(event.kind, event.step, event.value) for event in of(story, MetricReported)]
    assert told == [("PERIODICAL", 0, pid), ("PERIODICAL", 1, 0.5), ("FINAL", 2, 0.9)]
    end = story[-1]
    assert isinstance(end, AttemptEnded)
    assert (end.end, end.recovered, end.incarnation) == (AttemptEnd.FINISHED, True, incarnation)
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
