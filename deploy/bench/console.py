"""The console: pages and charts on 100,000 trials, pushed changes, and 50 viewers while a search runs."""

import argparse

from rich.console import Console

from bench import console_pages, console_pushes
from bench.command_latency import publish, search
from bench.console_process import console_of, console_on
from bench.fresh_stack import SLOTS, TOPICS
from bench.log_watch import watch_topic
from bench.measurements import Measurements
from trackside.aggregates.search.messages import SearchEnded
from trackside.contracts.envelope.ids import new_id
from trackside.embedded.stack import Stack
from trackside.eventlog.log import Log

TRIALS, LIMIT_S = 200, 180.0
STREAM = "console-bench"
"""The search of the stack whose events are shown, and whose note is changed."""


async def measure(
    stack: Stack, log: Log, options: argparse.Namespace, console: Console
) -> list[Measurements]:
    """Measures, if the part `console` is asked for, its pages, pushed changes and viewers."""
    if "console" not in options.parts:
        return []
    own = console_of(stack)
    console.print(f"the console: {options.changes} changes that are pushed")
    async with watch_topic(log, TOPICS.events) as watch:
        await publish(log, search(TRIALS, SLOTS), STREAM, new_id())
        await watch.until(
            lambda record: isinstance(record.message, SearchEnded) and record.envelope.stream == STREAM,
            LIMIT_S,
        )
    found = [await console_pushes.measure_pushes(own, log, stack.postgres_dsn, STREAM, options.changes)]
    console.print(f"the console: {console_pushes.VIEWERS} viewers for {options.viewed:g} s")
    found.append(await console_pushes.measure_viewers(own, log, options.viewed))
    console.print(f"the console: pages on {options.board_trials:,} trials")
    filled = await console_pages.fill(stack.postgres_dsn, options.board_trials, options.seed)
    async with console_on(stack, filled.dsn) as running:
        events = f"{own.address}/experiments/{STREAM}/events"
        found.append(await console_pages.measure(running, stack.pid("postgres"), filled, events))
    return found
