"""The pages of the log: positions, refused commands, dead letters, and the events of one stream."""

import asyncio
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from trackside.aggregates.registry import AGGREGATES
from trackside.console.pages.stream import found_stream, stream_values
from trackside.console.web.page import BadQuery, PageNotFound, PageRequest, Shown
from trackside.domain.display.times import time_of_ms
from trackside.eventlog.clock import now_ms
from trackside.replay.causality.cause_tree import cause_tree
from trackside.replay.causality.event_pages import (
    EVENTS,
    EventPage,
    EventSource,
    read_event_with_causes,
    read_events,
)
from trackside.replay.history.errors import BadRangeError
from trackside.replay.history.point_in_time import NOW, PointInTime, parse_point_in_time
from trackside.replay.history.recorded_stream import PastState, RecordedStream, find_live, state_at
from trackside.replay.history.state_view import state_view

LIMIT = 50
TREE_EVENTS = 500
"""How many events a page of the tree has."""
EVENTS_AFTER = 2_000
"""In how many events after one its effects are looked for."""
CHANGES = 500
"""How many differences between two states are shown at most."""


async def log(request: PageRequest) -> Shown:
    """Shows how far the read models are, and what could not be accepted or read."""
    models = request.models
    totals: dict[tuple[str, str], list[int]] = defaultdict(list)
    for (owner, topic, _), position in (await models.positions()).items():
        totals[owner, topic].append(position)
    values = {
        "positions": [
            {"owner": owner, "topic": topic, "partitions": len(found), "records": sum(found)}
            for (owner, topic), found in sorted(totals.items())
        ],
        "parked": await models.rows("parked_streams"),
        "skipped": await models.rows("skipped_records"),
        "refused": await models.rows("refused_commands", LIMIT),
        "letters": await models.rows("dead_letters", LIMIT),
    }
    return Shown("log.html", "Log", values, section="log")


async def events(request: PageRequest) -> Shown:
    """Shows events of a stream as a tree of their causes, or as a list with the newest first.

    Each that had no effect is marked.

    With `event` in the query it is the tree of that event: its causes back to a command, and its effects.
    """
    stream_view, row = await found_stream(request)
    stream_id = request.parts["stream_id"]
    place = await request.models.row("stream_place", stream_id)
    assert place is not None  # its row is written in one transaction with that of the stream
    source = EventSource(request.log, request.topics, place["partition"], place["first_offset"], stream_id)
    event, before = (request.number(name, -1, -1, 2**53) for name in ("event", "before"))
    view = request.one_of("view", ("tree", "list"), "tree")
    if event >= 0:
        found = EventPage((await read_event_with_causes(source, event, EVENTS_AFTER))[::-1], None)
    else:
        limit = EVENTS if view == "list" else TREE_EVENTS
        found = await read_events(source, before if before >= 0 else None, limit)
    if found.events:
        first, last = (pick(each.offset for each in found.events) for pick in (min, max))
        known = await request.standings.of(
            request.log, request.topics, stream_id, request.past_states, first, last
        )
        found = found.marked(known)
    values = {
        **stream_values(request, stream_view.kind, row, "events"),
        "view": view,
        "events": found.events,
        "tree": cause_tree(found.events[::-1]) if view == "tree" else [],
        "before": found.before,
        "unknown": found.unknown,
        "event": event,
        "at_time": time_of_ms,
    }
    streams = frozenset((stream_id,)) if before < 0 else frozenset[str]()
    return Shown("events.html", f"Events of {stream_id}", values, streams, section="experiments")


async def past(request: PageRequest) -> Shown:
    """Shows a stream as it was at a point in time, with a slider over all its offsets."""
    stream_view, row = await found_stream(request)
    stream_id = request.parts["stream_id"]
    place = await request.models.row("stream_place", stream_id)
    assert place is not None
    first, last = place["first_offset"], place["last_offset"]
    moments = [_moment(request, name) for name in ("at", "and") if request.query.get(name)] or [NOW]
    recorded = await find_live(request.log, request.topics, stream_id, request.past_states)
    if recorded is None:
        raise PageNotFound(f"the log does not have {stream_id} any more")
    try:
        states = [await _shown_state(recorded, moment) for moment in moments]
    except BadRangeError as error:
        raise BadQuery(str(error)) from None
    values = {
        **stream_values(request, stream_view.kind, row, "past"),
        "first": first,
        "last": last,
        "states": states,
        "changes": await asyncio.to_thread(_changes, *states) if len(states) == 2 else [],
    }
    return Shown("past.html", f"Past of {stream_id}", values, frozenset(), section="experiments")


def _moment(request: PageRequest, name: str) -> PointInTime:
    try:
        return parse_point_in_time(request.query[name], now_ms())
    except BadRangeError as error:
        raise BadQuery(str(error)) from None


async def _shown_state(recorded: RecordedStream, moment: PointInTime) -> dict[str, Any]:
    """Returns the state of a stream at a moment, as facts and tables."""
    return await asyncio.to_thread(_values_of_state, await state_at(recorded, moment), moment)


def _values_of_state(found: PastState, moment: PointInTime) -> dict[str, Any]:
    state = state_view(found.stream)
    aggregate = AGGREGATES.of(found.stream)  # none before the stream's first event
    return {
        "moment": str(moment),
        "offset": found.last.offset,
        "time": time_of_ms(found.last.append_time_ms),
        "records": found.records,
        "facts": [
            _fact(name, value) for name, value in state.root.items() if value not in (None, "", [], {})
        ],
        "tables": [] if aggregate is None else aggregate.view.state_tables(state.parts, state.tasks),
        "subjects": state.subjects(),
    }


def _fact(name: str, value: object) -> tuple[str, object]:
    """Returns a field of a state with its name, a time in ms as a time."""
    if name.endswith("_ms") and isinstance(value, int):
        return name.removesuffix("_ms"), time_of_ms(value)
    return name, value


def _changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[tuple[str, str, object, object]]:
    """Returns what differs between two states: subject, field, and the value in each."""
    old, new = before["subjects"], after["subjects"]
    found: list[tuple[str, str, object, object]] = []
    for subject in [*old, *(each for each in new if each not in old)]:
        was, now = old.get(subject, {}), new.get(subject, {})
        names = [*was, *(each for each in now if each not in was)]
        found += [
            (subject, name, was.get(name), now.get(name)) for name in names if was.get(name) != now.get(name)
        ]
    return found[:CHANGES]
