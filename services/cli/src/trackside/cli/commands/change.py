"""Commands that change a search while it goes on: `update`, `pause`, `add-trial` and the like."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from trackside.cli.commands import submit as submitting
from trackside.cli.commands.submit import check_id
from trackside.cli.render import screen
from trackside.cli.runtime.addresses import Addresses
from trackside.cli.runtime.failures import Misuse
from trackside.cli.runtime.options import AsJson, Timeout
from trackside.cli.runtime.run import run
from trackside.contracts.codec import command_of
from trackside.contracts.message import Command
from trackside.contracts.refusals import Problem
from trackside.contracts.searches import (
    AddTrial,
    PauseSearch,
    RequestTrials,
    ResumeSearch,
    StopTrial,
    UpdateSearch,
    UpdateSearchSpace,
)
from trackside.sdk import durations
from trackside.sdk.client import Client
from trackside.sdk.publication import Pong
from trackside.sdk.yaml_core import YamlError, read_yaml

SearchId = Annotated[str, typer.Argument(metavar="ID", help="The search.")]


def update(
    stream_id: SearchId,
    concurrency: Annotated[int | None, typer.Option(help="Trials at once; ends none that run.")] = None,
    max_trials: Annotated[int | None, typer.Option(help="Trials in all.")] = None,
    max_duration: Annotated[str, typer.Option(metavar="TIME", help="Running time: 90, 10m, 2h, 1d.")] = "",
    max_trial_duration: Annotated[str, typer.Option(metavar="TIME", help="The same of each trial.")] = "",
    goal: Annotated[float | None, typer.Option(help="The value that is good enough.")] = None,
    remove: Annotated[
        list[str] | None, typer.Option(help="A limit that shall not hold any more, such as goal.")
    ] = None,
    timeout_s: Timeout = 30.0,
    as_json: AsJson = False,
) -> None:
    """Change limits of a search while it runs; what is left out stays.

    \b
    Examples:
      trackside update digits-1 --concurrency 8
      trackside update digits-1 --max-trials 500 --max-duration 2h
      trackside update digits-1 --remove goal
    """
    given = {
        "concurrency": concurrency,
        "max_trials": max_trials,
        "max_duration_s": seconds(max_duration),
        "max_trial_duration_s": seconds(max_trial_duration),
        "goal": goal,
        "remove": [name.replace("-", "_") for name in remove or []],
    }
    send(stream_id, UpdateSearch, {k: v for k, v in given.items() if v not in (None, [])}, timeout_s, as_json)


def update_space(
    stream_id: SearchId,
    file: Annotated[Path, typer.Argument(metavar="SPACE", help="JSON or YAML; NNI's form too.")],
    timeout_s: Timeout = 30.0,
    as_json: AsJson = False,
) -> None:
    """Give a search another space, from the next suggestion on; what runs goes on.

    The file holds the parameters of the space, or a mapping with `space`, such as the spec of a search.

    \b
    Examples:
      trackside update-space digits-1 space.yaml
    """
    found = _read(file)
    if isinstance(found, dict) and isinstance(found.get("space"), dict) and "type" not in found["space"]:
        found = found["space"]
    send(stream_id, UpdateSearchSpace, {"space": found}, timeout_s, as_json)


def request_trials(
    stream_id: SearchId,
    count: Annotated[int, typer.Argument(metavar="COUNT", help="How many.")],
    timeout_s: Timeout = 30.0,
    as_json: AsJson = False,
) -> None:
    """Begin so many trials more, once, beyond the search's concurrency.

    \b
    Examples:
      trackside request-trials digits-1 3
    """
    send(stream_id, RequestTrials, {"count": count}, timeout_s, as_json)


def add_trial(
    stream_id: SearchId,
    parameters: Annotated[list[str], typer.Argument(metavar="NAME=VALUE...", help="The parameters.")],
    tell_tuner: Annotated[bool, typer.Option("--tell-tuner", help="The tuner learns from it.")] = False,
    timeout_s: Timeout = 30.0,
    as_json: AsJson = False,
) -> None:
    """Run a trial with these parameters next; a value is JSON, else text.

    \b
    Examples:
      trackside add-trial digits-1 lr=0.01 hidden=64 optimizer=adam
      trackside add-trial digits-1 lr=0.01 'layer={"_name": "conv", "kernel": 3}' --tell-tuner
    """
    body = {"parameters": assignments(parameters), "tell_tuner": tell_tuner}
    send(stream_id, AddTrial, body, timeout_s, as_json)


def pause(
    stream_id: SearchId,
    give_back: Annotated[
        bool, typer.Option("--return", help="Running trials give their devices back, and begin again later.")
    ] = False,
    reason: Annotated[str, typer.Option("--reason", help="Kept in the log.")] = "",
    timeout_s: Timeout = 30.0,
    as_json: AsJson = False,
) -> None:
    """Begin no new trials of a search until it is resumed; those that run go on to their end.

    \b
    Examples:
      trackside pause digits-1
      trackside pause digits-1 --return --reason "the machine is needed"
    """
    running = "return" if give_back else "finish"
    send(stream_id, PauseSearch, {"running": running, "reason": reason}, timeout_s, as_json)


def resume(stream_id: SearchId, timeout_s: Timeout = 30.0, as_json: AsJson = False) -> None:
    """Let a paused search go on.

    \b
    Examples:
      trackside resume digits-1
    """
    send(stream_id, ResumeSearch, {}, timeout_s, as_json)


def stop_trial(
    stream_id: SearchId,
    trial: Annotated[int, typer.Argument(metavar="TRIAL", help="Its number.")],
    timeout_s: Timeout = 30.0,
    as_json: AsJson = False,
) -> None:
    """End one trial of a search; the search goes on.

    \b
    Examples:
      trackside stop-trial digits-1 7
    """
    send(stream_id, StopTrial, {"trial": trial}, timeout_s, as_json)


def ping(
    stream_id: Annotated[str, typer.Argument(metavar="ID", help="Any id.")] = "ping",
    timeout_s: Timeout = 30.0,
    as_json: AsJson = False,
) -> None:
    """Ask for an answer, and for nothing else: exit 0 if a dispatcher is there.

    \b
    Examples:
      trackside ping --timeout 5
    """
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
    """Reads a time as NNI's users write it, a number with s, m, h or d; None for no text."""
    if not text:
        return None
    found = durations.seconds(text)
    if found is None:
        raise Misuse(f"{text!r} is no duration; {durations.EXPECTED}")
    return found


def assignments(parameters: Sequence[str]) -> dict[str, Any]:
    """Reads NAME=VALUE pairs; a value is JSON, else text."""
    found: dict[str, Any] = {}
    for pair in parameters:
        name, equals, text = pair.partition("=")
        if not name or not equals:
            raise Misuse(f"{pair!r} is no parameter: expected NAME=VALUE")
        found[name] = _value(text)
    return found


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _read(file: Path) -> Any:
    try:
        return read_yaml(file.read_bytes()).value
    except OSError as error:
        raise Misuse(f"{file}: cannot be read: {error.strerror or error}") from error
    except YamlError as error:
        raise Misuse(f"{file}:{error.line}: {error}") from error


def send(stream_id: str, kind: type[Command], body: dict[str, Any], timeout_s: float, as_json: bool) -> None:
    """Publishes a command and prints its answer; raises Misuse for what can't be right, or is refused."""
    check_id(stream_id)
    command = command_of(kind.wire_type(), body, (kind,))
    if isinstance(command, Problem):
        raise Misuse(f"{command.code} at {command.path}: {command.message}")
    run(_sent(stream_id, command, timeout_s, as_json))


async def _sent(stream_id: str, command: Command, timeout_s: float, as_json: bool) -> None:
    addresses = Addresses()
    async with Client(addresses.bootstrap, addresses.prefix, name="cli") as client:
        await submitting.publish_and_print(client, command, stream_id, timeout_s, as_json)


async def _ping(stream_id: str, timeout_s: float) -> Pong:
    addresses = Addresses()
    async with Client(addresses.bootstrap, addresses.prefix, name="cli") as client:
        return await client.ping(stream_id, timeout_s)
