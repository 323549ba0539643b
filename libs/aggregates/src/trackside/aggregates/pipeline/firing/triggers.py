"""What pipelines wait for in other streams: what follows from signals. Pure."""

from collections.abc import Iterator

from trackside.aggregates.pipeline.firing.schedules import Cause, fire_events
from trackside.aggregates.pipeline.schedule.schedule_messages import ScheduleTrigger, ScheduleWatched
from trackside.aggregates.pipeline.schedule.schedule_state import Schedule, ScheduleStatus
from trackside.aggregates.pipeline.state import DefinedPipeline
from trackside.contracts.envelope.refusals import Problem
from trackside.contracts.streams.watches import TaskWatch
from trackside.domain.folding.aggregate import Aggregates, FindStream
from trackside.domain.folding.signals import Signal, schedules_behind
from trackside.domain.proposal import Proposal, cause_of
from trackside.domain.streams.stream import Stream
from trackside.domain.streams.watches import MAX_WATCHES


def signals(pipeline: DefinedPipeline) -> Iterator[Signal]:
    """Yields the run of a pipeline that ended last, of all and with each status."""
    ends = list(pipeline.newest_ends.items())
    named = [("run_ended", *end) for end in ends[-1:]] + [(f"run_ended.{end[0]}", *end) for end in ends]
    for name, status, number in named:
        run = pipeline.run_id(number)
        values = {"pipeline": pipeline.pipeline_id, "run": run, "number": number, "status": status}
        yield Signal(name, str(number), values, run)


def awaits(pipeline: DefinedPipeline) -> list[tuple[str, TaskWatch | None]]:
    """Returns the streams that the schedules of a pipeline wait for, with what of their tasks."""
    triggers = (schedule.spec.on for schedule in _waiting(pipeline))
    return [(on.stream, on.watch) for on in triggers if on is not None]


def signalled(
    stream: Stream[DefinedPipeline], find: FindStream, aggregates: Aggregates
) -> Iterator[Proposal]:
    """Yields what follows for schedules: that one begins to wait, or is fired.

    None is fired by what its own runs have led to, however long the chain of schedules and streams.
    """
    pipeline = stream.root
    for schedule in _waiting(pipeline):
        on = schedule.spec.on
        assert on is not None
        other = find(on.stream)
        if schedule.seen is None:
            key = _key_now(on, other, aggregates)
            if key is not None:
                watched = ScheduleWatched(name=schedule.name, key=key)
                yield Proposal("watch stream", [watched], pipeline.changed_at, stream.traceparent)
            continue
        signal = None if other is None else _signal(schedule, on, other, aggregates)
        if other is not None and signal is not None and schedule.is_new(signal.key) and _fits(on, signal):
            origin = other.stream_id if signal.origin is None else signal.origin
            behind = schedules_behind(origin, find, aggregates.of)
            at: int = other.root.changed_at if signal.offset is None else signal.offset
            cause = Cause(cause_of(other.stream_id, at), signal.key, signal.values, behind)
            events = fire_events(pipeline, schedule, cause=cause, refused=_refused(on, other))
            yield Proposal("fire schedule", events, at, stream.traceparent, other.stream_id)
            return  # the next one has the number after it


def _waiting(pipeline: DefinedPipeline) -> list[Schedule]:
    return [
        schedule
        for schedule in pipeline.schedules.values()
        if schedule.spec.on is not None and schedule.status is ScheduleStatus.ACTIVE
    ]


def _key_now(on: ScheduleTrigger, other: Stream | None, aggregates: Aggregates) -> str | None:
    """Returns what is there already; None as long as the other stream does not note what is waited for."""
    if other is None:
        return ""
    if on.watch is None:
        signal = _of_root(on, other, aggregates)
        return "" if signal is None else signal.key
    watched = other.watches.get(on.watch.key)
    if watched is not None:
        return str(watched.last)
    return "" if other.closed or len(other.watches) >= MAX_WATCHES else None


def _signal(schedule: Schedule, on: ScheduleTrigger, other: Stream, aggregates: Aggregates) -> Signal | None:
    if on.watch is None:
        return _of_root(on, other, aggregates)
    watched = other.watches.get(on.watch.key)
    if watched is None:
        newest = max((each.since for each in other.watches.values()), default=-1)
        return Signal(on.event, str(newest), {}, offset=newest) if _refused(on, other) else None
    new = [match for match in watched.matches if schedule.is_new(str(match.offset))]
    if not new:
        return None
    match = new[0] if schedule.spec.catch_up == "all" else new[-1]
    return Signal(on.event, str(match.offset), match.values, offset=match.offset)


def _refused(on: ScheduleTrigger, other: Stream) -> Problem | None:
    """Returns why a stream will not note what is waited for, or None."""
    if on.watch is None or on.watch.key in other.watches or len(other.watches) < MAX_WATCHES:
        return None
    message = f"schedules wait for {MAX_WATCHES} things of tasks of {other.stream_id}, as many as may be"
    return Problem(code="too_many_watches", path="$.schedule.on", message=message)


def _of_root(on: ScheduleTrigger, other: Stream, aggregates: Aggregates) -> Signal | None:
    aggregate = aggregates.of(other)
    if aggregate is None:
        return None
    if on.event == "ended":
        found = (signal for signal in aggregate.signals(other.root) if signal.name == "ended")
        return next((signal for signal in found if on.of in ("", signal.values["status"])), None)
    name = f"{on.event}.{on.of}" if on.of else on.event
    return next((signal for signal in aggregate.signals(other.root) if signal.name == name), None)


def _fits(on: ScheduleTrigger, signal: Signal) -> bool:
    value = signal.values.get("value")
    if on.event != "best" or (on.above is None and on.below is None):
        return True
    if not isinstance(value, int | float):
        return False
    return (on.above is None or value > on.above) and (on.below is None or value < on.below)
