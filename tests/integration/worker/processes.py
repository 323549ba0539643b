"""Workers that are processes of their own, to be killed, and what is left of them."""

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

from tests.integration.worker.given import worker_with
from tests.integration.worker.harness import (
    LIMIT_S,
    ROOT,
    WorkerHarness,
    parent_of,
    settings_for,
)
from trackside.contracts.envelope.topics import partition_of
from trackside.contracts.tasks.tasks import AttemptEnd, AttemptEnded


@contextmanager
def killable_worker(
    data_dir: Path, parameters: dict[str, Any], *task: str, adopt: bool = False
) -> Iterator[subprocess.Popen[str]]:
    """Starts a worker in a separate process with one task: of `noop`, or of a catalogue and a type.

    With `adopt` the task outlives it.
    """
    command = [
        sys.executable,
        "-m",
        "tests.integration.worker.killable_worker",
        str(data_dir),
        json.dumps(parameters),
    ]
    command += task
    environment = {**os.environ, "TRACKSIDE_WORKER_ADOPT": str(adopt)}
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            yield process
        finally:
            process.kill()


def killed_worker(
    data_dir: Path, parameters: dict[str, Any], *task: str, has_ended: bool = False
) -> tuple[str, int]:
    """Kills a worker whose task has begun, or has its end on the disk.

    Returns its incarnation, and the pid of the task, which is gone too.
    """
    with killable_worker(data_dir, parameters, *task) as process:
        incarnation, pid = next_line(process), int(next_line(process))
        assert not has_ended or next_line(process) == "withheld"
        process.kill()
        assert wait_until_gone(pid)
    return incarnation, pid


@contextmanager
def worker_process(
    harness: WorkerHarness, bootstrap: str, **settings: object
) -> Iterator[subprocess.Popen[bytes]]:
    """Starts a worker's own process on Kafka, with these settings."""
    environment = {
        **os.environ,
        "TRACKSIDE_KAFKA_BOOTSTRAP": bootstrap,
        "TRACKSIDE_TOPIC_PREFIX": harness.topics.prefix,
        "TRACKSIDE_WORKER_ID": harness.worker_id,
        "TRACKSIDE_WORKER_PRELOAD": "",
        **{f"TRACKSIDE_WORKER_{name.upper()}": str(value) for name, value in settings.items()},
    }
    with subprocess.Popen([sys.executable, "-m", "trackside.worker"], env=environment) as process:
        try:
            yield process
        finally:
            process.kill()


def next_line(process: subprocess.Popen[str]) -> str:
    """Waits for the next line that the process writes, except lines of its log."""
    assert process.stdout is not None
    while (line := process.stdout.readline()) and " [" in line:
        pass  # a line of the log
    return line.strip()


def wait_until_gone(pid: int) -> bool:
    """Waits until a process has ended."""
    try:
        watched = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([watched], [], [], LIMIT_S)[0])
    finally:
        os.close(watched)


def kill_store_process() -> bool:
    """Kills the store process of a worker in this process; says whether there was one."""
    for path in Path("/proc").glob("[0-9]*"):
        pid = int(path.name)
        try:
            is_store = b"trackside.worker.artifacts.store_process" in (path / "cmdline").read_bytes()
            if is_store and parent_of(pid) == os.getpid():
                os.kill(pid, signal.SIGKILL)
                return True
        except OSError:
            continue
    return False


async def events_after_restart(data_dir: Path) -> tuple[WorkerHarness, list[Any]]:
    """Runs another worker on the same data directory until task `a` has ended; returns it and the events."""
    async with worker_with(settings_for(data_dir)) as harness:
        joined = await harness.joined()
        story = await harness.events_until_end("a")
        events = harness.topics.events
        partition, ends = partition_of("s-a", events.partitions), await harness.log.ends(events.name)
        assert joined.after == {str(partition): ends[partition]}
    return harness, story


def recovered(story: list[Any], end: AttemptEnd, incarnation: str) -> AttemptEnded:
    """Returns the end that comes last, which the next worker says of an earlier incarnation."""
    last = story[-1]
    assert isinstance(last, AttemptEnded)
    assert (last.end, last.recovered, last.incarnation) == (end, True, incarnation)
    return last
