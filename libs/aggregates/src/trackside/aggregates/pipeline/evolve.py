"""What each event does to a pipeline: the guards that every reader folds with."""

from trackside.aggregates.pipeline.firing import schedule_events
from trackside.aggregates.pipeline.firing.run_checks import size_of
from trackside.aggregates.pipeline.messages import (
    RUN,
    PipelineDefined,
    PipelineRetired,
    PipelineStatus,
    RunCancelled,
    RunNumbered,
    run_number,
)
from trackside.aggregates.pipeline.schedule.schedule_messages import (
    ScheduleArmed,
    ScheduleChange,
    ScheduleFired,
    ScheduleWatched,
)
from trackside.aggregates.pipeline.state import (
    CANCELLED,
    RUNNING,
    STOPPING,
    DefinedPipeline,
    NumberedRun,
    PipelineVersion,
)
from trackside.contracts.envelope.message import Record
from trackside.contracts.streams.children import ChildRequested
from trackside.domain.outcome import Outcome
from trackside.domain.streams.child import REFUSED, Child


def begin(pipeline_id: str, event: PipelineDefined, record: Record) -> DefinedPipeline:
    """Makes the pipeline of its first PipelineDefined event."""
    pipeline = DefinedPipeline(pipeline_id, record.append_time_ms, changed_at=record.offset)
    pipeline.versions.append(_version(1, event, record))
    pipeline.current = pipeline.changes = 1
    pipeline.max_runs = event.max_runs
    return pipeline


def evolve(pipeline: DefinedPipeline, record: Record) -> Outcome:
    """Folds one event into the pipeline; changes it only if it returns APPLIED."""
    outcome = _evolve(pipeline, record)
    if outcome is Outcome.APPLIED:
        pipeline.changed_at = record.offset
    return outcome


def admits_child(pipeline: DefinedPipeline, event: ChildRequested) -> bool:
    """Returns whether a child is the run whose turn it is, and there is room for it."""
    run = pipeline.next_run
    return run is not None and (event.child_id, event.kind) == (pipeline.run_id(run.number), RUN)


def note_child(pipeline: DefinedPipeline, child: Child, record: Record) -> None:
    """Takes in that the stream of a run was requested, is to stop, or has ended."""
    number = run_number(pipeline.pipeline_id, child.child_id)
    run = None if number is None else pipeline.runs.get(number)
    if run is None:
        return
    pipeline.changed_at = record.offset
    if not child.open:
        run.status, run.ended_ms = child.status, record.append_time_ms
        pipeline.open_runs.pop(run.number, None)
        pipeline.ended_runs.append(run.number)
        pipeline.settled.append(child.child_id)
        if child.status == REFUSED:
            run.reason = _refusal(child)
        pipeline.newest_ends.pop(child.status, None)  # so that the one that ended last comes last
        pipeline.newest_ends[child.status] = run.number
    elif child.stopping:
        run.status, run.reason = STOPPING, child.stop_reason
    else:
        run.status, run.requested_ms = RUNNING, record.append_time_ms
        pipeline.queued.remove(run.number)
        pipeline.open_runs[run.number] = None


def _refusal(child: Child) -> str:
    """Returns the first problem for which a run was refused, as far as its text is readable."""
    problems = child.result.get("problems")
    first = problems[0] if isinstance(problems, list) and problems else {}
    return str(first.get("message", ""))[:500] if isinstance(first, dict) else ""


def _evolve(pipeline: DefinedPipeline, record: Record) -> Outcome:
    event = record.message
    match event:
        case RunNumbered():
            return _numbered(pipeline, event, record)
        case RunCancelled():
            return _cancelled(pipeline, event, record)
        case ScheduleArmed():
            return schedule_events.armed(pipeline, event, record)
        case ScheduleWatched():
            return schedule_events.watched(pipeline, event)
        case ScheduleFired():
            return schedule_events.fired(pipeline, event, record)
        case _ if isinstance(event, PipelineDefined | PipelineRetired | ScheduleChange):
            if event.change != pipeline.changes + 1:
                return Outcome.DUPLICATE if event.change <= pipeline.changes else Outcome.OVERTAKEN
            outcome = _changed(pipeline, event, record)
            pipeline.changes += outcome is Outcome.APPLIED
            return outcome
        case _:
            return Outcome.OVERTAKEN


def _changed(
    pipeline: DefinedPipeline, event: PipelineDefined | PipelineRetired | ScheduleChange, record: Record
) -> Outcome:
    match event:
        case PipelineDefined():
            return _defined(pipeline, event, record)
        case PipelineRetired():
            return _retired(pipeline, event, record)
        case _:
            return schedule_events.changed(pipeline, event, record)


def _defined(pipeline: DefinedPipeline, event: PipelineDefined, record: Record) -> Outcome:
    known = pipeline.with_digest(event.sha256)
    expected = len(pipeline.versions) + 1 if known is None else known.number
    if event.version != expected:
        return Outcome.OVERTAKEN
    if known is None:
        pipeline.versions.append(_version(event.version, event, record))
    pipeline.current, pipeline.max_runs = event.version, event.max_runs
    pipeline.status = PipelineStatus.ACTIVE
    pipeline.retired_ms, pipeline.reason = 0, ""
    return Outcome.APPLIED


def _version(number: int, event: PipelineDefined, record: Record) -> PipelineVersion:
    definition = event.pipeline.model_dump_json()
    return PipelineVersion(number, event.sha256, definition, len(event.pipeline.steps), record.append_time_ms)


def _retired(pipeline: DefinedPipeline, event: PipelineRetired, record: Record) -> Outcome:
    if pipeline.status is PipelineStatus.RETIRED:
        return Outcome.OVERTAKEN
    pipeline.status = PipelineStatus.RETIRED
    pipeline.retired_ms, pipeline.reason = record.append_time_ms, event.reason
    for number in list(pipeline.queued):
        _cancel(pipeline, number, event.reason, record)
    pipeline.schedules.clear()
    return Outcome.APPLIED


def _numbered(pipeline: DefinedPipeline, event: RunNumbered, record: Record) -> Outcome:
    if event.number <= pipeline.numbered:
        return Outcome.DUPLICATE
    follows = event.number == pipeline.numbered + 1 and event.run == pipeline.run_id(event.number)
    active = pipeline.status is PipelineStatus.ACTIVE
    schedule = pipeline.schedules.get(event.schedule)
    asked = schedule.last_run == event.run if schedule is not None else bool(event.command_id)
    if not (follows and active and asked) or pipeline.version(event.version) is None:
        return Outcome.OVERTAKEN
    pipeline.numbered += 1
    pipeline.runs[event.number] = NumberedRun(
        event.number,
        event.version,
        event.parameters,
        event.overrides,
        event.seed,
        event.use_cache,
        record.append_time_ms,
        size_of(event),
        schedule=event.schedule,
        alone=event.alone,
        schedules=event.schedules,
    )
    pipeline.queued.append(event.number)
    return Outcome.APPLIED


def _cancelled(pipeline: DefinedPipeline, event: RunCancelled, record: Record) -> Outcome:
    if event.number not in pipeline.queued:
        return Outcome.OVERTAKEN
    _cancel(pipeline, event.number, event.reason, record)
    return Outcome.APPLIED


def _cancel(pipeline: DefinedPipeline, number: int, reason: str, record: Record) -> None:
    run = pipeline.runs[number]
    run.status, run.ended_ms, run.reason = CANCELLED, record.append_time_ms, reason
    pipeline.queued.remove(number)
    pipeline.ended_runs.append(number)
