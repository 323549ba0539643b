"""The command `instruct`: gives a running task an instruction."""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from trackside.cli.commands.artifacts.resolving import resolve
from trackside.cli.commands.change import assigned_texts
from trackside.cli.commands.publishing import Publishing, repeatable
from trackside.cli.commands.submit import check_id, send
from trackside.cli.render import screen
from trackside.cli.runtime.addresses import Addresses
from trackside.cli.runtime.failures import BadUsage, CommandFailed
from trackside.cli.runtime.run import run
from trackside.contracts.envelope.refusals import Problem
from trackside.contracts.tasks.artifacts import ArtifactReference
from trackside.contracts.tasks.instructions import InstructTask
from trackside.sdk.client import Client
from trackside.sdk.definitions.instruct import Acknowledgement, whole_task_id
from trackside.sdk.errors import problem_lines


def instruct(
    stream_id: str, task_id: str, body: str, inputs: Sequence[str], publishing: Publishing, *, wait: bool
) -> None:
    """Sends a task an instruction; with `wait` prints what it says of it, and fails if that isn't ok."""
    check_id(stream_id)
    task_id = whole_task_id(stream_id, task_id)
    instruction = read_body(body)
    instruction |= _references(assigned_texts(inputs), quiet=publishing.as_json)
    if not wait:
        send(stream_id, InstructTask, {"task": task_id, "body": instruction}, publishing)
        return
    said = run(_instruct(stream_id, task_id, instruction, publishing.identified()))
    if publishing.as_json:
        screen.emit_line(asdict(said))
    else:
        text = "carried out" if said.ok else "not carried out"
        screen.say(f"{task_id}: instruction {said.number} was {text}: {json.dumps(said.detail)}")
    if not said.ok:
        raise CommandFailed("")


def _references(inputs: Mapping[str, str], *, quiet: bool) -> dict[str, Any]:
    """Returns the whole reference of each input by its name; raises BadUsage for those that aren't there."""
    found = resolve(Path(), {f"$.body.{name}": text for name, text in inputs.items()}, quiet=quiet)
    if problems := [each for each in found.values() if isinstance(each, Problem)]:
        raise BadUsage(problem_lines(problems))
    whole = [each for each in found.values() if isinstance(each, ArtifactReference)]
    return {name: each.model_dump(mode="json") for name, each in zip(inputs, whole, strict=True)}


def read_body(text: str) -> dict[str, Any]:
    """Returns the JSON object of a file, of standard input (`-`), or of the text itself."""
    try:
        octets = (
            sys.stdin.read()
            if text == "-"
            else text
            if text.startswith("{")
            else Path(text).read_text("utf-8")
        )
        found = json.loads(octets)
    except OSError as error:
        raise BadUsage(f"{text}: cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise BadUsage(f"{text}: not JSON: {error}") from error
    if not isinstance(found, dict):
        raise BadUsage(f"{text}: expected a JSON object, got {type(found).__name__}")
    return found


async def _instruct(
    stream_id: str, task_id: str, body: dict[str, Any], publishing: Publishing
) -> Acknowledgement:
    addresses, command_id = Addresses(), publishing.command_id
    async with Client(addresses.kafka, addresses.prefix, name="cli", keys=addresses.keys) as client:
        with repeatable(command_id):
            return await client.instruct(stream_id, task_id, body, publishing.timeout_s, command_id)
