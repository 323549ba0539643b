"""Commands that publish one command: `submit`, `stop`, and what the others share with them."""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

from trackside.aggregates.registry import AGGREGATES
from trackside.cli.commands import recorded_tasks
from trackside.cli.commands.artifacts import resolving
from trackside.cli.commands.publishing import Publishing, repeatable
from trackside.cli.render import follow, screen
from trackside.cli.runtime.addresses import Addresses
from trackside.cli.runtime.failures import BadUsage, CommandFailed, FailureReported
from trackside.cli.runtime.run import run
from trackside.contracts.envelope.ids import IDENTIFIER_RULE, is_identifier, new_id
from trackside.contracts.envelope.message import Command
from trackside.contracts.envelope.refusals import Problem
from trackside.contracts.envelope.topics import Topics
from trackside.contracts.tasks.tasks import AttemptEnd
from trackside.contracts.wire.codec import validate_command
from trackside.domain.folding.spec_kind import SpecKind
from trackside.eventlog.clock import monotonic_s
from trackside.replay.transfer.imported_streams import PREFIX as IMPORTED
from trackside.sdk.client import Client
from trackside.sdk.connection.publication import Accepted, PublishedCommand, Refused
from trackside.sdk.definitions.specs import SpecFile, read_spec_file
from trackside.sdk.definitions.trial_lists import import_commands, read_trials, with_past
from trackside.sdk.errors import problem_lines
from trackside.telemetry import context

ROWS_S = 60.0
ANSWER_LEAST_S = 1.0
"""How long an answer is awaited, s, where publishing has taken all of the time."""


def submit(
    spec: Path,
    stream_id: str,
    changes: Sequence[Callable[[Command], Command]],
    publishing: Publishing,
    *,
    wait: bool,
) -> None:
    """Submits a spec and prints the answer; raises BadUsage for a bad spec or if it is refused.

    `changes` are what options add to the command of the spec.
    """
    resolve = partial(resolving.resolve, spec.parent, quiet=publishing.as_json)
    find = partial(recorded_tasks.find, quiet=publishing.as_json)
    command, spec_file = read_spec_file(spec, resolve, find)
    for change in changes:
        command = change(command)
    publishing = publishing.identified()
    stream_id = stream_id or new_stream_id(command, publishing.command_id)
    check_id(stream_id)
    run(start(command, stream_id, publishing, wait, spec_file))


def stop(stream_id: str, task: str, reason: str, publishing: Publishing, *, wait: bool) -> None:
    """Stops a stream, such as a search or a batch, or one task of it."""
    check_id(stream_id)
    if task:
        check_id(task)
    run(_stop(stream_id, task, reason, publishing.identified(), wait))


def new_stream_id(command: Command, command_id: str = "") -> str:
    """Makes a short unique id that begins with the name of what is submitted.

    It is the same for the same id of the command: what is submitted again under it is not begun twice.
    """
    spec = _spec_kind_of(command)
    word = re.sub(r"[^a-z0-9]+", "-", spec.title(command).lower()).strip("-")[:24] or spec.name
    return f"{word}-{sha256((command_id or new_id()).encode()).hexdigest()[:8]}"


def check_id(stream_id: str) -> None:
    """Raises BadUsage for an invalid id, and for an imported search, which is read-only."""
    if stream_id.startswith(IMPORTED):
        raise BadUsage(
            f"{stream_id} was imported and is read-only; "
            f"`trackside replay fork {stream_id}` starts a search that continues it"
        )
    if not is_identifier(stream_id):
        raise BadUsage(f"{stream_id!r} is not an id: expected {IDENTIFIER_RULE}")


def _spec_kind_of(command: Command) -> SpecKind:
    return next(spec for spec in AGGREGATES.specs.values() if spec.command is type(command))


def with_past_trials(file: Path, command: Command) -> Command:
    """Adds the trials of a file to those that a search starts with; raises BadUsage."""
    parts = import_commands(read_trials(file))
    if len(parts) > 1:
        raise BadUsage(f"{file}: too long for one command; submit the search, then `trackside import-trials`")
    started = with_past(command, [trial for part in parts for trial in part.trials])
    if started is None:
        raise BadUsage(f"--past is for a search, and the spec is of {_spec_kind_of(command).name}")
    return started


def send(
    stream_id: str,
    kind: type[Command],
    body: dict[str, Any],
    publishing: Publishing,
    spec: SpecFile | None = None,
) -> None:
    """Publishes a command and prints its answer; raises BadUsage if it is invalid or refused.

    `spec` is the file that it was read from, for the lines of its problems.
    """
    check_id(stream_id)
    run(_send(stream_id, valid_command(kind, body, spec), publishing.identified(), spec))


def valid_command(kind: type[Command], body: Mapping[str, Any], spec: SpecFile | None = None) -> Command:
    """Returns a command with this body; raises BadUsage with all problems if it is invalid."""
    command = validate_command(kind.wire_type(), dict(body), (kind,))
    if isinstance(command, tuple):
        raise BadUsage(problem_lines(command) if spec is None else "\n  ".join(map(spec.describe, command)))
    return command


async def _send(stream_id: str, command: Command, publishing: Publishing, spec: SpecFile | None) -> None:
    addresses = Addresses()
    async with Client(addresses.kafka, addresses.prefix, name="cli", keys=addresses.keys) as client:
        await publish_and_print(client, command, stream_id, publishing, spec)


async def start(
    command: Command,
    stream_id: str,
    publishing: Publishing,
    wait: bool,
    spec: SpecFile | None = None,
) -> None:
    """Publishes a command that starts a stream and prints its answer; with `wait` follows it to its end.

    `spec` is the file that it was read from, for the lines of its problems.
    """
    addresses = Addresses()
    encrypted, keys = publishing.encrypted, addresses.keys
    async with Client(
        addresses.kafka, addresses.prefix, name="cli", encrypted=encrypted, keys=keys
    ) as client:
        await publish_and_print(client, command, stream_id, publishing, spec)
        if wait:
            await until_over(client, addresses, stream_id, publishing.as_json)
        elif not publishing.as_json:
            screen.say(f"follow it with: trackside watch {stream_id}")


async def until_over(
    client: Client,
    addresses: Addresses,
    stream_id: str,
    as_json: bool,
    fine: Collection[AttemptEnd] = follow.FINISHED_ONLY,
) -> None:
    """Waits for the end of a stream, and until the read models hold it."""
    stream, last_offset = await follow.until_end(client, stream_id, as_json)
    try:
        follow.print_end(stream, as_json, fine)
    finally:
        await _rows(addresses, stream_id, last_offset)


async def _stop(stream_id: str, task: str, reason: str, publishing: Publishing, wait: bool) -> None:
    addresses = Addresses()
    async with Client(addresses.kafka, addresses.prefix, name="cli", keys=addresses.keys) as client:
        command = AGGREGATES.stop_command(await client.kind(stream_id) or "", task, reason)
        if command is None:
            raise BadUsage(f"{stream_id} can't be stopped")
        await publish_and_print(client, command, stream_id, publishing)
        if wait:
            await until_over(client, addresses, stream_id, publishing.as_json, follow.ANY_END)


async def _rows(addresses: Addresses, stream_id: str, last_offset: int) -> None:
    try:
        topics = Topics(prefix=addresses.prefix)
        await follow.wait_for_rows(addresses.dsn, topics, stream_id, last_offset, ROWS_S)
    except CommandFailed as failure:
        screen.complain(f"trackside: {failure}")


async def publish_and_print(
    client: Client,
    command: Command | Mapping[str, object],
    stream_id: str,
    publishing: Publishing,
    spec: SpecFile | None = None,
) -> Accepted | Refused:
    """Publishes a command, again while the log does not confirm it, prints its answer and returns it.

    It has `timeout_s` seconds for both. Raises FailureReported or BadUsage with all problems if the command
    was refused, CommandFailed if it was not confirmed or not answered.
    """
    deadline_s = monotonic_s() + publishing.timeout_s
    with _span(command, stream_id):
        with repeatable(publishing.command_id):
            publication = await client.publish(
                command, stream_id, publishing.id_of_part, timeout_s=publishing.timeout_s
            )
            answer = await client.answer(publication, max(ANSWER_LEAST_S, deadline_s - monotonic_s()))
        _print_answer(publication, answer, publishing.as_json, spec)
        return answer


def _span(command: Command | Mapping[str, object], stream_id: str) -> AbstractContextManager[str]:
    """Opens the root span of a command, from here to its answer, if this process exports spans."""
    if not context.is_recording():
        return nullcontext("")
    kind = command.wire_type() if isinstance(command, Command) else str(command.get("type", ""))
    attributes = {"trackside.stream": stream_id, "trackside.command_type": kind}
    return context.start("submit command", attributes=attributes)


def _print_answer(
    publication: PublishedCommand, answer: Accepted | Refused, as_json: bool, spec: SpecFile | None
) -> None:
    refused = isinstance(answer, Refused)
    if as_json:
        found: dict[str, Any] = {
            "stream": publication.stream_id,
            "command_id": publication.command_id,
            "answer": "refused" if refused else "accepted",
            "published": publication.source.model_dump(),
            "answer_offset": answer.offset,
        }
        if isinstance(answer, Refused):
            found |= refusal_object(answer, spec)
        screen.emit_line(found)
    elif not refused:
        screen.say(f"{publication.stream_id} accepted (command {publication.command_id})")
    if isinstance(answer, Refused):
        if as_json:
            raise FailureReported(BadUsage.exit_code)
        raise BadUsage(f"{publication.stream_id} refused: {_refusal_text(answer, spec)}")


def refusal_object(answer: Refused, spec: SpecFile | None = None) -> dict[str, Any]:
    """Returns a refusal as JSON, for programs: the first problem, and all where the answer has them.

    Each of these has its line in the spec, if there is one and the line is known.
    """
    found: dict[str, Any] = {"code": answer.code, "path": answer.path, "message": answer.message}
    if answer.problems:
        found["problems"] = [_problem_object(problem, spec) for problem in answer.all_problems]
    return found


def _problem_object(problem: Problem, spec: SpecFile | None) -> dict[str, Any]:
    line = 0 if spec is None else spec.line_of(problem)
    return problem.model_dump() | ({"line": line} if line else {})


def _refusal_text(answer: Refused, spec: SpecFile | None) -> str:
    """Returns the problems of a refusal, each on a line, with their places in the spec if there is one."""
    if spec is None:
        return problem_lines(answer.all_problems)
    return "\n  ".join(map(spec.describe, answer.all_problems))
