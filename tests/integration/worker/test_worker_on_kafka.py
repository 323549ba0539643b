"""The worker's own process on a real Kafka: joins, runs torch on digits, is killed, comes back, leaves."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.integration.worker.harness import EXAMPLES, LIMIT_S, WorkerHarness, alive, of
from tests.stack import Servers
from trackside.contracts.fleet import WorkerJoined, WorkerLeft
from trackside.contracts.tasks import (
    AttemptAdopted,
    AttemptEnd,
    AttemptEnded,
    MetricReported,
    TaskStatusChanged,
)
from trackside.contracts.topics import Topics
from trackside.eventlog.kafka import KafkaLog

GOOD = {"lr": 0.005, "hidden": 64.0, "dropout": 0.1, "optimizer": "adam"}


@pytest.fixture
async def harness(stack: Servers, topic_prefix: str) -> AsyncIterator[WorkerHarness]:
    topics = Topics(topic_prefix)
    async with KafkaLog(stack.kafka_bootstrap, client_id="test") as log:
        await log.ensure(topics.shared)
        yield WorkerHarness(log, topics, "w1")


@contextmanager
def worker(
    harness: WorkerHarness, stack: Servers, data_dir: Path, example: str
) -> Iterator[subprocess.Popen[bytes]]:
    """Starts the worker's process."""
    environment = {
        **os.environ,
        "TRACKSIDE_KAFKA_BOOTSTRAP": stack.kafka_bootstrap,
        "TRACKSIDE_TOPIC_PREFIX": harness.topics.prefix,
        "TRACKSIDE_WORKER_ID": harness.worker_id,
        "TRACKSIDE_WORKER_DATA_DIR": str(data_dir),
        "TRACKSIDE_WORKER_CATALOGUE": str(EXAMPLES / example / "catalogue.yaml"),
        "TRACKSIDE_WORKER_PRELOAD": "torch" if example == "digits" else "",
    }
    with subprocess.Popen([sys.executable, "-m", "trackside.worker"], env=environment) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.timeout(300)  # it may be the one that starts the servers
async def test_the_demo_task_learns_digits(harness: WorkerHarness, stack: Servers, tmp_path: Path) -> None:
    with worker(harness, stack, tmp_path, "digits") as process:
        await harness.run("good", GOOD, task_type="digits")
        await harness.run(
            "bad", {**GOOD, "lr": 0.0001, "optimizer": "sgd"}, task_type="digits", device="cpu-1"
        )
        good, bad = await asyncio.gather(harness.events_until_end("good"), harness.events_until_end("bad"))
        process.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(process.wait, LIMIT_S) == 0
    assert [event.end for event in of(good + bad, AttemptEnded)] == [AttemptEnd.FINISHED] * 2
    (first, second) = of(good + bad, AttemptEnded)
    assert first.result is not None and first.result["accuracy"] >= 0.95
    assert second.result is not None and second.result["accuracy"] < 0.8
    assert len(of(good, MetricReported)) == first.result["epochs"] + 1
    await harness.first(WorkerLeft, harness.topics.fleet, harness.worker_id)


async def test_a_worker_killed_on_kafka_comes_back_and_has_its_task_still(
    harness: WorkerHarness, stack: Servers, tmp_path: Path
) -> None:
    with worker(harness, stack, tmp_path, "noop") as process:
        command = await harness.run("a", {"tell_pid": True, "wait_for_stop": True})
        pid = await harness.pid("a")
        process.kill()
    with worker(harness, stack, tmp_path, "noop"):
        joined = await harness.joined(nth=2)
        adopted = await harness.first(AttemptAdopted, harness.topics.events, "s-a")
        assert (adopted.incarnation, adopted.earlier) == (joined.incarnation, (command.incarnation,))
        assert alive(pid) and joined.after
        await harness.stop(command.model_copy(update={"incarnation": joined.incarnation}))
        end = await harness.end("a")
        assert (end.end, end.recovered, end.incarnation) == (AttemptEnd.FINISHED, False, joined.incarnation)
        assert end.result is not None and end.result["pid"] == pid
        await harness.run("b", incarnation=joined.incarnation)
        story = await harness.events_until_end("b")
    assert isinstance(story[-1], AttemptEnded) and story[-1].end is AttemptEnd.FINISHED
    assert len(of(story, TaskStatusChanged)) == 4


async def test_a_worker_that_is_told_to_hand_over_ends_with_0_and_its_task_is_where_it_was(
    harness: WorkerHarness, stack: Servers, tmp_path: Path
) -> None:
    with worker(harness, stack, tmp_path, "noop") as process:
        command = await harness.run("a", {"tell_pid": True, "wait_for_stop": True})
        pid = await harness.pid("a")
        process.send_signal(signal.SIGUSR1)
        assert await asyncio.to_thread(process.wait, LIMIT_S) == 0
        assert alive(pid)
    with worker(harness, stack, tmp_path, "noop"):
        joined = await harness.joined(nth=2)
        await harness.stop(command.model_copy(update={"incarnation": joined.incarnation}))
        end = await harness.end("a")
        assert end.result is not None and end.result["pid"] == pid
    fleet = await harness.messages(harness.topics.fleet, "w1", lambda all_: len(of(all_, WorkerJoined)) == 2)
    assert not of(fleet, WorkerLeft)


async def test_a_worker_killed_on_kafka_that_adopts_no_tasks_comes_back_and_says_what_was_lost(
    harness: WorkerHarness, stack: Servers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACKSIDE_WORKER_ADOPT", "false")
    with worker(harness, stack, tmp_path, "noop") as process:
        command = await harness.run("a", {"tell_pid": True, "seconds": 600})
        pid = await harness.pid("a")
        process.kill()
    with worker(harness, stack, tmp_path, "noop"):
        joined = await harness.joined(nth=2)
        assert not alive(pid)
        end = await harness.end("a")
        assert (end.end, end.recovered, end.incarnation) == (AttemptEnd.LOST, True, command.incarnation)
        assert joined.after and joined.incarnation != command.incarnation


async def test_fm_13_a_worker_that_slept_past_its_lease_ends_its_tasks_and_joins_anew(
    harness: WorkerHarness, stack: Servers, tmp_path: Path
) -> None:
    with worker(harness, stack, tmp_path, "noop") as process:
        command = await harness.run("a", {"tell_pid": True, "seconds": 600})
        pid = await harness.pid("a")
        process.send_signal(signal.SIGSTOP)
        await harness.declare_lost(command.incarnation)
        process.send_signal(signal.SIGCONT)
        joined = await harness.joined(nth=2)
        assert not alive(pid) and joined.incarnation != command.incarnation
        assert (await harness.end("a")).end is AttemptEnd.LOST
        await harness.run("b", incarnation=joined.incarnation)
        assert (await harness.end("b")).end is AttemptEnd.FINISHED


def test_a_bad_catalogue_ends_the_worker_with_2_and_names_file_key_and_rule(tmp_path: Path) -> None:
    path = tmp_path / "catalogue.yaml"
    path.write_text("tasks: {a: {entry: nothing}}")
    environment = {**os.environ, "TRACKSIDE_WORKER_CATALOGUE": str(path)}
    ended = subprocess.run(
        [sys.executable, "-m", "trackside.worker"], env=environment, capture_output=True, text=True
    )
    assert ended.returncode == 2
    assert f"{path}: $.tasks.a.entry: expected module:Class" in ended.stderr
