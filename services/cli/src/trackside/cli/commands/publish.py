"""The command `publish`: commands of a file, unchanged, and their answers."""

import asyncio
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from trackside.cli.commands import submit
from trackside.cli.commands.publishing import Publishing
from trackside.cli.render import follow, screen
from trackside.cli.render.progress import progress_of
from trackside.cli.runtime.addresses import Addresses
from trackside.cli.runtime.failures import BadUsage, CommandFailed, FailureReported
from trackside.cli.runtime.run import run
from trackside.contracts.envelope.ids import new_id
from trackside.domain.display.text import Column
from trackside.sdk.client import Client
from trackside.sdk.connection.publication import Accepted, PublishedCommand, Refused
from trackside.sdk.connection.signing import BadKeyError, Signer, read_signer
from trackside.sdk.errors import UnreachableError, UnsendableError, problem_lines

SHOWN = 50
"""Up to so many commands are all listed; of more, only those that were not accepted."""
WAITED_FOR_AT_ONCE = 8
COLUMNS = (
    Column("line", right=True),
    Column("stream"),
    Column("answer"),
    Column("code"),
    Column("path"),
)


def publish(file: Path, key: Path | None, publishing: Publishing, *, wait: bool) -> None:
    """Publishes the commands of a file and prints their answers; an id that is given is that of the only one.

    Raises BadUsage before the first is published if the file or the key is bad, else an error with the exit
    code of the worst answer.
    """
    commands = parse_commands(_read(file), str(file), publishing.command_id)
    signer = _signer(key)
    if len(commands) == 1:
        identified = replace(publishing, command_id=commands[0].command_id)
        run(_publish_one(commands[0], signer, identified, wait))
    elif publishing.command_id:
        raise BadUsage(
            f"--command-id: {file} has {len(commands)} commands; write the id of each into its line"
        )
    else:
        run(_publish_all(commands, signer, publishing.timeout_s, wait, publishing.as_json))


@dataclass(frozen=True, slots=True)
class FileCommand:
    """A command of a file: its line (0: it is the whole file), the CloudEvent, its stream and its id."""

    line: int
    event: dict[str, Any]
    stream_id: str
    command_id: str


@dataclass(slots=True)
class PublishResult:
    """The outcome of a command: where it was published, its answer, or the problem."""

    command: FileCommand
    publication: PublishedCommand | None = None
    answer: Accepted | Refused | None = None
    problem: str = ""


def parse_commands(octets: bytes, file: str, command_id: str = "") -> list[FileCommand]:
    """Reads a published file: one command, or one a line; raises BadUsage naming file, line and place.

    `command_id` is that of a single command that has no id of its own.
    """
    try:
        text = octets.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadUsage(f"{file}: byte {error.start} is not UTF-8") from error
    lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    if len(lines) < 2 or not _is_json(lines[0][1]):
        return [parse_command(text, file, command_id=command_id)]
    return [parse_command(line, f"{file}:{number}", number) for number, line in lines]


def parse_command(text: str, place: str, line: int = 0, command_id: str = "") -> FileCommand:
    """Reads one command; without an id it gets a new one, without a stream its id is the stream."""
    try:
        event = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadUsage(f"{place}: not JSON: {error}") from error
    if not isinstance(event, dict):
        raise BadUsage(
            f"{place}: expected a JSON object with type, stream and data, got {type(event).__name__}"
        )
    named = [event.pop("stream", None), event.get("partitionkey")]
    own_id = event.get("id")
    if command_id and own_id and own_id != command_id:
        raise BadUsage(
            f"{place}: $.id: {own_id!r}, but --command-id is {command_id!r}; leave one of them out"
        )
    command_id = own_id or command_id or new_id()
    stream_id = next((name for name in named if name), command_id)
    for name, given in (("stream", stream_id), ("id", command_id)):
        if not isinstance(given, str):
            raise BadUsage(f"{place}: $.{name}: expected a text, got {type(given).__name__}")
    return FileCommand(line, event, stream_id, command_id)


def exit_code(results: Sequence[PublishResult]) -> int:
    """Returns 1 if a command was not published or not answered, else 2 if one was refused, else 0."""
    if any(result.answer is None for result in results):
        return CommandFailed.exit_code
    return BadUsage.exit_code if any(isinstance(result.answer, Refused) for result in results) else 0


def as_object(result: PublishResult) -> dict[str, Any]:
    """Returns a result as JSON, for programs."""
    command, publication, answer = result.command, result.publication, result.answer
    found: dict[str, Any] = {
        "line": command.line,
        "stream": command.stream_id,
        "command_id": command.command_id,
    }
    found["answer"] = _status(result)
    found["published"] = None if publication is None else publication.source.model_dump()
    if answer is not None:
        found["answer_offset"] = answer.offset
    if isinstance(answer, Refused):
        found |= submit.refusal_object(answer)
    elif result.problem:
        found["message"] = result.problem
    return found


def as_row(result: PublishResult) -> tuple[object, ...]:
    """Returns a result as a row of the table."""
    refused = result.answer if isinstance(result.answer, Refused) else None
    code, path = ("", "") if refused is None else (refused.code, refused.path)
    return result.command.line, result.command.stream_id, _status(result), code, path


def why(result: PublishResult) -> str:
    """Returns why a command was not accepted, empty if it was."""
    answer, command = result.answer, result.command
    if isinstance(answer, Refused):
        return f"line {command.line}: {command.stream_id} refused: {problem_lines(answer.all_problems)}"
    return (
        f"line {command.line}: {command.stream_id} {_status(result)}: {result.problem}"
        if result.problem
        else ""
    )


def _status(result: PublishResult) -> str:
    match result.answer:
        case Accepted():
            return "accepted"
        case Refused():
            return "refused"
        case None:
            return "not published" if result.publication is None else "no answer"


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _read(file: Path) -> bytes:
    if str(file) == "-":
        return sys.stdin.buffer.read()
    try:
        return file.read_bytes()
    except OSError as error:
        raise BadUsage(f"{file}: cannot be read: {error.strerror or error}") from error


def _signer(key: Path | None) -> Signer | None:
    try:
        return None if key is None else read_signer(key)
    except BadKeyError as error:
        raise BadUsage(str(error)) from error


async def _publish_one(
    command: FileCommand, signer: Signer | None, publishing: Publishing, wait: bool
) -> None:
    addresses = Addresses()
    async with Client(
        addresses.kafka, addresses.prefix, name="cli", signer=signer, keys=addresses.keys
    ) as client:
        await submit.publish_and_print(client, command.event, command.stream_id, publishing)
        if wait:
            await submit.until_over(client, addresses, command.stream_id, publishing.as_json)


async def _publish_all(
    commands: Sequence[FileCommand], signer: Signer | None, timeout_s: float, wait: bool, as_json: bool
) -> None:
    addresses = Addresses()
    async with Client(
        addresses.kafka, addresses.prefix, name="cli", signer=signer, keys=addresses.keys
    ) as client:
        results = await _answered(client, commands, timeout_s, as_json)
        _print_results(results, as_json)
        code = exit_code(results)
        if wait and not await _ended(client, results, as_json):
            code = code or CommandFailed.exit_code
    if code:
        raise FailureReported(code)


async def _answered(
    client: Client, commands: Sequence[FileCommand], timeout_s: float, as_json: bool
) -> list[PublishResult]:
    """Publishes commands in order and waits for their answers; with JSON, prints each as it comes."""
    results = [PublishResult(command) for command in commands]
    with progress_of("publishing") as show_progress:
        for done, result in enumerate(results, 1):
            try:
                command = result.command
                result.publication = await client.publish(
                    command.event, command.stream_id, command.command_id
                )
            except UnsendableError as error:
                result.answer = _refusal_of(command, error)
            except UnreachableError as error:  # the commands after it would overtake it
                result.problem = str(error)
                break
            finally:
                show_progress(done, len(results))
    waiting = {result.publication.source: result for result in results if result.publication is not None}
    with progress_of("answered") as show_progress:
        async for publication, answer in client.answers(
            [result.publication for result in waiting.values() if result.publication is not None], timeout_s
        ):
            result = waiting[publication.source]
            result.answer = answer
            show_progress(sum(found.answer is not None for found in results), len(results))
            if as_json:
                screen.emit_line(as_object(result))
    for result in waiting.values():
        if result.answer is None:
            result.problem = f"no answer within {timeout_s:g} s; is a dispatcher running?"
    return results


def _refusal_of(command: FileCommand, error: UnsendableError) -> Refused:
    first = error.problem
    return Refused(command.command_id, -1, first.code, first.path, first.message, error.problems)


def _print_results(results: Sequence[PublishResult], as_json: bool) -> None:
    """Prints the table of answers; with JSON, the commands without one."""
    if as_json:
        for result in results:
            if result.answer is None or result.publication is None:
                screen.emit_line(as_object(result))
        return
    counts = dict.fromkeys(("accepted", "refused", "no answer", "not published"), 0)
    for result in results:
        counts[_status(result)] += 1
    listed = [
        result for result in results if len(results) <= SHOWN or not isinstance(result.answer, Accepted)
    ]
    if listed:
        screen.show_table(COLUMNS, [as_row(result) for result in listed])
    screen.say(", ".join(f"{count} {word}" for word, count in counts.items() if count))
    for reason in filter(None, map(why, results)):
        screen.complain(f"trackside: {reason}")


async def _ended(client: Client, results: Sequence[PublishResult], as_json: bool) -> bool:
    """Waits for the end of every stream with an accepted command; returns whether all ended well."""
    streams = dict.fromkeys(
        result.command.stream_id for result in results if isinstance(result.answer, Accepted)
    )
    stopped = {
        result.command.stream_id for result in results if "stop-" in str(result.command.event.get("type"))
    }
    turn, well = asyncio.Semaphore(WAITED_FOR_AT_ONCE), True
    with progress_of("ended") as show_progress:

        async def one(stream_id: str) -> bool:
            async with turn:
                stream = await client.wait(stream_id)
            try:
                follow.print_end(
                    stream, as_json, follow.ANY_END if stream_id in stopped else follow.FINISHED_ONLY
                )
            except CommandFailed as failure:
                if str(failure):
                    screen.complain(f"trackside: {failure}")
                return False
            return True

        for done, ending in enumerate(asyncio.as_completed([one(name) for name in streams]), 1):
            well = await ending and well
            show_progress(done, len(streams))
    return well
