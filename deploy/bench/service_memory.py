"""The memory of dispatcher and scheduler with one open search of 10,000 ended trials.

First as they are after they folded its log from offset 0, then after a restart from the snapshots.
"""

from dataclasses import asdict

from bench import synthetic_log
from bench.measurements import Figure, Measurements
from bench.new_database import create_database
from bench.own_services import NAMES, OwnService, ServiceMemory, running, until_saved
from trackside.cli.setup import prepare
from trackside.contracts.envelope.ids import new_id
from trackside.contracts.envelope.topics import partition_of
from trackside.eventlog.kafka.kafka_log import KafkaLog
from trackside.eventlog.settings.settings import StackSettings
from trackside.sdk.connection.publication import command_record

STREAM, DATABASE, PREFIX = "digits-0000", "bench_memory", "bench-memory."
Memories = dict[str, ServiceMemory]


async def measure(bootstrap: str, dsn: str, trials: int) -> Measurements:
    """Reads the memory without a search, with the search folded, and after a restart."""
    settings = StackSettings(
        kafka_bootstrap=bootstrap, postgres_dsn=await create_database(dsn, DATABASE), topic_prefix=PREFIX
    )
    await prepare(settings)
    empty = (await _memories(settings))[0]
    async with KafkaLog(bootstrap, client_id="bench") as log:
        await synthetic_log.join(log, settings.topics)
        start_search = synthetic_log.command().model_copy(update={"max_trials": 10 * trials})
        start = command_record(start_search, STREAM, new_id(), "trackside/sdk/bench", "")
        await log.publish(settings.topics.commands.name, 0, start)  # the source that the search names
        events = await synthetic_log.write_open_search(log, settings.topics, STREAM, trials, start_search)
        ends = await log.ends(settings.topics.events.name)
    last = ends[partition_of(STREAM, settings.topics.events.partitions)] - 1
    folded, fold_s = await _memories(settings, last)
    restarted, restart_s = await _memories(settings)
    figures = [figure for name in NAMES for figure in _figures(name, trials, empty, folded, restarted)]
    figures += [
        Figure("-", "both ready, folding all", fold_s, "s"),
        Figure("-", "both ready, from snapshots", restart_s, "s", fold_s, "folding all"),
    ]
    details = {
        when: {name: asdict(memory) for name, memory in memories.items()}
        for when, memories in (("empty", empty), ("folded", folded), ("restarted", restarted))
    }
    return Measurements(figures, [f"{events:,} events folded by each service"], {"memory_mb": details})


async def _memories(settings: StackSettings, offset: int | None = None) -> tuple[Memories, float]:
    """Returns the memory of both when they have nothing left to do, and the s until they were ready.

    The snapshot of the search includes `offset` then, if one is given.
    """
    services = [OwnService(name, settings) for name in NAMES]
    async with running(services) as ready_s:
        if offset is not None:
            await until_saved(settings, STREAM, offset)
        for service in services:
            await service.until_quiet()
        return {service.name: service.memory() for service in services}, ready_s


def _figures(name: str, trials: int, empty: Memories, folded: Memories, restarted: Memories) -> list[Figure]:
    without, reference = empty[name], "no search"
    after, again = folded[name], restarted[name]
    return [
        Figure("-", f"{name}, {trials:,} ended", after.proportional, "MB", without.proportional, reference),
        Figure("-", "the same, resident", after.resident, "MB", without.resident, reference),
        Figure("-", "the same, restarted", again.proportional, "MB", without.proportional, reference),
        Figure("-", "the same, resident", again.resident, "MB", without.resident, reference),
    ]
