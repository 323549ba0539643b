"""Commands that show a stream at earlier moments: `replay show`, `replay diff`."""

from contextlib import aclosing
from typing import Any

from trackside.cli.render import screen
from trackside.cli.render.screen import Column
from trackside.cli.runtime.addresses import Addresses
from trackside.cli.runtime.run import run
from trackside.contracts.topics import Topics
from trackside.eventlog.clock import now_ms, rfc3339
from trackside.eventlog.kafka import KafkaLog
from trackside.replay.find import find
from trackside.replay.history.describe import Change, Fields, Picture, changes, picture
from trackside.replay.history.history import History, Past, past_at, pasts
from trackside.replay.history.moments import Moment, parse_moment
from trackside.replay.history.state_cache import Kept

LONGEST_VALUE = 60
OF_SEARCH = ("task_type", "tuner", "assessor", "direction", "max_trials", "concurrency", "seed")
OF_BATCH = ("groups", "running_group", "concurrency", "open_tasks")


def show(stream_id: str, at: str, as_json: bool) -> None:
    """Prints the state of a stream at a moment."""
    run(_show(stream_id, parse_moment(at, now_ms()), as_json))


def diff(stream_id: str, from_: str, to: str, as_json: bool) -> None:
    """Prints what changed in a stream between two moments; an empty `from_` is its start."""
    now = now_ms()
    start = parse_moment(from_, now) if from_ else None
    run(_diff(stream_id, start, parse_moment(to, now), as_json))


async def _show(stream_id: str, moment: Moment, as_json: bool) -> None:
    addresses = Addresses()
    async with KafkaLog(addresses.bootstrap, client_id="trackside-replay") as log:
        history = await find(log, Topics(prefix=addresses.prefix), stream_id)
        past = await past_at(history, moment, addresses.kept)
    if as_json:
        screen.emit(_place(history, past) | picture(past.stream).as_json())
    else:
        show_past(history, past)


async def _diff(stream_id: str, start: Moment | None, end: Moment, as_json: bool) -> None:
    addresses = Addresses()
    async with KafkaLog(addresses.bootstrap, client_id="trackside-replay") as log:
        history = await find(log, Topics(prefix=addresses.prefix), stream_id)
        taken = await pictures_at(history, [end] if start is None else [start, end], addresses.kept)
    last, after = taken[-1]
    first, before = taken[0] if start is not None else (None, None)
    found = changes(before, after)
    if as_json:
        screen.emit({"from": first, "to": last, "changes": [change.as_json() for change in found]})
        return
    screen.say(f"{stream_id} from {_moment(first)} to {_moment(last)}: {len(found)} subjects changed")
    for change in found:
        for line in change_lines(change):
            screen.say(line)


async def pictures_at(
    history: History, moments: list[Moment], kept: Kept | None = None
) -> list[tuple[Fields, Picture]]:
    """Takes a picture at each moment, with its place."""
    async with aclosing(pasts(history, moments, kept)) as found:
        return [(_place(history, past), picture(past.stream)) async for past in found]


def show_past(history: History, past: Past) -> None:
    """Prints the state of a stream at a moment."""
    taken = picture(past.stream)
    status = taken.root.get("status", "no search, no batch")
    screen.say(f"{history.stream_id}  {taken.kind} {status}, {_moment(_place(history, past))}")
    screen.say(f"  {past.records} records by then, {past.ignored} without effect")
    if taken.root:
        screen.say(f"  {_facts(taken.root, OF_BATCH if taken.groups else OF_SEARCH)}")
    if taken.root.get("best_trial") is not None:
        screen.say(f"  best: {screen.number(taken.root['best_value'])} of trial {taken.root['best_trial']}")
    for what, text in (("stopped", taken.root.get("stop_reason")), ("failed", taken.root.get("failure"))):
        if text:
            screen.say(f"  {what}: {text}")
    for name, command in taken.commands.items():
        screen.say(f"  command {name}: {command['type']}, {command['answer']}")
    if taken.groups:
        columns = [Column("group"), Column("state"), Column("tasks", right=True), Column("ends")]
        screen.show_table(
            columns, [[name, f["state"], f["tasks"], f["ends"]] for name, f in taken.groups.items()]
        )
    if taken.trials:
        _show_trials(taken)
    elif taken.tasks:
        _show_tasks(taken)


def change_lines(change: Change) -> list[str]:
    """Returns the lines of a change: one for the subject, then one for each field."""
    sign = "+" if change.before is None else "~"
    lines = [f"{sign} {change.subject}"]
    for name, (old, new) in change.fields.items():
        before = "" if change.before is None else f"{_value(name, old)} -> "
        lines.append(f"    {name}: {before}{_value(name, new)}")
    return lines


def _show_trials(taken: Picture) -> None:
    columns = [
        Column("trial", right=True),
        Column("status"),
        Column("value", right=True),
        Column("reports", right=True),
        Column("task", optional=True),
        Column("tries", right=True, optional=True),
        Column("where", optional=True),
        Column("parameters", keep=True),
    ]
    of_trial = {task["trial"]: task for task in taken.tasks.values()}
    rows = []
    for number, trial in taken.trials.items():
        task = of_trial.get(number)
        about = ["", "", ""] if task is None else _about(task)
        value = trial["value"] if trial["value"] is not None else trial["last_value"]
        rows.append([number, trial["status"], value, trial["reports"], *about, trial["parameters"]])
    screen.show_table(columns, rows)


def _show_tasks(taken: Picture) -> None:
    columns = [Column("task", keep=True), Column("type"), Column("task is"), Column("tries", right=True)]
    columns += [Column("where"), Column("reports", right=True), Column("error")]
    rows = []
    for name, task in taken.tasks.items():
        error = task["attempts"][-1]["error"] or task["unschedulable"]
        rows.append([name, task["task_type"], *_about(task), len(task["reports"]), error])
    screen.show_table(columns, rows)


def _about(task: Fields) -> list[Any]:
    """Returns the state or end of a task, its number of attempts, and the device of the newest."""
    attempt = task["attempts"][-1]
    where = f"{attempt['worker_id']}/{','.join(attempt['device_ids'])}" if attempt["worker_id"] else ""
    return [task["end"] or task["state"], len(task["attempts"]), where]


def _place(history: History, past: Past) -> Fields:
    return {
        "stream": history.stream_id,
        "topic": history.place[0],
        "partition": history.partition,
        "offset": past.last.offset,
        "time": rfc3339(past.last.append_time_ms),
        "records": past.records,
        "ignored": past.ignored,
    }


def _moment(place: Fields | None) -> str:
    return "its start" if place is None else f"after offset {place['offset']}, {place['time']}"


def _facts(fields: Fields, names: tuple[str, ...]) -> str:
    return "  ".join(f"{name}={screen.cell(fields[name])}" for name in names if fields[name] is not None)


def _value(name: str, value: Any) -> str:
    if name.endswith("_ms") and value:
        return rfc3339(value)
    text = screen.cell(value)
    return text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE - 1]}…"
