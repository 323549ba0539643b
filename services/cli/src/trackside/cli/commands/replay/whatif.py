"""The command `replay whatif`: a recorded search under other assessors, fleets and orders."""

import textwrap
from pathlib import Path
from typing import Annotated

import typer

from trackside.cli.commands.replay.show import StreamId
from trackside.cli.render import screen
from trackside.cli.render.screen import Column
from trackside.cli.runtime.addresses import Addresses
from trackside.cli.runtime.failures import Failure, Misuse
from trackside.cli.runtime.options import AsJson
from trackside.cli.runtime.run import run
from trackside.contracts.topics import Topics
from trackside.eventlog.clock import now_ms
from trackside.eventlog.kafka import KafkaLog
from trackside.replay.find import find
from trackside.replay.history.moments import Moment, parse_moment
from trackside.whatif.charts.bar_chart import page, png
from trackside.whatif.charts.canvas import MissingMatplotlibError
from trackside.whatif.compare import (
    Comparison,
    ScenarioGrid,
    ScenarioResult,
    compare,
    parse_assessor,
    parse_placement_order,
)
from trackside.whatif.recording import Recording, read_recording

PICTURES = frozenset({".png", ".html", ".htm"})


def whatif(
    stream_id: StreamId,
    assessor: Annotated[
        list[str],
        typer.Option("--assessor", metavar="NAME[:OPTION=VALUE,...]", help="May be given several times."),
    ] = [],  # noqa: B006 - typer reads it and nobody writes it
    workers: Annotated[
        list[int], typer.Option("--workers", min=1, max=100_000, help="So many workers; several times.")
    ] = [],  # noqa: B006
    slots: Annotated[int, typer.Option("--slots", min=1, max=64, help="Devices of each worker.")] = 1,
    policy: Annotated[
        list[str],
        typer.Option(
            "--policy",
            metavar="ORDER",
            help="Who waits gets a device first-come, newest-first, shortest-first or longest-first.",
        ),
    ] = [],  # noqa: B006
    concurrency: Annotated[
        int | None, typer.Option("--concurrency", min=1, max=10_000, help="Trials at once; else as recorded.")
    ] = None,
    at: Annotated[str, typer.Option("--at", metavar="OFFSET|TIME", help="The search up to then.")] = "now",
    plot: Annotated[
        list[Path],
        typer.Option("--plot", metavar="FILE", help="Draw it too: a .png (needs matplotlib) or .html file."),
    ] = [],  # noqa: B006
    as_json: AsJson = False,
) -> None:
    """Ask what a recorded search would have cost, and lost, otherwise: in virtual time, from its reports.

    Another assessor, another fleet, another order of placement; all that are given are compared, each
    assessor with each fleet and order. Nothing is run and nothing is written to the log.

    \b
    Examples:
      trackside replay whatif digits-1 --assessor median --assessor asha
      trackside replay whatif digits-1 --assessor median:n_warmup_steps=5 --plot whatif.html
      trackside replay whatif digits-1 --workers 1 --workers 4 --slots 2 --concurrency 8 --json
    """
    for path in plot:
        if path.suffix.lower() not in PICTURES:
            raise Misuse(
                f"--plot {path}: can't tell what to draw; expected a name that ends in .png or .html"
            )
    grid = ScenarioGrid(
        [parse_assessor(text) for text in assessor],
        workers,
        slots,
        [parse_placement_order(text) for text in policy],
        concurrency,
    )
    comparison = compare(run(_recorded(stream_id, parse_moment(at, now_ms()))), grid)
    for path in plot:
        _draw(comparison, path)
    if as_json:
        screen.emit(comparison.as_json())
    else:
        show(comparison)


async def _recorded(stream_id: str, moment: Moment) -> Recording:
    addresses = Addresses()
    async with KafkaLog(addresses.bootstrap, client_id="trackside-replay") as log:
        return await read_recording(await find(log, Topics(prefix=addresses.prefix), stream_id), moment)


def _draw(comparison: Comparison, path: Path) -> None:
    try:
        if path.suffix.lower() == ".png":
            path.write_bytes(png(comparison))
        else:
            path.write_text(page(comparison), encoding="utf-8")
    except MissingMatplotlibError as error:
        raise Failure(str(error)) from error
    except OSError as error:
        raise Failure(f"{path}: {error.strerror or error}") from error
    screen.complain(f"{path} written")


def show(comparison: Comparison) -> None:
    """Prints a comparison as a table, and what it rests on."""
    recording, base = comparison.recording, comparison.results[0].search
    took, modelled = (screen.duration(ms / 1000) for ms in (recording.makespan_ms, base.makespan_ms))
    screen.say(
        f"{recording.stream_id}: {len(recording.traces)} trials took {took}, {recording.concurrency} at once "
        f"on {recording.devices} devices; the model makes it {modelled}"
    )
    if comparison.best is not None:
        screen.say(f"  best: {screen.number(comparison.best.value)} of trial {comparison.best.number}")
    columns = [
        Column("scenario", keep=True),
        Column("mode"),
        Column("makespan", right=True),
        Column("saved", right=True, optional=True),
        Column("device time", right=True),
        Column("saved", right=True, optional=True),
        Column("stops", right=True, optional=True),
        Column("best", right=True, optional=True),
        Column("lost", right=True),
        Column("rank", right=True, optional=True),
    ]
    screen.show_table(columns, [_cells(result, comparison) for result in comparison.results])
    for result in comparison.results:
        if result.best_trial_stopped and comparison.best is not None:
            name = f"{result.search.scenario.name} ({result.mode})"
            screen.say(f"{name} stops trial {comparison.best.number}, the best one")
    screen.say("assumed:")
    for line in comparison.assumptions:
        screen.say(textwrap.fill(line, screen.WIDTH, initial_indent="  ", subsequent_indent="    "))


def _cells(result: ScenarioResult, comparison: Comparison) -> list[object]:
    search, is_base = result.search, result is comparison.results[0]
    return [
        _with_room(search.scenario.name),
        "" if is_base else result.mode,
        screen.duration(search.makespan_ms / 1000),
        None if is_base else f"{result.makespan_saved:.0%}",
        screen.duration(search.device_ms / 1000),
        None if is_base else f"{result.device_saved:.0%}",
        result.stops,
        None if result.best is None else result.best.value,
        None if is_base or result.value_lost is None else f"{result.value_lost:.3g}",
        result.rank_of_best,
    ]


def _with_room(name: str) -> str:
    """Writes a scenario's name so that a narrow column can break it behind a comma or colon."""
    return name.replace(", ", ",").replace(",", ", ").replace(":", ": ")
