"""Commands that carry trials from one search to another: `export-trials`, `import-trials`."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from trackside.cli.commands.change import SearchId
from trackside.cli.commands.submit import check_id, publish_and_print
from trackside.cli.render import screen
from trackside.cli.runtime.addresses import Addresses
from trackside.cli.runtime.failures import Failure
from trackside.cli.runtime.options import AsJson, Timeout
from trackside.cli.runtime.run import run
from trackside.contracts.searches import ImportTrials
from trackside.contracts.topics import Topics
from trackside.domain.stream import Stream
from trackside.eventlog.kafka import KafkaLog
from trackside.replay.find import find
from trackside.replay.history.errors import NotRecordedError
from trackside.replay.history.history import past_at
from trackside.sdk.client import Client
from trackside.sdk.trial_lists import as_csv, as_json, exported, imports, read_trials


def export_trials(
    stream_id: SearchId,
    as_csv_file: Annotated[bool, typer.Option("--csv", help="As CSV, a column for each parameter.")] = False,
    as_json_list: Annotated[bool, typer.Option("--json", help="As JSON, which is the default.")] = False,
    every: Annotated[bool, typer.Option("--all", help="Those too that have not succeeded.")] = False,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="Write there; .csv means --csv.")
    ] = None,
) -> None:
    """Print the trials of a search that succeeded: parameters and value, as `import-trials` reads them.

    \b
    Examples:
      trackside export-trials digits-1 > trials.json
      trackside export-trials digits-1 --csv --all
      trackside export-trials imported/digits-1 --out trials.csv
    """
    rows = exported(run(state_of(stream_id)), every)
    wants_csv = as_csv_file or (not as_json_list and out is not None and out.suffix.lower() == ".csv")
    text = as_csv(rows) if wants_csv else as_json(rows)
    if out is None:
        sys.stdout.write(text)
        return
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise Failure(f"{out}: {error.strerror or error}") from error
    screen.complain(f"{out} written: {len(rows)} trials")


def import_trials(
    stream_id: SearchId,
    file: Annotated[Path, typer.Argument(metavar="TRIALS", help="CSV, JSON or YAML; NNI's export too.")],
    timeout_s: Timeout = 30.0,
    as_json: AsJson = False,
) -> None:
    """Tell a search's tuner results from elsewhere: a list of parameters and value.

    \b
    Examples:
      trackside import-trials digits-2 trials.json
      trackside import-trials digits-2 trials.csv
    """
    check_id(stream_id)
    run(_import(stream_id, imports(read_trials(file)), timeout_s, as_json))


async def state_of(stream_id: str) -> Stream:
    """Gives a search as the log has it now, or an imported one; raises NotRecordedError if there is none."""
    addresses = Addresses()
    async with KafkaLog(addresses.bootstrap, client_id="trackside-cli") as log:
        history = await find(log, Topics(prefix=addresses.prefix), stream_id)
        found = (await past_at(history, kept=addresses.kept)).stream
    if found.search is None:
        raise NotRecordedError(f"{stream_id} is no search")
    return found


async def _import(stream_id: str, commands: list[ImportTrials], timeout_s: float, as_json: bool) -> None:
    if not commands:
        raise Failure("no trial of the file has a value")
    addresses = Addresses()
    async with Client(addresses.bootstrap, addresses.prefix, name="cli") as client:
        for command in commands:
            await publish_and_print(client, command, stream_id, timeout_s, as_json)
