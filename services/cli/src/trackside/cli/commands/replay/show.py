"""Commands that show a stream at earlier moments: `replay show`, `replay diff`."""

from contextlib import aclosing
from typing import Any

from trackside.aggregates.registry import AGGREGATES
from trackside.cli.render import screen
from trackside.cli.runtime.addresses import Addresses
from trackside.cli.runtime.run import run
from trackside.contracts.envelope.topics import Topics
from trackside.contracts.wire.topic_rights import VIEWER
from trackside.domain.display.task_state import Fields
from trackside.eventlog.clock import now_ms, rfc3339
from trackside.eventlog.kafka.kafka_log import KafkaLog
from trackside.replay.find_stream import find_stream
from trackside.replay.history.point_in_time import PointInTime, parse_point_in_time
from trackside.replay.history.recorded_stream import PastState, RecordedStream, state_at, states_at
from trackside.replay.history.state_cache import StateCache
from trackside.replay.history.state_view import StateView, SubjectChange, changes, state_view

LONGEST_VALUE = 60


def show(stream_id: str, at: str, as_json: bool) -> None:
    """Prints the state of a stream at a moment."""
    run(_show(stream_id, parse_point_in_time(at, now_ms()), as_json))


def diff(stream_id: str, from_: str, to: str, as_json: bool) -> None:
    """Prints what changed in a stream between two moments; an empty `from_` is its start."""
    now = now_ms()
    start = parse_point_in_time(from_, now) if from_ else None
    run(_diff(stream_id, start, parse_point_in_time(to, now), as_json))


async def _show(stream_id: str, point: PointInTime, as_json: bool) -> None:
    addresses = Addresses()
    async with KafkaLog(addresses.kafka_as(VIEWER), client_id="trackside-replay", keys=addresses.keys) as log:
        recorded = await find_stream(log, Topics(prefix=addresses.prefix), stream_id, addresses.past_states)
        past = await state_at(recorded, point, addresses.state_cache)
    if as_json:
        screen.emit(_place(recorded, past) | state_view(past.stream).as_json())
    else:
        show_past(recorded, past)


async def _diff(stream_id: str, start: PointInTime | None, end: PointInTime, as_json: bool) -> None:
    addresses = Addresses()
    async with KafkaLog(addresses.kafka_as(VIEWER), client_id="trackside-replay", keys=addresses.keys) as log:
        recorded = await find_stream(log, Topics(prefix=addresses.prefix), stream_id, addresses.past_states)
        taken = await views_at(recorded, [end] if start is None else [start, end], addresses.state_cache)
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


async def views_at(
    recorded: RecordedStream, moments: list[PointInTime], state_cache: StateCache | None = None
) -> list[tuple[Fields, StateView]]:
    """Takes a picture at each moment, with its place."""
    async with aclosing(states_at(recorded, moments, state_cache)) as found:
        return [(_place(recorded, past), state_view(past.stream)) async for past in found]


def show_past(recorded: RecordedStream, past: PastState) -> None:
    """Prints the state of a stream at a moment."""
    taken = state_view(past.stream)
    status = taken.root.get("status", ", ".join(f"no {each.kind}" for each in AGGREGATES.types))
    screen.say(f"{recorded.stream_id}  {taken.kind} {status}, {_moment(_place(recorded, past))}")
    screen.say(f"  {past.records} records by then, {past.ignored} without effect")
    aggregate = AGGREGATES.of(past.stream)
    for line in [] if aggregate is None else aggregate.view.state_lines(taken.root):
        screen.say(f"  {line}")
    for what, text in (("stopped", taken.root.get("stop_reason")), ("failed", taken.root.get("failure"))):
        if text:
            screen.say(f"  {what}: {text}")
    for name, command in taken.commands.items():
        screen.say(f"  command {name}: {command['type']}, {command['answer']}")
    for table in [] if aggregate is None else aggregate.view.state_tables(taken.parts, taken.tasks):
        screen.show_text_table(table)


def change_lines(change: SubjectChange) -> list[str]:
    """Returns the lines of a change: one for the subject, then one for each field."""
    sign = "+" if change.before is None else "~"
    lines = [f"{sign} {change.subject}"]
    for name, (old, new) in change.fields.items():
        before = "" if change.before is None else f"{_value(name, old)} -> "
        lines.append(f"    {name}: {before}{_value(name, new)}")
    return lines


def _place(recorded: RecordedStream, past: PastState) -> Fields:
    return {
        "stream": recorded.stream_id,
        "topic": recorded.place[0],
        "partition": recorded.partition,
        "offset": past.last.offset,
        "time": rfc3339(past.last.append_time_ms),
        "records": past.records,
        "ignored": past.ignored,
    }


def _moment(place: Fields | None) -> str:
    return "its start" if place is None else f"after offset {place['offset']}, {place['time']}"


def _value(name: str, value: Any) -> str:
    if name.endswith("_ms") and value:
        return rfc3339(value)
    text = screen.cell(value)
    return text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE - 1]}…"
