"""Faults of a watched stack: each causes what an alert is about, until the alert fires, and ends it."""

import asyncio
import itertools
import os
import secrets
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

import pytest
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from tests.chaos.alerts.installation import SECOND, SETTINGS, SLOTS, Installation
from tests.polling import elapse, poll_until
from trackside.aggregates.batch.messages import GroupSpec, StopTasks, SubmitTasks, TaskSpec
from trackside.aggregates.search.messages import StopSearch, Tuner
from trackside.contracts.envelope.topics import MAX_RECORD_BYTES, partition_of
from trackside.contracts.fleet.fleet import WorkerHeartbeat
from trackside.contracts.streams.parking import SkipRecord
from trackside.contracts.tasks.resources import Resources
from trackside.embedded import processes
from trackside.embedded.processes import ProcessSpec
from trackside.eventlog.keys.record_writer import RecordWriter
from trackside.eventlog.log import Outgoing

MIB = 2**20
LEFT_BYTES = 40 * MIB
"""What a full disk has left: less than 5%."""
GREEDY = 8
SLOW_S = 1.2
"""How late appends are: more than the second within which a command is to be answered."""
PUBLISHERS = 20
PATIENCE_S = 120.0
"""How long a command may take while the broker is slow, and the machine busy."""
HEARTBEAT_S = 0.2
MANY_TRIALS = 500
"""More than a standby starts in the moments in which the log is silent, on a busy machine."""
STOPPED_S, RUNNING_S = 1.5, 0.4
"""How long a process is paused and runs, again and again: enough for a scrape."""
CLOCK_AHEAD_S = 60
TOO_SMALL_BYTES = 900
REASON = secrets.token_hex(450)
"""A text that makes a decision larger than that, also compressed."""


@asynccontextmanager
async def worker_paused(on: Installation) -> AsyncIterator[None]:
    """Pauses the only worker."""
    async with _paused(on.pid("worker")):
        yield


@asynccontextmanager
async def undecodable_record(on: Installation) -> AsyncIterator[None]:
    """Publishes what is no command."""
    await on.log.publish(on.topics.commands.name, 0, Outgoing(b"key", b"not a command", []))
    yield


@asynccontextmanager
async def stream_parked(on: Installation) -> AsyncIterator[None]:
    """Writes an event of a newer release, which parks its stream until it is skipped."""
    stream, topic = "parked", on.topics.events
    partition = partition_of(stream, topic.partitions)
    headers = {
        "ce_id": b"new-1",
        "ce_type": b"trackside.trial-cloned.v1",
        "ce_source": b"trackside/dispatcher/1",
        "ce_partitionkey": stream.encode(),
    }
    record = Outgoing(stream.encode(), b"{}", [*headers.items()])
    written = await on.log.append(topic.name, partition, [record])
    yield
    await on.client.send(SkipRecord(partition=partition, offset=written.offset, reason="a test"), stream)


@asynccontextmanager
async def task_without_worker(on: Installation) -> AsyncIterator[None]:
    """Submits a task that needs a GPU, which no worker has."""
    needs = Resources(kind="gpu")
    task = TaskSpec(task_type="working", parameters={"seconds": 0.1}, resources=needs)
    await on.client.submit_tasks(SubmitTasks(groups=[GroupSpec(tasks=[task])]), "without-worker")
    yield
    await on.client.send(StopTasks(), "without-worker")


@asynccontextmanager
async def tasks_out_of_memory(on: Installation) -> AsyncIterator[None]:
    """Submits tasks that take more memory than there is."""
    tasks = [TaskSpec(task_type="greedy")] * GREEDY
    await on.client.submit_tasks(SubmitTasks(groups=[GroupSpec(tasks=tasks)]), "greedy")
    yield


@asynccontextmanager
async def inputs_of_people(on: Installation) -> AsyncIterator[None]:
    """Publishes, one after the other, all that is wrong without a process or a server being so."""
    async with AsyncExitStack() as made:
        for fault in (
            undecodable_record,
            stream_parked,
            task_without_worker,
            tasks_out_of_memory,
            tuner_absent,
            trial_hangs,
        ):
            await made.enter_async_context(fault(on))
        yield


@asynccontextmanager
async def indexer_starved(on: Installation) -> AsyncIterator[None]:
    """Lets a service run for a part of the time only, as a limit of its processor does."""
    pid = on.pid("summary-indexer")

    async def starve() -> None:
        while True:
            async with _paused(pid):
                await elapse(STOPPED_S)
            await elapse(RUNNING_S)

    async with _meanwhile(starve()):
        yield


@asynccontextmanager
async def postgres_unreachable(on: Installation) -> AsyncIterator[None]:
    """Refuses the connections of the dispatcher and the summary-indexer to Postgres while a search runs."""
    on.to_postgres.refuse()
    try:
        await on.start_search("unwritten", 4, 0.2, SLOTS)
        yield
    finally:
        on.to_postgres.accept()


@asynccontextmanager
async def second_dispatcher_with_a_wrong_clock(on: Installation) -> AsyncIterator[None]:
    """Runs a second dispatcher that decides at the same time, and whose clock is a minute ahead."""
    clock = {"LD_PRELOAD": str(_wrong_clock(on.running.folder)), "CLOCK_OFFSET_S": str(CLOCK_AHEAD_S)}
    async with _second(on, "dispatcher", clock), _meanwhile(_commands(on, "twice")):
        yield


@asynccontextmanager
async def appends_of_dispatcher_slow(on: Installation) -> AsyncIterator[None]:
    """Delays what the dispatcher appends, which refuses many commands meanwhile."""
    async with _meanwhile(_commands(on, "late")):
        await _until_positive(on, "sum(rate(trackside_dispatcher_refused_commands_total[1m]))")
        on.to_dispatcher.slow_appends(SLOW_S)
        try:
            yield
        finally:
            on.to_dispatcher.slow_appends(0)


@asynccontextmanager
async def reads_of_scheduler_held_back(on: Installation) -> AsyncIterator[None]:
    """Lets the broker answer all requests of the scheduler, except those to read."""
    on.to_scheduler.hold_reads()
    try:
        yield
    finally:
        on.to_scheduler.pass_reads()


@asynccontextmanager
async def appends_of_scheduler_held_back(on: Installation) -> AsyncIterator[None]:
    """Lets the scheduler read, and not append, while a search runs."""
    on.to_scheduler.hold_appends()
    try:
        await on.start_search("held", 2 * SLOTS, 0.2, SLOTS)
        yield
    finally:
        on.to_scheduler.pass_appends()
    await on.client.wait("held", timeout_s=120)


@asynccontextmanager
async def scheduler_paused_while_the_log_is_busy(on: Installation) -> AsyncIterator[None]:
    """Pauses the scheduler; its standby decides once the log is silent, which it isn't with many workers."""
    async with _second(on, "scheduler", {"TRACKSIDE_SCHEDULER_STANDBY": "true"}):
        await _until_positive(on, f'trackside_health_ready_services{{job="{SECOND}"}}')
        async with _paused(on.pid("scheduler")), _meanwhile(_heartbeats(on)):
            await on.start_search("idle", MANY_TRIALS, 0.05, 2 * SLOTS)
            yield
        await on.client.send(StopSearch(), "idle")


@asynccontextmanager
async def tuner_absent(on: Installation) -> AsyncIterator[None]:
    """Starts a search whose tuner is a process that does not run."""
    tuner = Tuner(name="absent", remote=True, time_limit_s=3_600)
    await on.start_search("untuned", 4, 0.2, SLOTS, tuner)
    yield
    await on.client.send(StopSearch(), "untuned")


@asynccontextmanager
async def trial_hangs(on: Installation) -> AsyncIterator[None]:
    """Starts a search whose only trial works, and reports nothing."""
    await on.start_search("hanging", 1, 3_600, 1)
    yield
    await on.client.send(StopSearch(), "hanging")


@asynccontextmanager
async def broker_unreachable(on: Installation) -> AsyncIterator[None]:
    """Refuses the connections of the dispatcher to the broker, while it has nothing to do."""
    on.to_dispatcher.refuse()
    try:
        yield
    finally:
        on.to_dispatcher.accept()


@asynccontextmanager
async def disk_nearly_full(on: Installation) -> AsyncIterator[None]:
    """Fills the disk of the stack until a little is left."""
    on.disk.fill(leave_bytes=LEFT_BYTES)
    try:
        yield
    finally:
        on.disk.empty()


@asynccontextmanager
async def decision_too_large(on: Installation) -> AsyncIterator[None]:
    """Lets the broker take small batches only: the decision can't be appended, and the dispatcher ends."""
    await _limit_batches(on, TOO_SMALL_BYTES)
    try:
        await on.client.publish(StopSearch(reason=REASON), "too-large")
        yield
    finally:
        await _limit_batches(on, MAX_RECORD_BYTES)


@asynccontextmanager
async def service_killed_again(on: Installation) -> AsyncIterator[None]:
    """Kills a service three times, each time when Prometheus has seen that it started again."""
    series = 'process_start_time_seconds{job="summary-indexer"}'
    for _ in range(3):
        before = await asyncio.to_thread(on.watched_by.query, series)
        os.kill(on.pid("summary-indexer"), signal.SIGKILL)
        await _until_other(on, series, before)
    yield


@asynccontextmanager
async def decision_too_long(on: Installation) -> AsyncIterator[None]:
    """Sends the dispatcher the signal of the timer of decisions, which ends it with its stack traces."""
    series = 'process_start_time_seconds{job="dispatcher"}'
    before = await asyncio.to_thread(on.watched_by.query, series)
    os.kill(on.pid("dispatcher"), signal.SIGPROF)
    await _until_other(on, series, before)
    yield


@asynccontextmanager
async def _paused(pid: int) -> AsyncIterator[None]:
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


@asynccontextmanager
async def _meanwhile(work: Coroutine[None, None, None]) -> AsyncIterator[None]:
    """Runs a coroutine during the block; an error of it fails the block."""
    async with asyncio.TaskGroup() as group:
        running = group.create_task(work)
        yield
        running.cancel()


async def _commands(on: Installation, name: str) -> None:
    """Publishes commands that are refused, each when the one before it is answered."""

    async def publish(publisher: int) -> None:
        for number in itertools.count():
            published = await on.client.publish(
                StopSearch(), f"{name}-{publisher}-{number}", timeout_s=PATIENCE_S
            )
            await on.client.answer(published, timeout_s=PATIENCE_S)

    await asyncio.gather(*(publish(publisher) for publisher in range(PUBLISHERS)))


async def _heartbeats(on: Installation) -> None:
    """Publishes as many heartbeats as a large fleet does."""

    async def publish(worker: str) -> None:
        writer = RecordWriter("worker", worker)
        heartbeat = WorkerHeartbeat(worker_id=worker, incarnation=worker, running=[])
        while True:
            await on.log.publish(on.topics.heartbeats.name, 0, writer.single(worker, heartbeat))
            await elapse(HEARTBEAT_S)

    await asyncio.gather(*(publish(f"worker-{number}") for number in range(PUBLISHERS)))


async def _until_positive(on: Installation, series: str) -> None:
    async def positive() -> bool:
        found = await asyncio.to_thread(on.watched_by.query, series)
        return any(value > 0 for _, value in found)

    await poll_until(positive)


async def _until_other(on: Installation, series: str, before: list[tuple[dict[str, str], float]]) -> None:
    async def other() -> bool:
        found = await asyncio.to_thread(on.watched_by.query, series)
        return bool(found) and found != before

    await poll_until(other)


@asynccontextmanager
async def _second(on: Installation, service: str, settings: Mapping[str, str]) -> AsyncIterator[None]:
    """Runs a second instance of a service, with these settings."""
    spec = ProcessSpec(
        name=SECOND,
        argv=[sys.executable, "-m", f"trackside.{service}"],
        log=str(on.running.folder / "logs" / f"{SECOND}.log"),
        env={
            **SETTINGS,
            **on.variables,
            "TRACKSIDE_INSTANCE": "2",
            "TRACKSIDE_HEALTH_PORT": str(on.second_port),
            **settings,
        },
    )
    process = processes.spawn(spec)
    try:
        yield
    finally:
        process.terminate()
        await asyncio.to_thread(process.wait)


def _wrong_clock(folder: Path) -> Path:
    """Compiles the wrong clock; skips the test where nothing compiles C."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("the wrong clock is written in C, and there is no cc, gcc or clang here")
    library = folder / "clock.so"
    source = Path(__file__).with_name("clock.c")
    options = ["-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror"]
    subprocess.run([compiler, *options, "-o", str(library), str(source), "-ldl"], check=True)
    return library


async def _limit_batches(on: Installation, size: int) -> None:
    """Sets the size in bytes of the largest batch of events; what is not named is set to its default."""
    topic = on.topics.events
    settings = {**topic.settings, "max.message.bytes": str(size)}
    admin = AIOKafkaAdminClient(bootstrap_servers=on.variables["TRACKSIDE_KAFKA_BOOTSTRAP"])
    await admin.start()
    try:
        await admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic.name, configs=settings)])
    finally:
        await admin.close()
