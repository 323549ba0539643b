"""The command `publish`: commands as they are, one or many, and what was answered."""

import asyncio
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from trackside.cli.commands import submit as submitting
from trackside.cli.render import follow as following
from trackside.cli.render import screen
from trackside.cli.render.progress import progress_of
from trackside.cli.runtime.addresses import Addresses
from trackside.cli.runtime.failures import Failure, Misuse, Reported
from trackside.cli.runtime.options import AsJson, Timeout
from trackside.cli.runtime.run import run
from trackside.contracts.ids import new_id
from trackside.sdk.client import Client
from trackside.sdk.errors import UnreachableError, UnsendableError
from trackside.sdk.publication import Accepted, Publication, Refused
from trackside.sdk.signing import BadKeyError, Signer, read_signer

SHOWN = 50
"""Up to so many commands all are listed; of more, only those that were not accepted."""
WAITED_FOR_AT_ONCE = 8
COLUMNS = (
    screen.Column("line", right=True),
    screen.Column("stream"),
    screen.Column("answer"),
    screen.Column("code"),
    screen.Column("path"),
)


@dataclass(frozen=True, slots=True)
class Wish:
    """A command of a file: its line (0: the file is this command), the CloudEvent, its stream and its id."""

    line: int
    event: dict[str, Any]
    stream_id: str
    command_id: str


@dataclass(slots=True)
class Result:
    """What became of a wish: where it was published, its answer, or why there is neither."""

    wish: Wish
    publication: Publication | None = None
    answer: Accepted | Refused | None = None
    problem: str = ""


def publish(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="JSON or JSON lines, `-` for standard input.")],
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the end of the streams too.")] = False,
    key: Annotated[
        Path | None, typer.Option("--key", help="Sign with this Ed25519 key; its id is the file's name.")
    ] = None,
    timeout_s: Timeout = 30.0,
    as_json: AsJson = False,
) -> None:
    """Publish commands as they are and print their answers.

    FILE is a CloudEvent in structured JSON, or {"type": ..., "stream": ..., "data": {...}}; or many of them,
    one a line: those are published in order, and the whole file is read before the first. The platform
    judges them. Published again with the same `id`, a command counts once and gets the first answer again.

    Exit 0 all accepted (with --wait: and ended well), 1 one was not published or not answered, 2 one was
    refused, or the file is bad and nothing was published.

    \b
    Examples:
      trackside publish start.json --wait
      echo '{"type": "trackside.stop-search.v1", "stream": "digits-1", "data": {}}' | trackside publish -
      jq -c '.searches[]' plan.json | trackside publish - --json
    """
    wishes = parse_wishes(_read(file), str(file))
    signer = _signer(key)
    if len(wishes) == 1:
        run(_publish_one(wishes[0], signer, timeout_s, wait, as_json))
    else:
        run(_publish_all(wishes, signer, timeout_s, wait, as_json))


def parse_wishes(octets: bytes, file: str) -> list[Wish]:
    """Reads a published file: one command, or one a line; raises Misuse naming file, line and place."""
    try:
        text = octets.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Misuse(f"{file}: byte {error.start} is not UTF-8") from error
    lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    if len(lines) < 2 or not _is_json(lines[0][1]):
        return [parse_wish(text, file)]
    return [parse_wish(line, f"{file}:{number}", number) for number, line in lines]


def parse_wish(text: str, place: str, line: int = 0) -> Wish:
    """Reads one command; without an id it gets a new one, without a stream its id is the stream."""
    try:
        event = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Misuse(f"{place}: not JSON: {error}") from error
    if not isinstance(event, dict):
        raise Misuse(
            f"{place}: expected a JSON object with type, stream and data, got {type(event).__name__}"
        )
    named = [event.pop("stream", None), event.get("partitionkey")]
    command_id = event.get("id") or new_id()
    stream_id = next((name for name in named if name), command_id)
    for name, said in (("stream", stream_id), ("id", command_id)):
        if not isinstance(said, str):
            raise Misuse(f"{place}: $.{name}: expected a text, got {type(said).__name__}")
    return Wish(line, event, stream_id, command_id)


def exit_code(results: Sequence[Result]) -> int:
    """Gives 1 if a command was not published or not answered, else 2 if one was refused, else 0."""
    if any(result.answer is None for result in results):
        return Failure.exit_code
    return Misuse.exit_code if any(isinstance(result.answer, Refused) for result in results) else 0


def as_object(result: Result) -> dict[str, Any]:
    """Gives a result as JSON for programs."""
    wish, publication, answer = result.wish, result.publication, result.answer
    found: dict[str, Any] = {"line": wish.line, "stream": wish.stream_id, "command_id": wish.command_id}
    found["answer"] = _word(result)
    found["published"] = None if publication is None else publication.source.model_dump()
    if answer is not None:
        found["answer_offset"] = answer.offset
    if isinstance(answer, Refused):
        found |= {"code": answer.code, "path": answer.path, "message": answer.message}
    elif result.problem:
        found["message"] = result.problem
    return found


def as_row(result: Result) -> tuple[object, ...]:
    """Gives a result as a row of the table."""
    refused = result.answer if isinstance(result.answer, Refused) else None
    code, path = ("", "") if refused is None else (refused.code, refused.path)
    return result.wish.line, result.wish.stream_id, _word(result), code, path


def why(result: Result) -> str:
    """Says why a command was not accepted, empty if it was."""
    answer, wish = result.answer, result.wish
    if isinstance(answer, Refused):
        said = f"{answer.code} at {answer.path}: {answer.message}"
        return f"line {wish.line}: {wish.stream_id} refused: {said}"
    return f"line {wish.line}: {wish.stream_id} {_word(result)}: {result.problem}" if result.problem else ""


def _word(result: Result) -> str:
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
        raise Misuse(f"{file}: cannot be read: {error.strerror or error}") from error


def _signer(key: Path | None) -> Signer | None:
    try:
        return None if key is None else read_signer(key)
    except BadKeyError as error:
        raise Misuse(str(error)) from error


async def _publish_one(
    wish: Wish, signer: Signer | None, timeout_s: float, wait: bool, as_json: bool
) -> None:
    addresses = Addresses()
    async with Client(addresses.bootstrap, addresses.prefix, name="cli", signer=signer) as client:
        publication = await client.publish(wish.event, wish.stream_id, wish.command_id)
        await submitting.print_answer(client, publication, timeout_s, as_json)
        if wait:
            await submitting.until_over(client, addresses, wish.stream_id, as_json)


async def _publish_all(
    wishes: Sequence[Wish], signer: Signer | None, timeout_s: float, wait: bool, as_json: bool
) -> None:
    addresses = Addresses()
    async with Client(addresses.bootstrap, addresses.prefix, name="cli", signer=signer) as client:
        results = await _answered(client, wishes, timeout_s, as_json)
        _tell(results, as_json)
        code = exit_code(results)
        if wait and not await _ended(client, results, as_json):
            code = code or Failure.exit_code
    if code:
        raise Reported(code)


async def _answered(client: Client, wishes: Sequence[Wish], timeout_s: float, as_json: bool) -> list[Result]:
    """Publishes commands in order and waits for their answers; with JSON, prints each as it comes."""
    results = [Result(wish) for wish in wishes]
    with progress_of("publishing") as told:
        for done, result in enumerate(results, 1):
            try:
                wish = result.wish
                result.publication = await client.publish(wish.event, wish.stream_id, wish.command_id)
            except UnsendableError as error:
                result.answer = Refused(wish.command_id, -1, *_said(error))
            except UnreachableError as error:  # what comes behind it would overtake it
                result.problem = str(error)
                break
            finally:
                told(done, len(results))
    waiting = {result.publication.source: result for result in results if result.publication is not None}
    with progress_of("answered") as told:
        async for publication, answer in client.answers(
            [result.publication for result in waiting.values() if result.publication is not None], timeout_s
        ):
            result = waiting[publication.source]
            result.answer = answer
            told(sum(found.answer is not None for found in results), len(results))
            if as_json:
                screen.emit_line(as_object(result))
    for result in waiting.values():
        if result.answer is None:
            result.problem = f"nobody answered within {timeout_s:g} s; is a dispatcher running?"
    return results


def _said(error: UnsendableError) -> tuple[str, str, str]:
    return error.problem.code, error.problem.path, error.problem.message


def _tell(results: Sequence[Result], as_json: bool) -> None:
    """Prints the table of answers; with JSON, those that never came."""
    if as_json:
        for result in results:
            if result.answer is None or result.publication is None:
                screen.emit_line(as_object(result))
        return
    counts = dict.fromkeys(("accepted", "refused", "no answer", "not published"), 0)
    for result in results:
        counts[_word(result)] += 1
    listed = [
        result for result in results if len(results) <= SHOWN or not isinstance(result.answer, Accepted)
    ]
    if listed:
        screen.show_table(COLUMNS, [as_row(result) for result in listed])
    screen.say(", ".join(f"{count} {word}" for word, count in counts.items() if count))
    for reason in filter(None, map(why, results)):
        screen.complain(f"trackside: {reason}")


async def _ended(client: Client, results: Sequence[Result], as_json: bool) -> bool:
    """Waits for the end of every stream that something was accepted for; says whether all ended well."""
    streams = dict.fromkeys(
        result.wish.stream_id for result in results if isinstance(result.answer, Accepted)
    )
    stopped = {result.wish.stream_id for result in results if "stop-" in str(result.wish.event.get("type"))}
    turn, well = asyncio.Semaphore(WAITED_FOR_AT_ONCE), True
    with progress_of("ended") as told:

        async def one(stream_id: str) -> bool:
            async with turn:
                stream = await client.wait(stream_id)
            try:
                following.judge(stream, as_json, following.ANY if stream_id in stopped else following.STRICT)
            except Failure as failure:
                if str(failure):
                    screen.complain(f"trackside: {failure}")
                return False
            return True

        for done, ending in enumerate(asyncio.as_completed([one(name) for name in streams]), 1):
            well = await ending and well
            told(done, len(streams))
    return well
