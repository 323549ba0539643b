"""The command `instruct`: gives a running task an instruction."""

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from trackside.cli.commands.publishing import Publishing
from trackside.cli.commands.submit import check_id, send
from trackside.cli.render import screen
from trackside.cli.runtime.addresses import Addresses
from trackside.cli.runtime.failures import BadUsage, CommandFailed
from trackside.cli.runtime.run import run
from trackside.contracts.instructions import InstructTask
from trackside.sdk.client import Client
from trackside.sdk.instruct import Acknowledgement


def instruct(stream_id: str, task_id: str, body: str, publishing: Publishing, *, wait: bool) -> None:
    """Gives a task an instruction; with `wait` prints what it says of it, and fails if that isn't ok."""
    instruction = read_body(body)
    if not wait:
        send(stream_id, InstructTask, {"task": task_id, "body": instruction}, publishing)
        return
    check_id(stream_id)
    said = run(_instruct(stream_id, task_id, instruction, publishing.timeout_s))
    if publishing.as_json:
        screen.emit_line(asdict(said))
    else:
        text = "carried out" if said.ok else "not carried out"
        screen.say(f"{task_id}: instruction {said.number} was {text}: {json.dumps(said.detail)}")
    if not said.ok:
        raise CommandFailed("")


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


async def _instruct(stream_id: str, task_id: str, body: dict[str, Any], timeout_s: float) -> Acknowledgement:
    addresses = Addresses()
    async with Client(addresses.bootstrap, addresses.prefix, name="cli") as client:
        return await client.instruct(stream_id, task_id, body, timeout_s)
