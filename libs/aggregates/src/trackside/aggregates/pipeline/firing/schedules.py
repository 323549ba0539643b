"""What the dispatcher decides about schedules of pipelines. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, cast

from trackside.aggregates.pipeline.firing.run_checks import check_run
from trackside.aggregates.pipeline.messages import PipelineStatus, RunNumbered, run_id
from trackside.aggregates.pipeline.schedule.schedule_messages import (
    GRACE_MS,
    MAX_CATCH_UP,
    MAX_SCHEDULES,
    CreateSchedule,
    DeleteSchedule,
    FireSchedule,
    PauseSchedule,
    ResumeSchedule,
    ScheduleArmed,
    ScheduleCreated,
    ScheduleDeleted,
    ScheduleFired,
    SchedulePaused,
    ScheduleResumed,
    ScheduleSpec,
    ScheduleTrigger,
    ScheduleUpdated,
    UpdateSchedule,
)
from trackside.aggregates.pipeline.schedule.schedule_state import Schedule, ScheduleStatus
from trackside.aggregates.pipeline.state import DefinedPipeline, pipeline_of
from trackside.contracts.envelope.message import Json
from trackside.contracts.envelope.refusals import Problem, json_path, nearest
from trackside.contracts.tasks.tasks import AttemptEnd
from trackside.contracts.wire.secret_search import secrets_in
from trackside.domain.folding.aggregate import Decided
from trackside.domain.folding.lookup import Lookup
from trackside.domain.pipelines.references import (
    MissingValueError,
    Reference,
    parse,
    references,
    resolve,
    step_into,
)
from trackside.domain.proposal import Proposal
from trackside.domain.streams.stream import Stream, no_aggregate
from trackside.domain.times import cron

TRIGGER = "trigger"
"""What references name that stand for what is known of the cause of a run."""
MAX_CHAIN = 1_000


class Cause(NamedTuple):
    """What has fired a schedule: an event of another stream, and the schedules that led to it."""

    event: str = ""
    key: str = ""
    values: Mapping[str, Any] = MappingProxyType({})
    schedules: Sequence[str] = ()


def create(stream: Stream, wanted: CreateSchedule, command_id: str, lookup: Lookup) -> Decided:
    """Creates a schedule, unless its name is taken, it never comes, or its runs would be refused."""
    pipeline = _active(stream)
    if isinstance(pipeline, Problem):
        return pipeline
    problems = _problems(pipeline, wanted.schedule)
    if wanted.name in pipeline.schedules:
        message = f"pipeline {pipeline.pipeline_id} has a schedule {wanted.name!r} already; update that one"
        problems.append(Problem(code="already_exists", path="$.name", message=message))
    elif len(pipeline.schedules) >= MAX_SCHEDULES:
        message = f"the pipeline has {MAX_SCHEDULES} schedules, as many as it may; delete others first"
        problems.append(Problem(code="too_many_schedules", path="$.name", message=message))
    fields = {"change": pipeline.changes + 1, "name": wanted.name, "schedule": wanted.schedule}
    return tuple(problems) or [ScheduleCreated(command_id=command_id, **fields)]


def update(stream: Stream, wanted: UpdateSchedule, command_id: str, lookup: Lookup) -> Decided:
    """Replaces what a schedule is; the same again changes nothing."""
    found = _find(stream, wanted.name)
    if isinstance(found, Problem):
        return found
    pipeline, schedule = found
    if problems := _problems(pipeline, wanted.schedule):
        return tuple(problems)
    if wanted.schedule == schedule.spec:
        return []
    fields = {"change": pipeline.changes + 1, "name": wanted.name, "schedule": wanted.schedule}
    return [ScheduleUpdated(command_id=command_id, **fields)]


def pause(stream: Stream, wanted: PauseSchedule, command_id: str, lookup: Lookup) -> Decided:
    """Pauses a schedule; one that is paused stays as it is."""
    found = _find(stream, wanted.name)
    if isinstance(found, Problem):
        return found
    pipeline, schedule = found
    if schedule.status is ScheduleStatus.PAUSED:
        return []
    change = pipeline.changes + 1
    return [SchedulePaused(command_id=command_id, change=change, name=wanted.name, reason=wanted.reason)]


def resume(stream: Stream, wanted: ResumeSchedule, command_id: str, lookup: Lookup) -> Decided:
    """Resumes a schedule that is paused; any other one stays as it is."""
    found = _find(stream, wanted.name)
    if isinstance(found, Problem):
        return found
    pipeline, schedule = found
    if schedule.status is not ScheduleStatus.PAUSED:
        return []
    return [ScheduleResumed(command_id=command_id, change=pipeline.changes + 1, name=wanted.name)]


def delete(stream: Stream, wanted: DeleteSchedule, command_id: str, lookup: Lookup) -> Decided:
    """Deletes a schedule."""
    found = _find(stream, wanted.name)
    if isinstance(found, Problem):
        return found
    return [ScheduleDeleted(command_id=command_id, change=found[0].changes + 1, name=wanted.name)]


def fire(stream: Stream, wanted: FireSchedule, command_id: str, lookup: Lookup) -> Decided:
    """Fires a schedule now; unlike at its times, it is refused if there can be no run."""
    found = _find(stream, wanted.name)
    if isinstance(found, Problem):
        return found
    pipeline, schedule = found
    fired, *numbered = fire_events(pipeline, schedule, command_id=command_id)
    if fired.skipped:
        return Problem(code=fired.skipped, path="$.name", message=fired.message)
    return [fired, *numbered]


def lacking(pipeline: DefinedPipeline, traceparent: str) -> Iterator[Proposal]:
    """Yields the next times of schedules that the log lacks."""
    for schedule in pipeline.schedules.values():
        if schedule.needs_time and schedule.spec.cron is not None:
            due_ms = cron.next_ms(schedule.spec.cron, schedule.spec.timezone, schedule.after_ms)
            if due_ms is not None:
                armed = ScheduleArmed(name=schedule.name, after_ms=schedule.after_ms, due_ms=due_ms)
                yield Proposal("arm schedule", [armed], pipeline.changed_at, traceparent)


def next_due_ms(pipeline: DefinedPipeline) -> int | None:
    """Returns the next time of any schedule, in ms since 1970; None without one."""
    times = (schedule.due_ms for schedule in pipeline.schedules.values() if schedule.due_ms is not None)
    return min(times, default=None)


def due(stream: Stream[DefinedPipeline], now_ms: int) -> Iterator[Proposal]:
    """Yields what follows from the times of schedules that have come: runs, or that they have passed."""
    pipeline = stream.root
    for schedule in pipeline.schedules.values():
        due_ms = schedule.due_ms
        if due_ms is None or due_ms > now_ms:
            continue
        wanted_ms = _time_to_run(schedule, due_ms, now_ms)
        if wanted_ms is not None and wanted_ms != due_ms:
            armed = ScheduleArmed(
                name=schedule.name, after_ms=schedule.after_ms, due_ms=wanted_ms, passed_ms=due_ms
            )
            yield Proposal("pass schedule", [armed], pipeline.changed_at, stream.traceparent)
        if wanted_ms is not None and wanted_ms <= now_ms:
            # Void after the event above. That one is void if our clock is ahead: then this time has its run.
            events = fire_events(pipeline, schedule, due_ms=due_ms)
            yield Proposal("fire schedule", events, pipeline.changed_at, stream.traceparent)
            return  # the next one has the number after it


def fire_events(
    pipeline: DefinedPipeline,
    schedule: Schedule,
    *,
    command_id: str = "",
    due_ms: int | None = None,
    cause: Cause | None = None,
    refused: Problem | None = None,
) -> tuple[ScheduleFired, *tuple[RunNumbered, ...]]:
    """Returns that a schedule is fired, and the run that it asks for, unless there can be none.

    There is none if it is `refused`, or its parameters are, or the run.
    """
    spec, number = schedule.spec, pipeline.numbered + 1
    own, cause = schedule_id(pipeline, schedule), cause or Cause()
    parameters = _resolved(spec, cause)
    numbered = RunNumbered(
        number=number,
        run=run_id(pipeline.pipeline_id, number),
        version=spec.version or pipeline.current,
        parameters={} if isinstance(parameters, Problem) else parameters,
        overrides=spec.overrides,
        seed=spec.seed,
        use_cache=spec.use_cache,
        schedule=schedule.name,
        alone=spec.overlap == "queue",
        schedules=[own, *cause.schedules][:MAX_CHAIN],
    )
    problem = refused or (parameters if isinstance(parameters, Problem) else None)
    if own in cause.schedules or len(cause.schedules) >= MAX_CHAIN:
        message = f"a run of the schedule has led to it: {' after '.join(cause.schedules[:10])}"
        problem = Problem(code="schedule_loop", path="$.name", message=message)
    problem = problem or _overlap(pipeline, schedule) or next(iter(check_run(pipeline, numbered)), None)
    fields = {"command_id": command_id, "name": schedule.name, "fire": schedule.fires + 1, "due_ms": due_ms}
    fields |= {"cause": cause.event, "key": cause.key}
    if problem is not None:
        return (ScheduleFired(**fields, skipped=problem.code, message=problem.message[:500]),)
    return ScheduleFired(**fields, run=numbered.run), numbered


def _resolved(spec: ScheduleSpec, cause: Cause) -> Json | Problem:
    """Returns the parameters of a run, with what is known of its cause filled in."""

    def value_of(reference: Reference) -> Any:
        if reference.base != TRIGGER:
            raise MissingValueError(f"{reference.text}: expected {TRIGGER}.NAME")
        return step_into(dict(cause.values), reference.path[1:], TRIGGER)

    if spec.on is None:
        return spec.parameters
    try:
        parameters = cast(Json, resolve(parse(spec.parameters), value_of))
    except MissingValueError as error:
        return Problem(code="bad_reference", path="$.name", message=str(error))
    place = next(secrets_in({"parameters": parameters}), None)
    if place is None:
        return parameters
    path = json_path(place)
    message = f"{path} looks like a secret once it is filled in, which is not repeated"
    return Problem(code="secret_suspected", path=path, message=message)


def schedule_id(pipeline: DefinedPipeline, schedule: Schedule) -> str:
    """Returns what names a schedule in the origin of its runs: the pipeline and its name."""
    return f"{pipeline.pipeline_id}/{schedule.name}"


def _time_to_run(schedule: Schedule, due_ms: int, now_ms: int) -> int | None:
    """Returns the next time that is to have a run, which may be past; None if no other one ever comes."""
    spec = schedule.spec
    assert spec.cron is not None
    count = MAX_CATCH_UP if spec.catch_up == "all" else 1
    found = cron.newest(spec.cron, spec.timezone, due_ms, now_ms, count)[0]
    if spec.catch_up == "none" and now_ms - found > GRACE_MS:
        return cron.next_ms(spec.cron, spec.timezone, now_ms)
    return found


def _overlap(pipeline: DefinedPipeline, schedule: Schedule) -> Problem | None:
    if schedule.spec.overlap != "skip":
        return None
    open_run = pipeline.open_run_of(schedule.name)
    if open_run is None:
        return None
    message = f"run {pipeline.run_id(open_run)} of the schedule has not ended; it has `overlap: skip`"
    return Problem(code="schedule_busy", path="$.name", message=message)


def _active(stream: Stream) -> DefinedPipeline | Problem:
    pipeline = pipeline_of(stream)
    if pipeline is None:
        return no_aggregate(stream, "pipeline")
    if pipeline.status is PipelineStatus.RETIRED:
        message = f"pipeline {pipeline.pipeline_id} is retired; define it again first"
        return Problem(code="already_terminal", path="$partitionkey", message=message)
    return pipeline


def _find(stream: Stream, name: str) -> tuple[DefinedPipeline, Schedule] | Problem:
    pipeline = _active(stream)
    if isinstance(pipeline, Problem):
        return pipeline
    schedule = pipeline.schedules.get(name)
    if schedule is None:
        known = sorted(pipeline.schedules)
        has = f"it has {', '.join(known[:10])}" if known else "it has none"
        message = f"pipeline {pipeline.pipeline_id} has no schedule {name!r}; {has}{nearest(name, known)}"
        return Problem(code="unknown_schedule", path="$.name", message=message)
    return pipeline, schedule


def _problems(pipeline: DefinedPipeline, spec: ScheduleSpec) -> list[Problem]:
    path = "$.schedule"
    if (spec.cron is None) == (spec.on is None):
        message = "a schedule has either times (`cron`) or what it waits for (`on`)"
        problems = [Problem(code="missing_field", path=f"{path}.cron", message=message)]
    elif spec.cron is not None:
        problems = cron.check_cron(spec.cron, spec.timezone, path)
    else:
        problems = list(_trigger_problems(spec, path))
    wanted = RunNumbered(
        number=pipeline.numbered + 1,
        run="",
        version=spec.version or pipeline.current,
        parameters=spec.parameters,
        overrides=spec.overrides,
    )
    now = {"too_many_runs"}  # of what may be different when its time comes
    now |= {"bad_parameters"} if spec.on is not None else set()  # references have no values yet
    found = (problem for problem in check_run(pipeline, wanted) if problem.code not in now)
    return problems + [
        problem.model_copy(update={"path": f"{path}{problem.path.removeprefix('$')}"}) for problem in found
    ]


def _trigger_problems(spec: ScheduleSpec, path: str) -> Iterator[Problem]:
    on = spec.on
    assert on is not None
    yield from trigger_problems(on, f"{path}.on")
    for reference in references(parse(spec.parameters)):
        if reference.base != TRIGGER:
            message = f"{reference.text}: only what is known of the cause can be named: ${{{TRIGGER}.NAME}}"
            yield Problem(code="bad_reference", path=f"{path}.parameters", message=message)


_BOUNDED = ("best", "metric")
_OF_TASKS = ("task_ended", "artifact", "metric")
_ENDS = sorted(set(AttemptEnd) - {AttemptEnd.PREEMPTED})


def trigger_problems(on: ScheduleTrigger, path: str) -> Iterator[Problem]:
    """Yields what is missing, too much or impossible in what a schedule waits for, at a path."""
    if on.event in ("stage", "tag") and not on.of:
        yield _missing(f"{path}.of", f"missing: which {on.event}")
    if on.event in ("version", "observed", "best") and on.of:
        yield _unknown(f"{path}.of", f"{on.event!r} has no kinds; leave it out")
    if on.event == "task_ended" and on.of and on.of not in _ENDS:
        message = f"no task ends as {on.of!r}; known: {', '.join(_ENDS)}{nearest(on.of, _ENDS)}"
        yield Problem(code="unknown_value", path=f"{path}.of", message=message)
    if on.event not in _OF_TASKS and on.task is not None:
        yield _unknown(f"{path}.task", f"{on.event!r} is not of a task; a task has {', '.join(_OF_TASKS)}")
    if on.event != "artifact" and on.kind:
        yield _unknown(f"{path}.kind", "only an artifact has a kind: `event: artifact`")
    yield from _bounds_problems(on, path)


def _bounds_problems(on: ScheduleTrigger, path: str) -> Iterator[Problem]:
    bounded = not (on.above is None and on.below is None)
    if on.event not in _BOUNDED and bounded:
        message = "bounds are for a value: of a `metric`, or of the `best` trial of a search"
        yield _unknown(path, message)
    if on.event == "metric" and not bounded:
        message = "missing: `above` or `below`, the bounds that a value comes within"
        yield _missing(f"{path}.above", message)
    if on.above is not None and on.below is not None and on.above >= on.below:
        message = f"no value is over {on.above} and under {on.below}"
        yield Problem(code="unreachable_bounds", path=f"{path}.below", message=message)


def _missing(path: str, message: str) -> Problem:
    return Problem(code="missing_field", path=path, message=message)


def _unknown(path: str, message: str) -> Problem:
    return Problem(code="unknown_field", path=path, message=message)
