"""R4: the time until a killed dispatcher decides again, with one search of 10,000 ended trials.

The reference is the least that this can take: its imports in a new process, and the read of its snapshot.
"""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

import asyncpg

from bench import synthetic_log
from bench.log_watch import watch_topic
from bench.measurements import Figure, Goal, Measurements, check_count
from bench.new_database import create_database
from trackside.aggregates.search.messages import TrialSuggested, Tuner
from trackside.cli.setup import prepare
from trackside.contracts.envelope.ids import new_id
from trackside.contracts.envelope.message import Record
from trackside.contracts.envelope.topics import partition_of
from trackside.contracts.streams.commands import CommandAccepted, Ping
from trackside.eventlog.clock import monotonic_s
from trackside.eventlog.kafka.kafka_log import KafkaLog
from trackside.eventlog.log import Log
from trackside.eventlog.settings.settings import StackSettings
from trackside.sdk.connection.publication import command_record

STREAM, DATABASE, PREFIX = "digits-0000", "bench_recovery", "bench-recovery."
LIMIT_S = 120.0
SNAPSHOT = "SELECT count(*) FROM trackside.snapshots WHERE stream_id = $1 AND log_offset >= $2"
STATE = "SELECT state FROM trackside.snapshots"
BARE = "import trackside.dispatcher.app"
RUNS = 3
"""How often it is killed; the median is the figure."""


async def measure(bootstrap: str, dsn: str, trials: int) -> Measurements:
    """Writes the search, starts a dispatcher that folds it from offset 0, and kills it several times."""
    settings = StackSettings(
        kafka_bootstrap=bootstrap, postgres_dsn=await create_database(dsn, DATABASE), topic_prefix=PREFIX
    )
    await prepare(settings)
    start_search = synthetic_log.command().model_copy(
        update={"max_trials": 10 * trials, "tuner": Tuner(name="tpe"), "concurrency": 2}
    )
    async with KafkaLog(bootstrap, client_id="bench") as log:
        await synthetic_log.join(log, settings.topics)
        start = command_record(start_search, STREAM, new_id(), "trackside/sdk/bench", "")
        await log.publish(settings.topics.commands.name, 0, start)  # the source that the search names
        events = await synthetic_log.write_open_search(log, settings.topics, STREAM, trials, start_search)
        return await _measured(log, settings, trials, events)


async def _measured(log: Log, settings: StackSettings, trials: int, events: int) -> Measurements:
    dispatcher_run = _DispatcherRun(log, settings)
    async with watch_topic(log, settings.topics.events) as watch:

        async def until(fits: Callable[[Record], bool], began: float) -> float:
            return (await watch.until(fits, LIMIT_S)).at_s - began

        began = monotonic_s()
        async with dispatcher_run.dispatcher():
            whole_s = await until(_suggests(trials), began)
            await until(_suggests(trials + 1), began)
            await dispatcher_run.snapshot(watch.seen[-1].record.offset)
        answers, suggestions = [], []
        for trial in range(trials, trials + RUNS):
            await synthetic_log.end_trial(log, settings.topics, STREAM, trial)
            command_id = await dispatcher_run.ping()
            began = monotonic_s()
            async with dispatcher_run.dispatcher():
                answers.append(await until(_answers(command_id), began))
                suggestions.append(await until(_suggests(trial + 2), began))
                await dispatcher_run.snapshot(watch.seen[-1].record.offset)
        suggested = sum(isinstance(seen.record.message, TrialSuggested) for seen in watch.seen)
    bare_s, read_bytes = await dispatcher_run.minimum()
    figures = [
        Figure(
            "R4", f"dispatcher back, {trials:,} ended", sorted(answers)[RUNS // 2], "s", bare_s,
            "imports, snapshot read", Goal(5, 2, at_most=True),
        ),
        Figure("R4", "the same, next suggestion", sorted(suggestions)[RUNS // 2], "s", bare_s, "the same"),
        Figure("R4", "the same, without a snapshot", whole_s, "s", bare_s, "the same"),
    ]  # fmt: skip
    details = {"recovery_s": {"answers": answers, "suggestions": suggestions}, "snapshot_bytes": read_bytes}
    counted = [
        check_count("suggestions after a kill", suggested - 2, RUNS),
        f"{events:,} events of one search, a snapshot of {read_bytes / 1e6:.1f} MB",
    ]
    return Measurements(figures, counted, details)


class _DispatcherRun:
    """The dispatcher that is killed, and its snapshots."""

    def __init__(self, log: Log, settings: StackSettings) -> None:
        self._log = log
        self._settings = settings

    @asynccontextmanager
    async def dispatcher(self) -> AsyncIterator[None]:
        """Runs a dispatcher as a process, and kills it."""
        process = subprocess.Popen(  # noqa: ASYNC220
            [sys.executable, "-m", "trackside.dispatcher"], env=self._variables(), stderr=subprocess.DEVNULL
        )
        try:
            yield
        finally:
            process.kill()
            process.wait()

    async def ping(self) -> str:
        """Publishes a ping and returns its id."""
        command_id, topic = new_id(), self._settings.topics.commands
        record = command_record(Ping(), STREAM, command_id, "trackside/sdk/bench", "")
        await self._log.publish(topic.name, partition_of(STREAM, topic.partitions), record)
        return command_id

    async def snapshot(self, offset: int) -> None:
        """Waits until the snapshot of the search includes an offset."""
        connection = await asyncpg.connect(self._settings.postgres_dsn)
        try:
            async with asyncio.timeout(LIMIT_S):
                while not await connection.fetchval(SNAPSHOT, STREAM, offset):  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
        finally:
            await connection.close()

    async def minimum(self) -> tuple[float, int]:
        """Returns the seconds for the imports and the snapshot's bytes alone, and the number of bytes."""
        began = monotonic_s()
        bare = await asyncio.create_subprocess_exec(sys.executable, "-c", BARE, env=self._variables())
        await bare.wait()
        connection = await asyncpg.connect(self._settings.postgres_dsn)
        try:
            states = [row["state"] for row in await connection.fetch(STATE)]
        finally:
            await connection.close()
        return monotonic_s() - began, sum(map(len, states))

    def _variables(self) -> Mapping[str, str]:
        settings = self._settings
        return {
            **os.environ,
            "TRACKSIDE_KAFKA_BOOTSTRAP": settings.kafka_bootstrap,
            "TRACKSIDE_POSTGRES_DSN": settings.postgres_dsn,
            "TRACKSIDE_TOPIC_PREFIX": settings.topic_prefix,
        }


def _suggests(trial: int) -> Callable[[Record], bool]:
    return lambda record: isinstance(record.message, TrialSuggested) and record.message.trial == trial


def _answers(command_id: str) -> Callable[[Record], bool]:
    return lambda r: isinstance(r.message, CommandAccepted) and r.message.command_id == command_id
