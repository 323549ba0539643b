"""Commands that publish: `submit`, `stop`."""

import re
from collections.abc import Collection
from pathlib import Path
from typing import Annotated, Any

import typer

from trackside.cli.render import follow as following
from trackside.cli.render import screen
from trackside.cli.runtime.addresses import Addresses
from trackside.cli.runtime.failures import Failure, Misuse, Reported
from trackside.cli.runtime.options import AsJson, Timeout
from trackside.cli.runtime.run import run
from trackside.contracts.batches import StopTasks, SubmitTasks
from trackside.contracts.ids import IDENTIFIER_RULE, is_identifier, new_id
from trackside.contracts.message import Command
from trackside.contracts.searches import StartSearch, StopSearch, StopTrial
from trackside.contracts.tasks import AttemptEnd
from trackside.contracts.topics import Topics
from trackside.replay.transfer.imported_streams import PREFIX as IMPORTED
from trackside.sdk.client import Client
from trackside.sdk.publication import Publication, Refused
from trackside.sdk.specs import read_spec
from trackside.sdk.trial_lists import imports, read_trials
from trackside.telemetry import context

ROWS_S = 60.0


def submit(
    spec: Annotated[Path, typer.Argument(metavar="SPEC.yaml", help="What to run, by its `kind`.")],
    stream_id: Annotated[str, typer.Option("--id", help="The id; without it a new one is made up.")] = "",
    past: Annotated[
        Path | None,
        typer.Option("--past", metavar="TRIALS", help="Results that the search shall know, CSV or JSON."),
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Show its progress and wait for its end.")] = False,
    timeout_s: Timeout = 30.0,
    as_json: AsJson = False,
) -> None:
    """Submit a spec, of a search, of tasks in groups or of one task; print the answer.

    Exit 0 accepted (with --wait: done), 1 no answer (with --wait: it failed, or a task did not finish), 2 a
    bad spec or refused.

    \b
    Examples:
      trackside submit search.yaml
      trackside submit search.yaml --id digits-1 --wait
      trackside submit search.yaml --past trials.csv
      trackside submit tasks.yaml --wait
    """
    command = read_spec(spec)
    if past is not None:
        command = _knowing(command, past)
    stream_id = stream_id or made_up_id(command)
    check_id(stream_id)
    run(start(command, stream_id, timeout_s, wait, as_json))


def stop(
    stream_id: Annotated[str, typer.Argument(metavar="ID", help="The search or batch to stop.")],
    task: Annotated[str, typer.Option("--task", metavar="NAME", help="Stop only this task of it.")] = "",
    trial: Annotated[int | None, typer.Option("--trial", metavar="N", help="Stop only this trial.")] = None,
    reason: Annotated[str, typer.Option("--reason", help="Kept in the log.")] = "",
    wait: Annotated[bool, typer.Option("--wait", help="Wait until nothing of it runs any more.")] = False,
    timeout_s: Timeout = 30.0,
    as_json: AsJson = False,
) -> None:
    """Stop a search or a batch: it starts nothing more, and what runs is ended; or stop one of these.

    \b
    Examples:
      trackside stop digits-1
      trackside stop digits-1 --trial 7
      trackside stop digits-1 --reason "good enough" --wait
      trackside stop compare-1 --task small
    """
    check_id(stream_id)
    if task:
        check_id(task)
    one = None if trial is None else StopTrial(trial=trial)
    run(_stop(stream_id, one, task, reason, timeout_s, wait, as_json))


def made_up_id(command: Command) -> str:
    """Makes a short id that nobody else has, beginning with the name of what is submitted."""
    match command:
        case StartSearch():
            name = command.name or command.task_type
        case SubmitTasks():
            name = command.name or command.groups[0].tasks[0].task_type
        case _:
            name = "stream"
    word = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:24] or "search"
    return f"{word}-{new_id()[:8]}"


def check_id(stream_id: str) -> None:
    """Raises Misuse for what is no id; that of an imported search can be looked at only."""
    if stream_id.startswith(IMPORTED):
        raise Misuse(
            f"{stream_id} was imported: it can be looked at and not changed; "
            f"`trackside replay fork {stream_id}` begins a search that goes on from it"
        )
    if not is_identifier(stream_id):
        raise Misuse(f"{stream_id!r} is not an id: expected {IDENTIFIER_RULE}")


def _knowing(command: Command, file: Path) -> Command:
    """Adds the results of a file to what a search begins with; raises Misuse."""
    if not isinstance(command, StartSearch):
        raise Misuse("--past is for a search, and the spec is of tasks")
    parts = imports(read_trials(file))
    if len(parts) > 1:
        raise Misuse(f"{file}: too long for one command; submit the search, then `trackside import-trials`")
    return command.model_copy(
        update={"past": [*command.past, *(one for part in parts for one in part.trials)]}
    )


async def start(command: Command, stream_id: str, timeout_s: float, wait: bool, as_json: bool) -> None:
    """Publishes a command that begins a stream and prints its answer; waits for the end if told to."""
    addresses = Addresses()
    async with Client(addresses.bootstrap, addresses.prefix, name="cli") as client:
        await publish_and_print(client, command, stream_id, timeout_s, as_json)
        if wait:
            await until_over(client, addresses, stream_id, as_json)
        elif not as_json:
            screen.say(f"follow it with: trackside watch {stream_id}")


async def until_over(
    client: Client,
    addresses: Addresses,
    stream_id: str,
    as_json: bool,
    fine: Collection[AttemptEnd] = following.STRICT,
) -> None:
    """Waits for the end of a search or a batch, and for its rows: `trackside ls` then has it as it is."""
    stream, last_offset = await following.until_end(client, stream_id, as_json)
    try:
        following.judge(stream, as_json, fine)
    finally:
        await _rows(addresses, stream_id, last_offset)


async def _rows(addresses: Addresses, stream_id: str, last_offset: int) -> None:
    try:
        topics = Topics(prefix=addresses.prefix)
        await following.written(addresses.dsn, topics, stream_id, last_offset, ROWS_S)
    except Failure as failure:
        screen.complain(f"trackside: {failure}")


async def _stop(
    stream_id: str,
    one: StopTrial | None,
    task: str,
    reason: str,
    timeout_s: float,
    wait: bool,
    as_json: bool,
) -> None:
    addresses = Addresses()
    async with Client(addresses.bootstrap, addresses.prefix, name="cli") as client:
        command: Command = one or StopSearch(reason=reason)
        if one is None and (task or await client.root(stream_id) == "batch"):
            command = StopTasks(task=task or None, reason=reason)
        await publish_and_print(client, command, stream_id, timeout_s, as_json)
        if wait and one is None:
            await until_over(client, addresses, stream_id, as_json, following.ANY)


async def publish_and_print(
    client: Client, command: Command, stream_id: str, timeout_s: float, as_json: bool
) -> None:
    """Publishes a command as the root of a trace and prints its answer, as `print_answer` does."""
    publication = await client.publish(command, stream_id, traceparent=context.new_traceparent())
    await print_answer(client, publication, timeout_s, as_json)


async def print_answer(client: Client, publication: Publication, timeout_s: float, as_json: bool) -> None:
    """Prints the answer; raises Reported or Misuse if the command was refused."""
    answer = await client.answer(publication, timeout_s)
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
            found |= {"code": answer.code, "path": answer.path, "message": answer.message}
        screen.emit_line(found)
    elif not refused:
        screen.say(f"{publication.stream_id} accepted (command {publication.command_id})")
    if isinstance(answer, Refused):
        if as_json:
            raise Reported(Misuse.exit_code)
        raise Misuse(f"{publication.stream_id} refused: {answer.code} at {answer.path}: {answer.message}")
