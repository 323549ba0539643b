"""Commands that change what goes on, such as a search or a job: `update`, `pause`, `add-trial`."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Literal

from trackside.aggregates.dataset.aggregate import DATASET
from trackside.aggregates.dataset.messages import PauseDataset, ResumeDataset
from trackside.aggregates.rounds.aggregate import ROUNDS
from trackside.aggregates.rounds.messages import PauseIncrementalJob, ResumeIncrementalJob
from trackside.aggregates.run.aggregate import RUN
from trackside.aggregates.run.messages import PausePipelineRun, ResumePipelineRun
from trackside.aggregates.search.messages import (
    AddTrial,
    PauseSearch,
    RequestTrials,
    ResumeSearch,
    StopTrial,
    UpdateSearch,
    UpdateSearchSpace,
)
from trackside.cli.commands.publishing import Publishing
from trackside.cli.commands.submit import check_id, publish_and_print, send, valid_command
from trackside.cli.render import screen
from trackside.cli.runtime.addresses import Addresses
from trackside.cli.runtime.failures import BadUsage
from trackside.cli.runtime.run import run
from trackside.contracts.envelope.message import Command
from trackside.contracts.fleet.draining import DrainDevice, ResumeDevice
from trackside.contracts.streams.labels import AnnotateStream
from trackside.projections.reading.reads import open_read_models
from trackside.sdk.client import Client
from trackside.sdk.connection.publication import Pong
from trackside.sdk.definitions import durations
from trackside.sdk.definitions.specs import SpecFile
from trackside.sdk.definitions.yaml_core import Document, YamlError, read_yaml


def update(
    stream_id: str, limits: Mapping[str, object], remove: Sequence[str], publishing: Publishing
) -> None:
    """Changes limits of a search; those that are None stay, and those in `remove` no longer hold."""
    body: dict[str, Any] = {name: value for name, value in limits.items() if value is not None}
    if remove:
        body["remove"] = [name.replace("-", "_") for name in remove]
    send(stream_id, UpdateSearch, body, publishing)


def update_space(stream_id: str, file: Path, publishing: Publishing) -> None:
    """Replaces the space of a search with that of a file: its parameters, or a mapping with `space`."""
    document = _read(file)
    found = document.value
    moved: tuple[tuple[str, str], ...] = (("$.space", "$"),)
    if isinstance(found, dict) and isinstance(found.get("space"), dict) and "type" not in found["space"]:
        found, moved = found["space"], ()
    spec = SpecFile(str(file), document, moved)
    send(stream_id, UpdateSearchSpace, {"space": found}, publishing, spec)


def request_trials(stream_id: str, count: int, publishing: Publishing) -> None:
    """Starts so many trials in addition to the search's concurrency, once."""
    send(stream_id, RequestTrials, {"count": count}, publishing)


def add_trial(
    stream_id: str, parameters: Sequence[str], publishing: Publishing, *, tell_tuner: bool, outside: bool
) -> None:
    """Runs a trial of given parameters, each NAME=VALUE, next."""
    body = {"parameters": assignments(parameters), "tell_tuner": tell_tuner, "outside": outside}
    send(stream_id, AddTrial, body, publishing)


def pause(stream_id: str, reason: str, publishing: Publishing, *, give_back: bool) -> None:
    """Starts no new trials of a search, steps of a run, or stages of a job until it is resumed.

    With `give_back` stops the running ones too.
    """
    running: Literal["finish", "return"] = "return" if give_back else "finish"

    def command(kind: str | None) -> Command:
        if kind == RUN.kind:
            return PausePipelineRun(running=running, reason=reason)
        if kind in (ROUNDS.kind, DATASET.kind):
            if give_back:
                raise BadUsage(f"--return is for searches and runs; {stream_id} is of kind {kind}")
            return PauseIncrementalJob(reason=reason) if kind == ROUNDS.kind else PauseDataset(reason=reason)
        return PauseSearch(running=running, reason=reason)

    send_by_kind(stream_id, command, publishing)


def stop_trial(stream_id: str, trial: int, publishing: Publishing) -> None:
    """Stops one trial of a search."""
    send(stream_id, StopTrial, {"trial": trial}, publishing)


def resume(stream_id: str, publishing: Publishing) -> None:
    """Resumes a paused search, run, job or dataset."""
    resuming: dict[str | None, type[Command]] = {
        RUN.kind: ResumePipelineRun,
        ROUNDS.kind: ResumeIncrementalJob,
        DATASET.kind: ResumeDataset,
    }
    send_by_kind(stream_id, lambda kind: resuming.get(kind, ResumeSearch)(), publishing)


def drain(device: str, reason: str, publishing: Publishing) -> None:
    """Keeps new tasks off a device, WORKER/DEVICE, or off all of a WORKER; raises BadUsage."""
    run(_to_devices(device, DrainDevice, {"reason": reason}, publishing))


def resume_device(device: str, publishing: Publishing) -> None:
    """Lets a drained device, WORKER/DEVICE, or all of a WORKER get tasks again; raises BadUsage."""
    run(_to_devices(device, ResumeDevice, {}, publishing))


async def _to_devices(
    name: str, kind: type[Command], body: Mapping[str, Any], publishing: Publishing
) -> None:
    """Publishes a command for a device, or one for each device of a worker, and prints the answers."""
    worker_id, slash, device_id = name.partition("/")
    check_id(worker_id)
    addresses, publishing = Addresses(), publishing.identified()
    devices = [device_id] if slash else await _devices_of(worker_id, addresses.dsn)
    commands = [valid_command(kind, {**body, "device": each}) for each in devices]
    async with Client(addresses.kafka, addresses.prefix, name="cli", keys=addresses.keys) as client:
        for part, command in enumerate(commands, 1):
            await publish_and_print(client, command, worker_id, replace(publishing, part=part))


async def _devices_of(worker_id: str, dsn: str) -> list[str]:
    """Returns the ids of the devices of a worker; raises BadUsage if it has none."""
    async with open_read_models(dsn) as models:
        found = [row["device_id"] for row in await models.rows("devices_of_worker", worker_id)]
        known = ", ".join(row["worker_id"] for row in await models.rows("newest_workers", 10)) or "none"
    if not found:
        raise BadUsage(
            f"no worker {worker_id!r} has joined; newest: {known}; expected WORKER/DEVICE, as `trackside "
            "devices` lists them, or WORKER"
        )
    return found


def annotate(
    stream_id: str,
    add_tags: Sequence[str],
    remove_tags: Sequence[str],
    note: str | None,
    archived: bool | None,
    publishing: Publishing,
) -> None:
    """Changes the labels of a stream; raises BadUsage if nothing is to be changed."""
    body = {"add_tags": list(add_tags), "remove_tags": list(remove_tags), "note": note, "archived": archived}
    if not any((add_tags, remove_tags, note is not None, archived is not None)):
        raise BadUsage("nothing to change: give --tag, --untag, --note, --archive or --unarchive")
    send(stream_id, AnnotateStream, body, publishing)


def ping(stream_id: str, timeout_s: float, *, as_json: bool) -> None:
    """Prints how long a dispatcher takes to answer; raises a ClientError if none does."""
    check_id(stream_id)
    pong = run(_ping(stream_id, timeout_s))
    if as_json:
        screen.emit_line({"stream": stream_id, **asdict(pong)})
        return
    screen.say(
        f"{pong.source} answered in {pong.whole_ms:.0f} ms: {pong.published_ms:.0f} ms until the log had the "
        f"question, {pong.answered_ms} ms from there to its answer"
    )


def seconds(text: str) -> float | None:
    """Returns the seconds of a number with s, m, h or d, as NNI has it; None for an empty text."""
    if not text:
        return None
    found = durations.seconds(text)
    if found is None:
        raise BadUsage(f"{text!r} is not a duration; {durations.EXPECTED}")
    return found


def assignments(parameters: Sequence[str]) -> dict[str, Any]:
    """Reads NAME=VALUE pairs; a value is JSON, else text."""
    return {name: value_of(text) for name, text in assigned_texts(parameters).items()}


def assigned_texts(pairs: Sequence[str]) -> dict[str, str]:
    """Reads NAME=VALUE pairs; raises BadUsage."""
    found: dict[str, str] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not name or not equals:
            raise BadUsage(f"{pair!r} has no name: expected NAME=VALUE")
        found[name] = text
    return found


def value_of(text: str) -> Any:
    """Reads a value that is written in a command: JSON, else text."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def _read(file: Path) -> Document:
    try:
        return read_yaml(file.read_bytes())
    except OSError as error:
        raise BadUsage(f"{file}: cannot be read: {error.strerror or error}") from error
    except YamlError as error:
        raise BadUsage(f"{file}:{error.line}: {error}") from error


def send_by_kind(stream_id: str, command: Callable[[str | None], Command], publishing: Publishing) -> None:
    """Publishes a command that depends on what the stream is about, and prints its answer."""
    check_id(stream_id)
    run(_sent_by_kind(stream_id, command, publishing.identified()))


async def _sent_by_kind(
    stream_id: str, command: Callable[[str | None], Command], publishing: Publishing
) -> None:
    addresses = Addresses()
    async with Client(addresses.kafka, addresses.prefix, name="cli", keys=addresses.keys) as client:
        wanted = command(await client.kind(stream_id))
        await publish_and_print(client, wanted, stream_id, publishing)


async def _ping(stream_id: str, timeout_s: float) -> Pong:
    addresses = Addresses()
    async with Client(addresses.kafka, addresses.prefix, name="cli", keys=addresses.keys) as client:
        return await client.ping(stream_id, timeout_s)
