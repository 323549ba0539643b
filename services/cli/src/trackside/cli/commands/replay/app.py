"""Commands that read the whole log again: `replay rebuild`."""

import os
from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated

import typer

from trackside.cli.commands.replay import rerun as again
from trackside.cli.commands.replay import show as past
from trackside.cli.commands.replay import transfer as carrying
from trackside.cli.commands.replay import whatif, why
from trackside.cli.render import screen
from trackside.cli.render.progress import progress_of
from trackside.cli.runtime.addresses import Addresses
from trackside.cli.runtime.failures import Failure, Reported
from trackside.cli.runtime.options import AsJson
from trackside.cli.runtime.run import run
from trackside.contracts.topics import Topics
from trackside.eventlog.kafka import KafkaLog
from trackside.replay.rebuild import rebuild as rebuilding
from trackside.replay.rebuild.fill import Processes


def rebuild(
    swap: Annotated[
        bool, typer.Option("--swap", help="Put the rebuilt rows in the place of the live ones.")
    ] = False,
    processes: Annotated[
        int | None,
        typer.Option("--processes", min=1, max=64, help="At most so many at once; else as many as cores."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Rebuild every read model from offset 0 in a fresh schema and compare it with the live one.

    Exit 1 if a row or a position differs; table, key and column are named. Nothing stays behind without
    --swap; with it, dashboards go on answering, and what was written meanwhile is in the new rows too.

    \b
    Examples:
      trackside replay rebuild
      trackside replay rebuild --swap
    """
    addresses = Addresses()
    report = run(_rebuild(addresses.bootstrap, addresses.dsn, addresses.prefix, swap, processes))
    if as_json:
        first = None if report.first is None else str(report.first)
        screen.emit(
            {"events": report.events, "rows": report.rows, "equal": report.equal, "difference": first}
            | {"swapped": report.swapped, "caught_up": report.caught_up}
            | {"fold_s": report.fold_s, "compare_s": report.compare_s}
        )
    else:
        for line in report.positions():
            screen.say(line)
        screen.say(str(report))
        if report.swapped:
            screen.say(f"swapped: the rebuilt rows are live; {report.caught_up} records came meanwhile")
    if not report.equal:
        raise Reported()


def replayed(bootstrap: str, dsn: str) -> None:
    """Rebuilds, prints `replay: N events, M rows, equal`; raises Failure if a row or position differs."""
    report = run(_rebuild(bootstrap, dsn, ""))
    if not report.equal:
        positions = "\n".join(report.positions())
        raise Failure(f"{report}\n{positions}")
    screen.say(f"\n{report}")


async def _rebuild(
    bootstrap: str, dsn: str, prefix: str, swap: bool = False, processes: int | None = None
) -> rebuilding.Report:
    open_log = partial(KafkaLog, bootstrap, client_id="trackside-replay")
    at_most = Processes(processes or os.cpu_count() or 1, open_log)
    async with open_log() as log:
        with progress_of("reading the log") as told:
            return await rebuilding.rebuild(
                log,
                Topics(prefix=prefix),
                dsn,
                lambda state: told(state.read, state.total),
                swap=swap,
                processes=at_most,
            )


replay = typer.Typer(
    help="Look into the log, and read it again: states as they were, causes, copies, rebuilt read models.",
    no_args_is_help=True,
)
COMMANDS: Mapping[str, Callable[..., None]] = {
    "show": past.show,
    "diff": past.diff,
    "why": why.why,
    "export": carrying.export_stream,
    "import": carrying.import_stream,
    "rebuild": rebuild,
    "whatif": whatif.whatif,
    "rerun": again.rerun,
    "compare": again.compare,
    "fork": again.fork,
}
for _name, _command in COMMANDS.items():
    replay.command(_name)(_command)
