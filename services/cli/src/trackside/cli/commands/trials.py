"""Commands that copy trials from one search to another: `export-trials`, `import-trials`."""

import sys
from dataclasses import replace
from pathlib import Path

from trackside.aggregates.search.messages import ImportTrials
from trackside.aggregates.search.state import search_of
from trackside.cli.commands.publishing import Publishing
from trackside.cli.commands.submit import check_id, publish_and_print
from trackside.cli.render import screen
from trackside.cli.runtime.addresses import Addresses
from trackside.cli.runtime.failures import CommandFailed
from trackside.cli.runtime.run import run
from trackside.contracts.envelope.topics import Topics
from trackside.contracts.wire.topic_rights import VIEWER
from trackside.domain.streams.stream import Stream
from trackside.eventlog.kafka.kafka_log import KafkaLog
from trackside.replay.find_stream import find_stream
from trackside.replay.history.errors import NotRecordedError
from trackside.replay.history.recorded_stream import state_at
from trackside.sdk.client import Client
from trackside.sdk.definitions.trial_lists import export_rows, import_commands, read_trials, to_csv, to_json


def export_trials(stream_id: str, out: Path | None, *, wants_csv: bool, every: bool) -> None:
    """Writes the trials of a search that succeeded, or `every` one, to a file or to standard output."""
    rows = export_rows(run(state_of(stream_id)), every)
    text = to_csv(rows) if wants_csv else to_json(rows)
    if out is None:
        sys.stdout.write(text)
        return
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise CommandFailed(f"{out}: {error.strerror or error}") from error
    screen.complain(f"{out} written: {len(rows)} trials")


def import_trials(stream_id: str, file: Path, publishing: Publishing) -> None:
    """Publishes the trials of a file for the tuner of a search and prints the answers."""
    check_id(stream_id)
    run(_import(stream_id, import_commands(read_trials(file)), publishing.identified()))


async def state_of(stream_id: str) -> Stream:
    """Returns a search, live or imported, as the log has it now; raises NotRecordedError if there is none."""
    addresses = Addresses()
    async with KafkaLog(addresses.kafka_as(VIEWER), client_id="trackside-cli", keys=addresses.keys) as log:
        recorded = await find_stream(log, Topics(prefix=addresses.prefix), stream_id, addresses.past_states)
        found = (await state_at(recorded, cache=addresses.state_cache)).stream
    if search_of(found) is None:
        raise NotRecordedError(f"{stream_id} is not a search")
    return found


async def _import(stream_id: str, commands: list[ImportTrials], publishing: Publishing) -> None:
    if not commands:
        raise CommandFailed("no trial of the file has a value")
    addresses = Addresses()
    async with Client(addresses.kafka, addresses.prefix, name="cli", keys=addresses.keys) as client:
        for part, command in enumerate(commands, 1):
            await publish_and_print(client, command, stream_id, replace(publishing, part=part))
