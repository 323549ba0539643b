"""Workers that are processes of their own, to be killed, and what is left of them."""

import json
import os
import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.integration.worker.harness import (
    LIMIT_S,
    ROOT,
    WorkerHarness,
    memory_log,
    running,
    settings_for,
)
from trackside.contracts.topics import Topics, partition_of


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


async def events_after_restart(data_dir: Path) -> tuple[WorkerHarness, list[Any]]:
    """Runs another worker on the same data directory until task `a` has ended; returns it and the events."""
    topics = Topics("t.")
    async with running(await memory_log(topics), topics, settings_for(data_dir)) as harness:
        joined = await harness.joined()
        story = await harness.events_until_end("a")
        partition = partition_of("s-a", topics.events.partitions)
        ends = await harness.log.ends(topics.events.name)
        assert joined.after == {str(partition): ends[partition]}
    return harness, story
