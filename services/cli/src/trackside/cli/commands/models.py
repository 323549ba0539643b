"""The commands `trackside models ...`: versions are read from Postgres, their history from the log."""

from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from trackside.aggregates.model.aggregate import MODEL
from trackside.aggregates.model.messages import (
    AddModelVersion,
    ArchiveModel,
    RegisterModel,
    RestoreModel,
    SetModelStage,
    TagModel,
)
from trackside.aggregates.model.view import VERSIONS, version_facts
from trackside.aggregates.registry import AGGREGATES
from trackside.cli.commands import show as streams
from trackside.cli.commands.publishing import Publishing
from trackside.cli.commands.replay import why as causes
from trackside.cli.commands.submit import check_id, send
from trackside.cli.render import screen
from trackside.cli.runtime.addresses import Addresses
from trackside.cli.runtime.failures import BadUsage, CommandFailed
from trackside.cli.runtime.run import run
from trackside.contracts.envelope.message import Json, Record
from trackside.contracts.envelope.refusals import nearest
from trackside.contracts.envelope.topics import Topics
from trackside.contracts.streams.commands import CommandReceived
from trackside.contracts.wire.topic_rights import VIEWER
from trackside.domain.display.selection import Selection
from trackside.domain.display.text import Column
from trackside.domain.folding.streams import Streams
from trackside.domain.outcome import Outcome
from trackside.domain.rows.table import ViewRow
from trackside.eventlog.kafka.kafka_log import KafkaLog
from trackside.projections.reading.reads import ReadModels, json_row, open_read_models
from trackside.replay.causality.bill_of_materials import bill_of_materials
from trackside.replay.causality.event_text import brief
from trackside.replay.find_stream import find_stream
from trackside.sdk.async_client import AsyncClient
from trackside.sdk.client import Client
from trackside.sdk.connection.model_versions import format_of
from trackside.sdk.connection.records import folded
from trackside.sdk.definitions.yaml_core import YamlError, read_yaml

MOST_MODELS = 1_000
_OF_FILES = {"uri": "--url", "sha256": "--sha256", "size_bytes": "--size"}


@dataclass(frozen=True, slots=True)
class ModelChange:
    """What an event has changed, and who asked for it."""

    offset: int
    time_ms: int
    what: str
    said: str
    command_id: str
    publisher: str


def ls(limit: int, as_json: bool) -> None:
    """Prints models, the newest first."""
    run(_ls(limit, as_json))


def show(model: str, as_json: bool) -> None:
    """Prints a model or one version; raises CommandFailed if there is none."""
    name, version = _name_and_version(model)
    row = run(_row(name, version))
    if version is None:
        streams.show(name, Selection(), as_json)
    elif as_json:
        screen.emit(json_row(row))
    else:
        facts = [(name, value) for name, value in version_facts(row) if value not in (None, "", [], {})]
        screen.show_table([Column(""), Column("", keep=True)], facts)


def history(model: str, as_json: bool) -> None:
    """Prints what has changed in a model, from the log."""
    check_id(model)
    changes = run(_changes(model))
    if as_json:
        screen.emit([_as_json(change) for change in changes])
        return
    columns = [Column("offset", right=True), Column("time"), Column("event"), Column("what", keep=True)]
    columns += [Column("by", optional=True), Column("command", optional=True)]
    rows = [
        [each.offset, _time(each.time_ms), each.what, each.said, each.publisher, each.command_id]
        for each in changes
    ]
    screen.show_table(columns, rows)


def why(model: str, bill: bool, as_json: bool) -> None:
    """Prints the chain of causes of a version, or its bill; raises BadUsage without a version."""
    name, version = _name_and_version(model)
    if version is None:
        raise BadUsage(f"expected a version, such as {name}@1; `trackside models show {name}` lists them")
    if bill:
        screen.emit(run(_bill(name, version)))
    else:
        causes.why(name, str(version), as_json)


def register(model: str, body: dict[str, Any], publishing: Publishing) -> None:
    """Registers a model."""
    send(model, RegisterModel, body, publishing)


def add(
    model: str, source: str, outside: Mapping[str, Any], facts: Mapping[str, Any], publishing: Publishing
) -> None:
    """Adds a version: an artifact of a task, or a file from outside; facts that are empty are left out."""
    given = {name: value for name, value in outside.items() if value not in (None, "")}
    said = {name: value for name, value in facts.items() if value}
    check_id(model)
    if source and given:
        raise BadUsage("--from is an artifact of a task; --url, --sha256 and --size are for other files")
    if source:
        body = run(_from_task(source, said))
    elif missing := [option for name, option in _OF_FILES.items() if name not in given]:
        expected = "expected --from, or all of --url, --sha256 and --size"
        raise BadUsage(f"{expected}; {missing[0]} is missing")
    else:
        body = {"artifact": given, "format": format_of(given["uri"])} | said
    send(model, AddModelVersion, body, publishing)


def tag(model: str, body: dict[str, Any], publishing: Publishing) -> None:
    """Changes tags and labels of a model or a version."""
    name, version = _name_and_version(model)
    send(name, TagModel, body | ({} if version is None else {"version": version}), publishing)


def stage(model: str, to: str, publishing: Publishing) -> None:
    """Sets the stage of a version."""
    name, version = _name_and_version(model)
    if version is None:
        raise BadUsage(f"a stage is of a version: expected {name}@VERSION, such as {name}@1")
    send(name, SetModelStage, {"version": version, "stage": to}, publishing)


def archive(model: str, reason: str, publishing: Publishing) -> None:
    """Archives a model."""
    send(model, ArchiveModel, {"reason": reason}, publishing)


def restore(model: str, publishing: Publishing) -> None:
    """Restores a model."""
    send(model, RestoreModel, {}, publishing)


def labels(pairs: Sequence[str]) -> dict[str, str | None]:
    """Reads NAME=TEXT pairs; raises BadUsage."""
    found: dict[str, str | None] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not name or not equals:
            raise BadUsage(f"--label {pair!r}: expected NAME=TEXT")
        found[name] = text
    return found


def config(file: Path | None) -> Any:
    """Reads the configuration of a model from a file; None without one; raises BadUsage."""
    if file is None:
        return None
    try:
        return read_yaml(file.read_bytes()).value
    except OSError as error:
        raise BadUsage(f"{file}: cannot be read: {error.strerror or error}") from error
    except YamlError as error:
        raise BadUsage(f"{file}:{error.line}: {error}") from error


def _name_and_version(text: str) -> tuple[str, int | None]:
    name, at, number = text.partition("@")
    check_id(name)
    if at and not (number.isascii() and number.isdecimal() and int(number) > 0):
        raise BadUsage(f"{text!r}: expected MODEL@VERSION with a number from 1, such as {name}@1")
    return name, int(number) if at else None


async def _bill(name: str, version: int) -> Json:
    addresses = Addresses()
    topics = Topics(prefix=addresses.prefix)
    async with KafkaLog(addresses.kafka_as(VIEWER), client_id="trackside-replay", keys=addresses.keys) as log:
        return await bill_of_materials(log, topics, partial(find_stream, log, topics), name, version)


async def _from_task(source: str, said: dict[str, Any]) -> dict[str, Any]:
    addresses = Addresses()
    async with Client(addresses.kafka, addresses.prefix, name="cli", keys=addresses.keys) as client:
        command = await client.model_version(source)
    return command.model_dump(mode="json", exclude_defaults=True) | said


async def _ls(limit: int, as_json: bool) -> None:
    async with open_read_models(Addresses().dsn) as models:
        rows = await models.rows(f"{MODEL.kind}.newest", limit)
    if as_json:
        screen.emit([json_row(row) for row in rows])
        return
    columns = [Column("model", keep=True), Column("status"), Column("versions", right=True)]
    columns += [Column("staging", right=True), Column("production", right=True)]
    columns += [Column("tags"), Column("description", optional=True), Column("registered", optional=True)]
    names = ("model_id", "status", "versions", "staging", "production", "tags", "description", "started_at")
    screen.show_table(columns, [[row[name] for name in names] for row in rows])
    if not rows:
        screen.complain("no models yet; register one with `trackside models register NAME`")


async def _row(name: str, version: int | None) -> ViewRow:
    """Returns the row of a model, or of a version; raises CommandFailed if there is none."""
    async with open_read_models(Addresses().dsn) as models:
        row = await models.row(f"{MODEL.kind}.one", name)
        if row is None:
            raise CommandFailed(await _no_model(models, name))
        if version is None:
            return row
        versions = await models.rows(f"{MODEL.kind}.{VERSIONS}", name)
    if not 1 <= version <= len(versions):
        raise CommandFailed(f"model {name} has no version {version}; it has {len(versions)}")
    return versions[version - 1]


async def _no_model(models: ReadModels, name: str) -> str:
    known = [row["model_id"] for row in await models.rows(f"{MODEL.kind}.newest", MOST_MODELS)]
    return f"there is no model {name}{nearest(name, known)}; `trackside models ls` lists them"


async def _changes(model: str) -> list[ModelChange]:
    addresses = Addresses()
    async with Client(addresses.kafka, addresses.prefix, name="cli", keys=addresses.keys) as client:
        return await changes_of(client, model)


async def changes_of(client: AsyncClient, model: str) -> list[ModelChange]:
    """Reads the events of a model that had an effect; raises CommandFailed if there is no such model."""
    publishers = dict[str, str]()
    found: list[ModelChange] = []
    async with aclosing(folded(client.events, Streams(AGGREGATES), model)) as records:
        async for _, outcome, record in records:
            if isinstance(record.message, CommandReceived):
                publishers.setdefault(record.message.command_id, record.message.publisher)
            elif outcome is Outcome.APPLIED and isinstance(record.message, MODEL.events):
                found.append(_change(record, publishers))
    if not found:
        raise CommandFailed(f"there is no model {model} in the log; `trackside models ls` lists them")
    return found


def _change(record: Record, publishers: Mapping[str, str]) -> ModelChange:
    event: Any = record.message
    command_id = event.command_id
    what, publisher = type(event).__name__, publishers.get(command_id, "")
    return ModelChange(record.offset, record.append_time_ms, what, brief(event), command_id, publisher)


def _as_json(change: ModelChange) -> dict[str, Any]:
    return {
        "offset": change.offset,
        "time_ms": change.time_ms,
        "event": change.what,
        "said": change.said,
        "command_id": change.command_id,
        "publisher": change.publisher,
    }


def _time(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)
