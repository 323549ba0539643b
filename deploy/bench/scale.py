"""One search of very many trials on simulated devices, decided by a dispatcher and a scheduler of its own.

The simulated workers stop to end tasks after the last trial that is counted, so the search stays open: its
state is what the services have to keep, save and load again.
"""

import argparse
import asyncio
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import asyncpg
from rich.console import Console
from rich.table import Table

from bench.command_latency import publish, search
from bench.cpu_time import tree_ms
from bench.log_watch import LogWatch, watch_topic
from bench.measurements import Measurements, MissingError, check_count
from bench.new_database import create_database
from bench.own_services import NAMES, OwnService, ServiceMemory, running, until_saved, variables_of
from bench.simulated_fleet import TASK_TYPE, SimulatedFleet
from trackside.aggregates.registry import AGGREGATES
from trackside.aggregates.search.messages import TrialEnded
from trackside.cli.setup import prepare
from trackside.contracts.envelope.ids import new_id
from trackside.contracts.envelope.topics import partition_of
from trackside.contracts.streams.commands import CommandReceived
from trackside.domain.folding.streams import load, pack
from trackside.embedded.stack import Stack
from trackside.eventlog.clock import monotonic_s
from trackside.eventlog.kafka.kafka_log import KafkaLog
from trackside.eventlog.settings.settings import StackSettings

PART = "scale"
STREAM = "scale"
TRIALS_PER_S, START_S = 5, 120
"""A run ends as failed if fewer trials end a second, after so many seconds for its start."""
MORE = 100_000
"""How many more trials the search may have, so that it stays open."""
CALLS = 3
STATE = "SELECT state FROM trackside.snapshots WHERE stream_id = $1"


@dataclass(frozen=True, slots=True)
class ScaleResult:
    """What was measured at one number of trials; memory is resident and proportional, in MB."""

    trials: int
    devices: int
    trials_per_s: float
    last_tenth_per_s: float
    cpu_ms: dict[str, float]
    memory: dict[str, ServiceMemory]
    restarted: dict[str, ServiceMemory]
    snapshot_mb: float
    load_s: float
    pack_s: float
    restart_s: float
    ls_s: float
    show_s: float


async def measure_part(stack: Stack, options: argparse.Namespace, console: Console) -> list[Measurements]:
    """Measures each of the numbers of trials if it is wanted, and prints the table."""
    if PART not in options.parts:
        return []
    found = []
    for trials in options.scale_trials or [1_000, 10_000]:
        console.print(f"{trials:,} trials on {options.scale_devices:,} simulated devices")
        found.append(await measure(stack, trials, options.scale_devices))
    _print_table(console, found)
    counted = [check_count(f"trials on {each.devices:,} devices", each.trials, each.trials) for each in found]
    return [Measurements([], counted, {"scale": [asdict(each) for each in found]})]


async def measure(stack: Stack, trials: int, devices: int) -> ScaleResult:
    """Runs one search in topics and a database of its own."""
    settings = StackSettings(
        kafka_bootstrap=stack.bootstrap_servers,
        postgres_dsn=await create_database(stack.postgres_dsn, f"bench_scale_{trials}"),
        topic_prefix=f"bench-scale-{trials}.",
    )
    await prepare(settings)
    async with KafkaLog(settings.kafka_bootstrap, client_id="bench") as log:
        fleet = SimulatedFleet(log, settings.topics, devices, trials)
        await fleet.join()
        working = asyncio.create_task(fleet.run())
        try:
            return await _measured(log, settings, trials, devices)
        finally:
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)


async def _measured(log: KafkaLog, settings: StackSettings, trials: int, devices: int) -> ScaleResult:
    services = [OwnService(name, settings) for name in NAMES]
    async with running(services):
        before = {service.name: tree_ms(service.pid) for service in services}
        rates = await _run(log, settings, trials, devices)
        cpu_ms = {
            service.name: (tree_ms(service.pid) - before[service.name]) / trials for service in services
        }
        ends = await log.ends(settings.topics.events.name)
        await until_saved(settings, STREAM, ends[partition_of(STREAM, len(ends))] - 1)
        for service in services:
            await service.until_quiet()
        memory = {service.name: service.memory() for service in services}
        ls_s = await asyncio.to_thread(_call, settings, ["ls"])
        show_s = await asyncio.to_thread(_call, settings, ["show", STREAM])
    async with running(services) as restart_s:
        restarted = {service.name: service.memory() for service in services}
    snapshot_mb, load_s, pack_s = await _snapshot(settings)
    return ScaleResult(
        trials,
        devices,
        *rates,
        cpu_ms,
        memory,
        restarted,
        snapshot_mb=snapshot_mb,
        load_s=load_s,
        pack_s=pack_s,
        restart_s=restart_s,
        ls_s=ls_s,
        show_s=show_s,
    )


async def _run(log: KafkaLog, settings: StackSettings, trials: int, devices: int) -> tuple[float, float]:
    """Runs the search until the trials have ended; returns trials/s of all, and of the last tenth."""
    topics = settings.topics
    command = search(trials, devices, TASK_TYPE).model_copy(update={"max_trials": trials + MORE})
    async with watch_topic(log, topics.events) as watch:
        await publish(log, command, STREAM, new_id(), topics)
        times = await _end_times(watch, trials)
    began_ms, tenth = times[0], max(1, trials // 10)
    last_ms = times[-1] - times[-1 - tenth]
    return trials / (times[-1] - began_ms) * 1000, tenth / max(1, last_ms) * 1000


async def _end_times(watch: LogWatch, trials: int) -> list[int]:
    """Returns when the command came and each trial ended, ms; records are dropped as they are read."""
    times: list[int] = []
    deadline = monotonic_s() + START_S + trials / TRIALS_PER_S
    while len(times) <= trials:
        if monotonic_s() > deadline:
            raise MissingError(f"{max(0, len(times) - 1):,} of {trials:,} trials have ended")
        await asyncio.sleep(0.2)
        times += [
            seen.record.append_time_ms
            for seen in watch.seen
            if isinstance(seen.record.message, TrialEnded | CommandReceived)
        ]
        watch.seen.clear()
    return times[: trials + 1]


def _call(settings: StackSettings, arguments: Sequence[str]) -> float:
    """Returns the s of a call of the command line, the best of some."""
    command = [str(Path(sys.executable).with_name("trackside")), *arguments]
    seconds = []
    for _ in range(CALLS):
        began_s = monotonic_s()
        done = subprocess.run(
            command, env=variables_of(settings), capture_output=True, text=True, check=False
        )
        seconds.append(monotonic_s() - began_s)
        if done.returncode != 0 or STREAM not in done.stdout:
            raise MissingError(f"{arguments} ended with {done.returncode}: {done.stderr[-300:]}")
    return min(seconds)


async def _snapshot(settings: StackSettings) -> tuple[float, float, float]:
    """Returns the size of the snapshot in MB, and the s to load and to pack it again, in this process."""
    connection = await asyncpg.connect(settings.postgres_dsn)
    try:
        state = await connection.fetchval(STATE, STREAM)
    finally:
        await connection.close()
    began_s = monotonic_s()
    stream = load(state, AGGREGATES)
    loaded_s = monotonic_s()
    pack(stream)
    return len(state) / 1e6, loaded_s - began_s, monotonic_s() - loaded_s


def _print_table(console: Console, found: Sequence[ScaleResult]) -> None:
    """Prints a column for each number of trials."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("one search, simulated devices", no_wrap=True)
    for each in found:
        table.add_column(f"{each.trials:,} on {each.devices:,}", justify="right", no_wrap=True)

    def row(title: str, values: Sequence[str]) -> None:
        table.add_row(title, *values)

    row("trials/s", [f"{each.trials_per_s:.1f}" for each in found])
    row("the same, last tenth", [f"{each.last_tenth_per_s:.1f}" for each in found])
    for name in NAMES:
        row(f"{name}, cpu ms a trial", [f"{each.cpu_ms[name]:.2f}" for each in found])
        row(f"{name}, resident MB", [f"{each.memory[name].resident:.0f}" for each in found])
        row("the same, restarted", [f"{each.restarted[name].resident:.0f}" for each in found])
        row(f"{name}, proportional MB", [f"{each.memory[name].proportional:.0f}" for each in found])
        row("the same, restarted", [f"{each.restarted[name].proportional:.0f}" for each in found])
    row("snapshot, MB", [f"{each.snapshot_mb:.2f}" for each in found])
    row("packing it, s", [f"{each.pack_s:.2f}" for each in found])
    row("loading it, s", [f"{each.load_s:.2f}" for each in found])
    row("restart of both until ready, s", [f"{each.restart_s:.2f}" for each in found])
    row("trackside ls, s", [f"{each.ls_s:.2f}" for each in found])
    row("trackside show, s", [f"{each.show_s:.2f}" for each in found])
    console.print(table)
