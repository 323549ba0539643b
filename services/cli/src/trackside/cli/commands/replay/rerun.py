"""Commands that begin from a recorded search: `replay rerun`, `replay fork`; and `replay compare`."""

from typing import Annotated

import typer

from trackside.cli.commands import submit as submitting
from trackside.cli.commands.replay.show import StreamId
from trackside.cli.render import screen
from trackside.cli.render.screen import Column
from trackside.cli.runtime.addresses import Addresses
from trackside.cli.runtime.failures import Misuse
from trackside.cli.runtime.options import AsJson, Timeout
from trackside.cli.runtime.run import run
from trackside.contracts.ids import IDENTIFIER_RULE, is_identifier
from trackside.contracts.searches import StartSearch
from trackside.contracts.topics import Topics
from trackside.domain.search import Search
from trackside.eventlog.clock import now_ms
from trackside.eventlog.kafka import KafkaLog
from trackside.replay.derive.fork import fork_of, parse_changes
from trackside.replay.derive.rerun import Pair, SideBySide, rerun_of, side_by_side, status_of
from trackside.replay.find import find
from trackside.replay.history.errors import LiveTargetError, NotRecordedError
from trackside.replay.history.history import find_live, past_at
from trackside.replay.history.moments import NOW, Moment, parse_moment

NewId = Annotated[str, typer.Option("--id", metavar="NEW", help="The id of the new search; else made up.")]
Wait = Annotated[bool, typer.Option("--wait", help="Show its progress and wait for its end.")]
At = Annotated[str, typer.Option("--at", metavar="OFFSET|TIME", help="The search as it was then.")]


def rerun(
    stream_id: StreamId,
    new_id: NewId = "",
    at: At = "now",
    no_assessor: Annotated[
        bool, typer.Option("--no-assessor", help="Let every trial run to its end.")
    ] = False,
    wait: Wait = False,
    timeout_s: Timeout = 30.0,
    as_json: AsJson = False,
) -> None:
    """Run the trials of a recorded search again as a new one: same parameters, order, seed; no tuner asked.

    The recorded stream stays as it is. With --wait the two are shown side by side at the end, trial by trial;
    `replay compare OLD NEW` does it at any time.

    \b
    Examples:
      trackside replay rerun digits-1 --id digits-1-again --wait
      trackside replay rerun imported/digits-1 --no-assessor
    """
    search, offset = run(_recorded(stream_id, parse_moment(at, now_ms())))
    command = rerun_of(search, stream_id, offset, judged=not no_assessor)
    if not as_json:
        screen.complain(f"{stream_id} behind offset {offset}: {len(search.trials)} trials again")
    started = _start(command, new_id, wait, timeout_s, as_json)
    if wait:
        _show_both(stream_id, search, started, as_json)


def fork(
    stream_id: StreamId,
    new_id: NewId = "",
    at: At = "now",
    changes: Annotated[
        list[str],
        typer.Option("--set", metavar="NAME=VALUE,...", help="Another value of a field, such as tuner.name."),
    ] = [],  # noqa: B006 - typer reads it and nobody writes it
    wait: Wait = False,
    timeout_s: Timeout = 30.0,
    as_json: AsJson = False,
) -> None:
    """Begin a new search from the past of a recorded one: it knows its results, and goes on from there.

    Trials that ended with a value are told to its tuner before it is asked; those that had not ended are its
    first ones. `max_trials` counts the ended ones too: so a search that is over goes on with a higher limit.

    \b
    Examples:
      trackside replay fork digits-1 --set max_trials=24 --wait
      trackside replay fork digits-1 --at 120 --set tuner.name=gp --id digits-by-gp
      trackside replay fork digits-1 --at 10m --set concurrency=4,assessor.name=asha
    """
    search, offset = run(_recorded(stream_id, parse_moment(at, now_ms())))
    made = fork_of(search, stream_id, offset, parse_changes(changes))
    if not as_json:
        screen.complain(
            f"{stream_id} behind offset {offset}: {made.ended} trials had ended, {made.told} are told, "
            f"{made.command.max_trials} to come, of which {made.again} had not ended"
        )
    _start(made.command, new_id, wait, timeout_s, as_json)


def compare(
    old: Annotated[str, typer.Argument(metavar="OLD", help="A search.")],
    new: Annotated[str, typer.Argument(metavar="NEW", help="The search to put beside it.")],
    as_json: AsJson = False,
) -> None:
    """Show two searches side by side, trial by trial: their values, and by how much they differ.

    \b
    Examples:
      trackside replay compare digits-1 digits-1-again
      trackside replay compare digits-1 digits-1-again --json
    """
    _show_both(old, run(_recorded(old, NOW))[0], new, as_json)


def _show_both(old: str, search: Search, new: str, as_json: bool) -> None:
    found = side_by_side(search, run(_recorded(new, NOW))[0])
    if as_json:
        screen.emit(found.as_json())
    else:
        show(old, new, found)


def show(old: str, new: str, found: SideBySide) -> None:
    """Prints two searches side by side."""
    columns = [
        Column("trial", right=True),
        Column("old"),
        Column("steps", right=True),
        Column("value", right=True),
        Column("new"),
        Column("steps", right=True),
        Column("value", right=True),
        Column("differs", right=True),
        Column("by step", right=True),
        Column("same", right=True),
    ]
    screen.show_table(columns, [_cells(pair) for pair in found.pairs])
    whole = found.as_json()
    for name, side in ((old, whole["old"]), (new, whole["new"])):
        best = screen.number(side["best_value"])
        took = screen.duration(side["duration_s"])
        screen.say(f"{name} {side['status']}: best {best} of trial {screen.cell(side['best_trial'])}, {took}")
    mean, largest = screen.number(whole["mean_difference"]), screen.number(whole["largest_difference"])
    screen.say(f"{whole['same_parameters']} trials have the same parameters")
    screen.say(f"{whole['compared']} of them came as far in both: mean difference {mean}, largest {largest}")
    step = screen.number(whole["largest_difference_of_a_step"])
    screen.say(f"{whole['steps_compared']} steps were reported by both: largest difference {step}")


def _cells(pair: Pair) -> list[object]:
    """Gives the row of a trial in both searches; `by step` is the largest difference at a common step.

    `same` says whether both had the same parameters.
    """
    same = None
    if pair.old is not None and pair.new is not None:
        same = "yes" if pair.same_parameters else "no"
    sides: list[object] = []
    for trial in (pair.old, pair.new):
        told = (None, None) if trial is None else (len(trial.reports), trial.value)
        sides += [status_of(trial), *told]
    difference = pair.difference if pair.same_parameters else None
    return [pair.number, *sides, difference, max(pair.steps, key=abs, default=None), same]


async def _recorded(stream_id: str, moment: Moment) -> tuple[Search, int]:
    """Gives a recorded search as it was, and the offset of the last record by then."""
    addresses = Addresses()
    async with KafkaLog(addresses.bootstrap, client_id="trackside-replay") as log:
        history = await find(log, Topics(prefix=addresses.prefix), stream_id)
        past = await past_at(history, moment, addresses.kept)
    if past.stream.search is None:
        raise NotRecordedError(f"{stream_id} has no search there")
    return past.stream.search, past.last.offset


def _start(command: StartSearch, new_id: str, wait: bool, timeout_s: float, as_json: bool) -> str:
    stream_id = new_id or submitting.made_up_id(command)
    if not is_identifier(stream_id):
        raise Misuse(f"{stream_id!r} is not an id: expected {IDENTIFIER_RULE}")
    run(_submit(command, stream_id, wait, timeout_s, as_json))
    return stream_id


async def _submit(command: StartSearch, stream_id: str, wait: bool, timeout_s: float, as_json: bool) -> None:
    addresses = Addresses()
    async with KafkaLog(addresses.bootstrap, client_id="trackside-replay") as log:
        if await find_live(log, Topics(prefix=addresses.prefix), stream_id) is not None:
            raise LiveTargetError(f"the log has a stream {stream_id!r}; give the new search another --id")
    await submitting.start(command, stream_id, timeout_s, wait, as_json)
