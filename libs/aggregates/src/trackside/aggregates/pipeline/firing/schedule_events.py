"""What each event of a schedule does: the guards that every reader folds with."""

from trackside.aggregates.pipeline.messages import PipelineStatus
from trackside.aggregates.pipeline.schedule.schedule_messages import (
    GRACE_MS,
    ScheduleArmed,
    ScheduleChange,
    ScheduleCreated,
    ScheduleDeleted,
    ScheduleFired,
    SchedulePaused,
    ScheduleResumed,
    ScheduleUpdated,
    ScheduleWatched,
)
from trackside.aggregates.pipeline.schedule.schedule_state import Schedule, ScheduleStatus
from trackside.aggregates.pipeline.state import DefinedPipeline
from trackside.contracts.envelope.message import Record
from trackside.domain.outcome import Outcome


def changed(pipeline: DefinedPipeline, event: ScheduleChange, record: Record) -> Outcome:
    """Folds an event by which a command changes a schedule; its number is the next one."""
    schedule = pipeline.schedules.get(event.name)
    if isinstance(event, ScheduleCreated):
        if schedule is not None or pipeline.status is PipelineStatus.RETIRED:
            return Outcome.OVERTAKEN
        now_ms = record.append_time_ms
        pipeline.schedules[event.name] = Schedule(event.name, event.schedule, now_ms, now_ms)
        return Outcome.APPLIED
    if schedule is None:
        return Outcome.OVERTAKEN
    if isinstance(event, ScheduleDeleted):
        del pipeline.schedules[event.name]
        return Outcome.APPLIED
    return _changed(schedule, event, record)


def _changed(
    schedule: Schedule, event: ScheduleUpdated | SchedulePaused | ScheduleResumed, record: Record
) -> Outcome:
    match event:
        case ScheduleUpdated():
            schedule.spec, schedule.after_ms, schedule.due_ms = event.schedule, record.append_time_ms, None
            schedule.seen = None
        case SchedulePaused():
            if schedule.status is ScheduleStatus.PAUSED:
                return Outcome.OVERTAKEN
            schedule.status, schedule.due_ms, schedule.reason = ScheduleStatus.PAUSED, None, event.reason
            schedule.seen = None
        case ScheduleResumed():
            if schedule.status is not ScheduleStatus.PAUSED:
                return Outcome.OVERTAKEN
            schedule.status, schedule.reason = ScheduleStatus.ACTIVE, ""
            schedule.after_ms = record.append_time_ms
    return Outcome.APPLIED


def armed(pipeline: DefinedPipeline, event: ScheduleArmed, record: Record) -> Outcome:
    """Folds the next time of a schedule, or that its time has passed without a run."""
    schedule = pipeline.schedules.get(event.name)
    if schedule is None or schedule.status is not ScheduleStatus.ACTIVE:
        return Outcome.OVERTAKEN
    if event.due_ms == schedule.due_ms:
        return Outcome.DUPLICATE
    follows = (event.after_ms, event.passed_ms) == (schedule.after_ms, schedule.due_ms)
    if not follows or event.due_ms <= max(schedule.after_ms, schedule.due_ms or 0):
        return Outcome.OVERTAKEN
    if schedule.due_ms is not None:
        now_ms = record.append_time_ms
        if now_ms < event.due_ms and now_ms < schedule.due_ms + GRACE_MS:
            return Outcome.OVERTAKEN  # the clock of its writer is ahead of the log's
    schedule.due_ms = event.due_ms
    return Outcome.APPLIED


def watched(pipeline: DefinedPipeline, event: ScheduleWatched) -> Outcome:
    """Folds what was there when a schedule began to wait."""
    schedule = pipeline.schedules.get(event.name)
    if schedule is None or schedule.status is not ScheduleStatus.ACTIVE or schedule.spec.on is None:
        return Outcome.OVERTAKEN
    if schedule.seen is not None:
        return Outcome.DUPLICATE
    schedule.seen = event.key
    return Outcome.APPLIED


def fired(pipeline: DefinedPipeline, event: ScheduleFired, record: Record) -> Outcome:
    """Folds that a schedule asks for a run, or for none."""
    schedule = pipeline.schedules.get(event.name)
    if schedule is None or pipeline.status is PipelineStatus.RETIRED:
        return Outcome.OVERTAKEN
    if event.fire != schedule.fires + 1:
        return Outcome.DUPLICATE if event.fire <= schedule.fires else Outcome.OVERTAKEN
    if event.run and event.run != pipeline.run_id(pipeline.numbered + 1):
        return Outcome.OVERTAKEN  # another run has this number: the rest of the decision would have no effect
    if event.due_ms is not None:
        if event.due_ms != schedule.due_ms or record.append_time_ms < event.due_ms:
            return Outcome.OVERTAKEN
        schedule.after_ms, schedule.due_ms = event.due_ms, None
    elif event.cause:
        if schedule.seen is None or not schedule.is_new(event.key):
            return Outcome.OVERTAKEN
        schedule.seen = event.key
    elif not event.command_id:
        return Outcome.OVERTAKEN
    schedule.fires += 1
    schedule.fired_ms = record.append_time_ms
    schedule.skips += bool(event.skipped)
    schedule.skipped, schedule.message = event.skipped, event.message
    schedule.last_run = event.run or schedule.last_run
    return Outcome.APPLIED
