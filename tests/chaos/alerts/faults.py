"""Faults of a watched stack: each causes what an alert is about, until the alert fires, and ends it."""

import asyncio
import itertools
import os
import secrets
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path

import pytest
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from tests.chaos.alerts.installation import SECOND, SLOTS, Installation
from tests.polling import elapse, poll_until
from trackside.aggregates.batch.messages import GroupSpec, StopTasks, SubmitTasks, TaskSpec
from trackside.aggregates.search.messages import StopSearch
from trackside.contracts.resources import Resources
from trackside.contracts.topics import MAX_RECORD_BYTES
from trackside.embedded import processes
from trackside.embedded.processes import ProcessSpec
from trackside.eventlog.log import Outgoing

Fault = Callable[[Installation], AbstractAsyncContextManager[None]]
MIB = 2**20
GREEDY = 8
SLOW_S = 1.2
"""How late responses of the broker are: more than the second within which a command is to be answered."""
PUBLISHERS = 20
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
    async with _second_dispatcher(on), _meanwhile(_commands(on, "twice")):
        yield


@asynccontextmanager
async def broker_slow_for_dispatcher(on: Installation) -> AsyncIterator[None]:
    """Delays what the broker answers the dispatcher, which refuses many commands meanwhile."""
    async with _meanwhile(_commands(on, "late")):
        await _until_positive(on, "sum(rate(trackside_dispatcher_refused_commands_total[1m]))")
        on.to_dispatcher.slow(SLOW_S)
        try:
            yield
        finally:
            on.to_dispatcher.slow(0)


@asynccontextmanager
async def appends_held_back(on: Installation) -> AsyncIterator[None]:
    """Lets dispatcher and scheduler read, and not append, while more tasks wait than devices are free."""
    await on.start_search("held", 20, 1.0, 3 * SLOTS)
    await _until_positive(on, 'trackside_scheduler_queue_tasks{reason="device_busy"}')
    for proxy in (on.to_dispatcher, on.to_scheduler):
        proxy.hold_appends()
    try:
        yield
    finally:
        for proxy in (on.to_dispatcher, on.to_scheduler):
            proxy.pass_appends()
    await on.client.wait("held", timeout_s=120)


@asynccontextmanager
async def broker_gone_before_it_acknowledged(on: Installation) -> AsyncIterator[None]:
    """Cuts the dispatcher off from the broker, from which it awaits an acknowledgement."""
    on.to_dispatcher.hold_appends()
    await on.client.publish(StopSearch(), "unanswered")
    await on.to_dispatcher.until_held()
    on.to_dispatcher.refuse()
    try:
        yield
    finally:
        on.to_dispatcher.accept()
        on.to_dispatcher.pass_appends()


@asynccontextmanager
async def disk_nearly_full(on: Installation) -> AsyncIterator[None]:
    """Fills the disk of the stack until a little is left."""
    on.disk.fill(leave_bytes=100 * MIB)
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


CAUSES: Mapping[Fault, tuple[str, ...]] = {
    worker_paused: ("TracksideServiceDown", "TracksideWorkerLost"),
    undecodable_record: ("TracksideDeadLetters",),
    task_without_worker: ("TracksideTasksUnschedulable",),
    tasks_out_of_memory: ("TracksideOutOfMemory",),
    indexer_starved: ("TracksideEventLoopLate",),
    postgres_unreachable: ("TracksidePostgresUnreachable", "TracksideReadModelsLate"),
    second_dispatcher_with_a_wrong_clock: ("TracksideDecisionsWithoutEffect", "TracksideClockSkew"),
    broker_slow_for_dispatcher: (
        "TracksideLogLag",
        "TracksideDecisionsSlow",
        "TracksideCommandsLateFast",
        "TracksideCommandsLateSlow",
        "TracksideCommandsRefused",
    ),
    appends_held_back: (
        "TracksideAppendsUnanswered",
        "TracksideNoDecisions",
        "TracksideDeviceIdle",
        "TracksideSearchStalled",
    ),
    broker_gone_before_it_acknowledged: ("TracksideServiceNotReady",),
    disk_nearly_full: ("TracksideDiskLow", "TracksideDiskFilling"),
    decision_too_large: ("TracksideServiceAbsent",),
    service_killed_again: ("TracksideServiceRestarts",),
}
"""Which alerts each fault causes."""


async def fire(on: Installation, fault: Fault) -> None:
    """Causes a fault until all of its alerts have fired, which did not fire before."""
    alerts = CAUSES[fault]
    await on.watched_by.until_silent(*alerts)
    async with fault(on):
        await on.watched_by.until_fired(*alerts)


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
            published = await on.client.publish(StopSearch(), f"{name}-{publisher}-{number}")
            await on.client.answer(published, timeout_s=60)

    await asyncio.gather(*(publish(publisher) for publisher in range(PUBLISHERS)))


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
async def _second_dispatcher(on: Installation) -> AsyncIterator[None]:
    spec = ProcessSpec(
        name=SECOND,
        argv=[sys.executable, "-m", "trackside.dispatcher"],
        log=str(on.running.folder / "logs" / f"{SECOND}.log"),
        env={
            **on.variables,
            "TRACKSIDE_INSTANCE": "2",
            "TRACKSIDE_HEALTH_PORT": str(on.second_port),
            "LD_PRELOAD": str(_wrong_clock(on.running.folder)),
            "CLOCK_OFFSET_S": str(CLOCK_AHEAD_S),
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
