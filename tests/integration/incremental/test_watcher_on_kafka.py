"""A watcher on the worker's own process and a real Kafka: either is killed, and paused past its lease.

The test is the dispatcher: it tells each watcher how far the log has come.
"""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.integration.incremental.harness import said, seen_up_to, watch
from tests.integration.worker.given import task_of
from tests.integration.worker.harness import WorkerHarness, of
from tests.integration.worker.processes import worker_process
from tests.stack import Servers
from tests.unit.incremental.given import end_of
from trackside.aggregates.dataset.messages import DatasetEnd
from trackside.contracts.envelope.message import Message
from trackside.contracts.tasks.device_commands import RunTask
from trackside.contracts.tasks.tasks import AttemptAdopted, AttemptEnd, AttemptEnded


@contextmanager
def worker(
    on_kafka: WorkerHarness, stack: Servers, folder: Path, *, adopt: bool = True
) -> Iterator[subprocess.Popen[bytes]]:
    """Starts the worker's process."""
    folders = {"data_dir": folder / "worker", "host_dir": folder / "host", "catalogue": task_of(folder)}
    with worker_process(on_kafka, stack.kafka_bootstrap, **folders, adopt=adopt) as process:
        yield process


class GrowingDataset:
    """A file that grows by numbered lines, and the ends that its watchers have reported."""

    def __init__(self, harness: WorkerHarness, path: Path) -> None:
        self.harness = harness
        self.path = path
        self.octets = b""
        self.ends: list[DatasetEnd] = []

    def grow(self, lines: int = 50) -> None:
        """Appends lines."""
        begin = self.octets.count(b"\n")
        added = b"".join(b"line %d\n" % number for number in range(begin, begin + lines))
        self.octets += added
        with self.path.open("ab") as file:
            file.write(added)

    async def watch(self, nth: int, **more: Any) -> RunTask:
        """Starts the nth watcher, which is told what the log has."""
        parameters = {"url": str(self.path), "format": "txt"}
        told = self.ends[-1] if self.ends else DatasetEnd()
        # The lease is longer than the start of a worker takes: until then a watcher without one lives on.
        return await watch(self.harness, parameters, told, attempt=nth, lease_s=60.0, **more)

    async def watch_until_killed(self, process: subprocess.Popen[bytes]) -> RunTask:
        """Starts the first watcher; kills its worker right after a growth, which may be in the log or not."""
        self.grow()
        command = await self.watch(1)
        await self.seen(command)
        self.grow()
        process.kill()
        return command

    async def seen(self, command: RunTask) -> None:
        """Waits until a watcher has reported all lines."""
        lines = self.octets.count(b"\n")
        await seen_up_to(self.harness, command, lines)
        await self.take(command)
        assert self.ends[-1] == end_of(self.octets, lines)

    async def take(self, command: RunTask) -> None:
        """Takes what a watcher has reported from the log; each end is one of the file's."""
        for each in said(await self.harness.events_so_far("a"), command):
            if "end" in each.detail:
                self.ends.append(DatasetEnd.model_validate(each.detail["end"]))
        for end in self.ends:
            octets = self.octets[: end.size]
            assert end == end_of(octets, octets.count(b"\n"))


def watcher_pid(worker_pid: int, folder: Path) -> int:
    """Returns the process below a worker that works in a folder of it: that of its one task."""
    waiting, found = [worker_pid], list[int]()
    while waiting:
        pid = waiting.pop()
        if Path(f"/proc/{pid}/cwd").readlink().is_relative_to(folder / "worker"):
            found.append(pid)
        for children in Path(f"/proc/{pid}/task").glob("*/children"):
            waiting += map(int, children.read_text().split())
    assert len(found) == 1, found
    return found[0]


async def ended_as(harness: WorkerHarness, command: RunTask) -> AttemptEnd:
    """Waits for the end of an attempt; returns how it ended."""

    def ends(messages: list[Message]) -> list[AttemptEnd]:
        return [each.end for each in of(messages, AttemptEnded) if each.attempt == command.attempt]

    messages = await harness.events(command.task_id, lambda all_: bool(ends(all_)))
    return ends(messages)[0]


async def test_a_watcher_whose_worker_is_killed_goes_on_without_loss(
    on_kafka: WorkerHarness, stack: Servers, tmp_path: Path
) -> None:
    """I36: nothing is split again after a restart."""
    dataset = GrowingDataset(on_kafka, tmp_path / "data.txt")
    with worker(on_kafka, stack, tmp_path) as process:
        command = await dataset.watch_until_killed(process)
    dataset.grow()
    with worker(on_kafka, stack, tmp_path):
        await on_kafka.joined(nth=2)
        (adopted,) = of(await on_kafka.events_so_far("a"), AttemptAdopted)
        assert adopted.attempt == command.attempt
        await dataset.seen(command)
        dataset.grow()
        await dataset.seen(command)


@pytest.mark.long
async def test_a_watcher_that_ends_with_its_worker_goes_on_without_loss(
    on_kafka: WorkerHarness, stack: Servers, tmp_path: Path
) -> None:
    dataset = GrowingDataset(on_kafka, tmp_path / "data.txt")
    with worker(on_kafka, stack, tmp_path, adopt=False) as process:
        command = await dataset.watch_until_killed(process)
    dataset.grow()
    with worker(on_kafka, stack, tmp_path, adopt=False):
        again = await on_kafka.joined(nth=2)
        assert await ended_as(on_kafka, command) is AttemptEnd.LOST
        await dataset.take(command)
        command = await dataset.watch(2, incarnation=again.incarnation)
        await dataset.seen(command)
        dataset.grow()
        await dataset.seen(command)


@pytest.mark.long
async def test_a_watcher_that_is_killed_or_whose_worker_sleeps_past_its_lease_goes_on_without_loss(
    on_kafka: WorkerHarness, stack: Servers, tmp_path: Path
) -> None:
    dataset = GrowingDataset(on_kafka, tmp_path / "data.txt")
    with worker(on_kafka, stack, tmp_path) as process:
        dataset.grow()
        command = await dataset.watch(1)
        await dataset.seen(command)
        os.kill(watcher_pid(process.pid, tmp_path), signal.SIGKILL)
        assert await ended_as(on_kafka, command) is AttemptEnd.FAILED
        dataset.grow()
        command = await dataset.watch(2)
        await dataset.seen(command)
        process.send_signal(signal.SIGSTOP)
        dataset.grow()
        await on_kafka.declare_lost(command.incarnation)
        process.send_signal(signal.SIGCONT)
        again = await on_kafka.joined(nth=2)
        assert await ended_as(on_kafka, command) is AttemptEnd.LOST
        command = await dataset.watch(3, incarnation=again.incarnation)
        await dataset.seen(command)
        await on_kafka.stop(command, device="host")
        assert await ended_as(on_kafka, command) is AttemptEnd.CANCELLED
