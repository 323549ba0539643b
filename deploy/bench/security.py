"""P1, P6 and P8 on three stacks, alternating: open, signed decisions, and TLS with users and signatures."""

import argparse
import statistics
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

from rich.console import Console

from bench import command_latency, noop_trials, rebuild_rate, synthetic_log
from bench.cpu_time import used_ms
from bench.fresh_stack import Kind, keys_of, start_stack
from bench.measurements import Figure, Measurements, check_count, percentile
from bench.rebuild_rate import Endpoints
from trackside.aggregates.search.messages import TrialEnded
from trackside.contracts.envelope.topics import Topics
from trackside.contracts.wire.topic_rights import ADMIN
from trackside.embedded.stack import Stack
from trackside.eventlog.kafka.kafka_log import KafkaLog
from trackside.eventlog.keys.decision_signer import DecisionSigner
from trackside.eventlog.keys.installation_keys import set_up_keys
from trackside.eventlog.log import Log

PART = "security"
OPEN: Kind = "open"
OTHERS: Sequence[Kind] = ("signed", "secure")
KINDS: Sequence[Kind] = (OPEN, *OTHERS)
SIGNING = ("dispatcher", "scheduler", "worker")
APPEND, ANSWER, RATE, CPU, RAW, REBUILD = "append", "answer", "trials", "cpu", "raw", "rebuild"

TITLES = {APPEND: "append + read back", RAW: "read, decode, COPY"}
ROWS = (
    ("P1", RATE, "no-op trials", "/s", ""),
    ("-", CPU, "processor time of one", "ms", ""),
    ("-", APPEND, "append, read back, p50", "ms", ""),
    ("P6", ANSWER, "command -> answer, p50", "ms", APPEND),
    ("-", RAW, "read, decode, COPY", "/s", ""),
    ("P8", REBUILD, "rebuild", "/s", RAW),
)
"""The number, the measure, its title, its unit, and the ceiling that it is compared with."""


@dataclass(slots=True)
class KindOfStack:
    """One of the stacks, and what was measured on it: a value a round for each measure."""

    stack: Stack
    log: Log
    database: Endpoints
    events: int = 0
    in_events: int = 0
    found: dict[str, list[float]] = field(default_factory=dict)

    def add(self, measure: str, value: float) -> None:
        """Notes the value of one round."""
        self.found.setdefault(measure, []).append(value)

    def median(self, measure: str) -> float:
        """Returns the median of all rounds."""
        return statistics.median(self.found[measure])


async def measure_part(
    stack: Stack, log: Log, options: argparse.Namespace, console: Console
) -> list[Measurements]:
    """Measures it if it is wanted, on this stack, which is an open one, and two others."""
    if PART not in options.parts:
        return []
    rounds: int = options.security_rounds
    console.print(f"{rounds} rounds on an open stack, one with signatures, and one with TLS and users, too")
    async with AsyncExitStack() as holds:
        kinds: dict[Kind, KindOfStack] = {OPEN: await _prepared(stack, log, options, {})}
        for kind in OTHERS:
            made, _ = holds.enter_context(start_stack(lambda _: None, kind))
            opened = await holds.enter_async_context(KafkaLog(made.kafka(ADMIN), client_id="bench"))
            await noop_trials.warm_up(opened)
            kinds[kind] = await _prepared(made, opened, options, _signers(made))
        for number in range(rounds):
            for measure in (_commands, _trials, _rebuild):
                for kind in KINDS if number % 2 == 0 else KINDS[::-1]:
                    await measure(kinds[kind], options)
            for kind in KINDS:
                console.print(f"  {kind}: {_last(kinds[kind])}", style="dim")
    counted = [
        f"{rounds} rounds of {options.trials:,} trials, {options.commands:,} commands and "
        f"{kinds[OPEN].events:,} events to rebuild on each of three stacks"
    ]
    details = {kind: each.found for kind, each in kinds.items()}
    return [Measurements(list(_figures(kinds)), counted, {PART: details})]


def _last(kind: KindOfStack) -> str:
    return ", ".join(f"{name} {values[-1]:.1f}" for name, values in kind.found.items())


def _signers(stack: Stack) -> dict[str, DecisionSigner]:
    """Returns keys of the stack to sign a log of its own with, by role."""
    keys = keys_of(stack.folder)
    return {role: keys.make("worker-bench" if role == "worker" else role) for role in SIGNING}


async def _prepared(
    stack: Stack, log: Log, options: argparse.Namespace, signers: dict[str, DecisionSigner]
) -> KindOfStack:
    """Writes the log that is rebuilt, signed if there are keys."""
    topics = Topics("bench-security.")
    await log.ensure(topics.shared)
    keys = 0
    if signers:
        keys = await set_up_keys(log, topics, keys_of(stack.folder), ["bench"], require=True)
    searches = -(-options.security_events // synthetic_log.events_of(1))
    written = await synthetic_log.write_searches(log, topics, searches, signers=signers)
    place = Endpoints(log, stack.kafka(ADMIN), stack.postgres_dsn, topics)
    in_events = sum((await log.ends(topics.events.name)).values())
    return KindOfStack(stack, log, await rebuild_rate.prepare_database(place), keys + written, in_events)


async def _commands(kind: KindOfStack, options: argparse.Namespace) -> None:
    kind.add(APPEND, percentile(await command_latency.appends(kind.log, options.commands), 50))
    kind.add(ANSWER, percentile(await command_latency.refusals(kind.log, options.commands), 50))


async def _trials(kind: KindOfStack, options: argparse.Namespace) -> None:
    before = used_ms(kind.stack)
    seen = await noop_trials.run(kind.log, options.trials, 60 + options.trials)
    after = used_ms(kind.stack)
    records = [each.record for each in seen]
    ended = sum(isinstance(record.message, TrialEnded) for record in records)
    check_count("trials", ended, options.trials)
    seconds = (records[-1].append_time_ms - records[0].append_time_ms) / 1000
    kind.add(RATE, options.trials / seconds)
    kind.add(CPU, sum(after[name] - before.get(name, 0.0) for name in after) / options.trials)


async def _rebuild(kind: KindOfStack, options: argparse.Namespace) -> None:
    kind.add(RAW, kind.in_events / await rebuild_rate.read_raw(kind.database, kind.in_events))
    first = REBUILD not in kind.found
    report = await rebuild_rate.rebuild_once(kind.database, kind.events, swap=first)
    kind.add(REBUILD, kind.events / report.fold_s)


def _figures(kinds: dict[Kind, KindOfStack]) -> Iterator[Figure]:
    """Yields a row for each measure and stack: the open one next to its ceiling, the others next to that."""
    plain = kinds[OPEN]
    for number, measure, what, unit, ceiling in ROWS:
        reference = plain.median(ceiling) if ceiling else None
        yield Figure(
            number, f"{what}, {OPEN}", plain.median(measure), unit, reference, TITLES.get(ceiling, "")
        )
        for kind in OTHERS:
            value = kinds[kind].median(measure)
            yield Figure(number, f"the same, {kind}", value, unit, plain.median(measure), OPEN)
