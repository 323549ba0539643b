"""What pipelines wait for in other streams: what follows from signals. Pure."""

from collections.abc import Iterator

from trackside.aggregates.pipeline.schedule_messages import ScheduleTrigger, ScheduleWatched
from trackside.aggregates.pipeline.schedule_state import Schedule, ScheduleStatus
from trackside.aggregates.pipeline.schedules import Cause, fire_events
from trackside.aggregates.pipeline.state import DefinedPipeline
from trackside.domain.aggregate import Aggregates, FindStream
from trackside.domain.proposal import Proposal, cause_of
from trackside.domain.signals import Signal, schedules_behind
from trackside.domain.stream import Stream


def signals(pipeline: DefinedPipeline) -> Iterator[Signal]:
    """Yields the run of a pipeline that ended last, of all and with each status."""
    ends = list(pipeline.newest_ends.items())
    named = [("run_ended", *end) for end in ends[-1:]] + [(f"run_ended.{end[0]}", *end) for end in ends]
    for name, status, number in named:
        run = pipeline.run_id(number)
        values = {"pipeline": pipeline.pipeline_id, "run": run, "number": number, "status": status}
        yield Signal(name, str(number), values, run)


def awaits(pipeline: DefinedPipeline) -> list[str]:
    """Returns the streams that the schedules of a pipeline wait for."""
    return [schedule.spec.on.stream for schedule in _waiting(pipeline) if schedule.spec.on is not None]


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
        signal = _signal(on, other, aggregates)
        if schedule.seen is None:
            watched = ScheduleWatched(name=schedule.name, key="" if signal is None else signal.key)
            yield Proposal("watch stream", [watched], pipeline.changed_at, stream.traceparent)
        elif signal is not None and other is not None and signal.key != schedule.seen and _fits(on, signal):
            origin = other.stream_id if signal.origin is None else signal.origin
            behind = schedules_behind(origin, find, aggregates.of)
            at: int = other.root.changed_at
            cause = Cause(cause_of(other.stream_id, at), signal.key, signal.values, behind)
            events = fire_events(pipeline, schedule, cause=cause)
            yield Proposal("fire schedule", events, at, stream.traceparent, other.stream_id)
            return  # the next one has the number after it


def _waiting(pipeline: DefinedPipeline) -> list[Schedule]:
    return [
        schedule
        for schedule in pipeline.schedules.values()
        if schedule.spec.on is not None and schedule.status is ScheduleStatus.ACTIVE
    ]


def _signal(on: ScheduleTrigger, other: Stream | None, aggregates: Aggregates) -> Signal | None:
    aggregate = None if other is None else aggregates.of(other)
    if other is None or aggregate is None:
        return None
    if on.event == "ended":
        found = (signal for signal in aggregate.signals(other.root) if signal.name == "ended")
        return next((signal for signal in found if on.of in ("", signal.values["status"])), None)
    name = f"{on.event}.{on.of}" if on.of else on.event
    return next((signal for signal in aggregate.signals(other.root) if signal.name == name), None)


def _fits(on: ScheduleTrigger, signal: Signal) -> bool:
    value = signal.values.get("value")
    if on.above is None and on.below is None:
        return True
    if not isinstance(value, int | float):
        return False
    return (on.above is None or value > on.above) and (on.below is None or value < on.below)
