"""What the dispatcher decides about pipelines: their versions, and when their runs begin. Pure."""

from collections.abc import Iterator
from itertools import islice

from pydantic_core import from_json

from trackside.aggregates.pipeline.firing import schedules
from trackside.aggregates.pipeline.firing.run_checks import MAX_BODY_BYTES, check_run
from trackside.aggregates.pipeline.messages import (
    DEFAULT_MAX_RUNS,
    MAX_DEFINITION_BYTES,
    MAX_PIPELINE_VERSIONS,
    MOST_RUN_DIGITS,
    RUN,
    CancelPipelineRuns,
    DefinePipeline,
    PipelineDefined,
    PipelineRetired,
    PipelineStatus,
    RetirePipeline,
    RunCancelled,
    RunNumbered,
    RunPipeline,
    run_id,
)
from trackside.aggregates.pipeline.state import DefinedPipeline, NumberedRun, PipelineVersion, pipeline_of
from trackside.contracts.envelope.ids import is_identifier
from trackside.contracts.envelope.message import Command, Event, Json
from trackside.contracts.envelope.refusals import MAX_PROBLEMS, Problem
from trackside.contracts.streams.children import ChildRequested, ChildStopRequested, WantedChild
from trackside.domain.folding.aggregate import Decided
from trackside.domain.folding.lookup import Lookup
from trackside.domain.pipelines import compiling
from trackside.domain.pipelines.child_steps import wanted_children
from trackside.domain.proposal import Proposal
from trackside.domain.streams.stream import Stream, check_not_begun, no_aggregate

MAX_NAME = 128 - MOST_RUN_DIGITS - 1
"""How long the name of a pipeline may be: the ids of its runs begin with it."""


def define(stream: Stream, wanted: DefinePipeline, command_id: str, lookup: Lookup) -> Decided:
    """Makes a definition the current one; returns all of its problems."""
    pipeline = pipeline_of(stream)
    compiled = compiling.compile_pipeline(wanted.pipeline, lookup.schema_costs)
    found = [problem for problem in _problems_of(stream, pipeline, wanted) if problem is not None]
    if not isinstance(compiled, compiling.CompiledPipeline):
        found += (_in_pipeline(problem) for problem in compiled)
    if found or not isinstance(compiled, compiling.CompiledPipeline):
        return tuple(islice(found, MAX_PROBLEMS))
    sha256 = compiled.sha256
    known = None if pipeline is None else pipeline.with_digest(sha256)
    max_runs = wanted.max_runs or (DEFAULT_MAX_RUNS if pipeline is None else pipeline.max_runs)
    if pipeline is not None and known is not None and _is_current(pipeline, known, max_runs):
        return []
    versions, changes = (0, 0) if pipeline is None else (len(pipeline.versions), pipeline.changes)
    event = PipelineDefined(
        command_id=command_id,
        change=changes + 1,
        version=versions + 1 if known is None else known.number,
        sha256=sha256,
        pipeline=wanted.pipeline,
        max_runs=max_runs,
    )
    return _too_long(pipeline, event, is_new=known is None) or [event]


def children_of(command: Command, pipeline: str) -> Iterator[WantedChild]:
    """Yields the children that runs of a definition ask for; their specs are checked when a run begins."""
    if isinstance(command, DefinePipeline):
        for child in wanted_children(command.pipeline, run_id(pipeline, 1), "$.pipeline"):
            yield child._replace(body=None)


def retire(stream: Stream, wanted: RetirePipeline, command_id: str, lookup: Lookup) -> Decided:
    """Retires a pipeline; one that is retired stays as it is."""
    pipeline = pipeline_of(stream)
    if pipeline is None:
        return no_aggregate(stream, "pipeline")
    if pipeline.status is PipelineStatus.RETIRED:
        return []
    return [PipelineRetired(command_id=command_id, change=pipeline.changes + 1, reason=wanted.reason)]


def run(stream: Stream, wanted: RunPipeline, command_id: str, lookup: Lookup) -> Decided:
    """Numbers the next run, unless what it is to run is unknown, or its parameters don't fit."""
    pipeline = pipeline_of(stream)
    if pipeline is None:
        return no_aggregate(stream, "pipeline")
    if pipeline.status is PipelineStatus.RETIRED:
        name = pipeline.pipeline_id
        message = f"pipeline {name} is retired; define it again first: `trackside pipelines define`"
        return Problem(code="already_terminal", path="$partitionkey", message=message)
    number = pipeline.numbered + 1
    fields = {name: getattr(wanted, name) for name in ("parameters", "overrides", "seed", "use_cache")}
    numbered = RunNumbered(
        command_id=command_id,
        number=number,
        run=run_id(pipeline.pipeline_id, number),
        version=wanted.version or pipeline.current,
        **fields,
    )
    problems = tuple(islice(check_run(pipeline, numbered), MAX_PROBLEMS))
    return problems or [numbered]


def cancel(stream: Stream, wanted: CancelPipelineRuns, command_id: str, lookup: Lookup) -> Decided:
    """Cancels the runs that wait, and asks those that are open to stop: one of them, or all."""
    pipeline = pipeline_of(stream)
    if pipeline is None:
        return no_aggregate(stream, "pipeline")
    numbers = [*pipeline.queued, *pipeline.open_runs]
    if wanted.number is not None:
        if wanted.number > pipeline.numbered:
            newest = f"run {pipeline.numbered} is its newest one" if pipeline.numbered else "it had none"
            message = f"pipeline {pipeline.pipeline_id} has had no run {wanted.number}; {newest}"
            return Problem(code="unknown_run", path="$.number", message=message)
        if wanted.number not in numbers:
            message = f"run {pipeline.run_id(wanted.number)} is over"
            return Problem(code="already_terminal", path="$.number", message=message)
        numbers = [wanted.number]
    return list(_cancelled(stream, pipeline, numbers, command_id, wanted.reason))


def lacking(stream: Stream[DefinedPipeline]) -> Iterator[Proposal]:
    """Yields the next times of schedules, and the request for the run whose turn it is.

    One run at a time, since each request carries the definition.
    """
    pipeline = stream.root
    yield from schedules.lacking(pipeline, stream.traceparent)
    next_run = pipeline.next_run
    if next_run is not None:
        asked = ChildRequested(
            child_id=pipeline.run_id(next_run.number), kind=RUN, body=_body(pipeline, next_run)
        )
        yield Proposal("begin run", [asked], pipeline.changed_at, stream.traceparent)


def _problems_of(
    stream: Stream, pipeline: DefinedPipeline | None, wanted: DefinePipeline
) -> Iterator[Problem | None]:
    if pipeline is None:
        yield check_not_begun(stream)
    if len(stream.stream_id) > MAX_NAME or not is_identifier(run_id(stream.stream_id, 1)):
        message = f"the ids of its runs begin with it: expected at most {MAX_NAME} characters"
        yield Problem(code="bad_identifier", path="$partitionkey", message=message)


def _in_pipeline(problem: Problem) -> Problem:
    return problem.model_copy(update={"path": f"$.pipeline{problem.path.removeprefix('$')}"})


def _is_current(pipeline: DefinedPipeline, known: PipelineVersion, max_runs: int) -> bool:
    same = known.number == pipeline.current and max_runs == pipeline.max_runs
    return same and pipeline.status is PipelineStatus.ACTIVE


def _too_long(
    pipeline: DefinedPipeline | None, event: PipelineDefined, *, is_new: bool
) -> tuple[Problem, ...]:
    size = len(event.pipeline.model_dump_json())
    if size > MAX_BODY_BYTES:
        message = (
            f"the definition takes {size:,} bytes, the limit is {MAX_BODY_BYTES:,}: "
            "say what steps share once, in `defaults`, or use `each`"
        )
        return (Problem(code="too_long", path="$.pipeline", message=message),)
    if pipeline is None or not is_new:
        return ()
    count, total = len(pipeline.versions), pipeline.definition_bytes + size
    if count < MAX_PIPELINE_VERSIONS and total <= MAX_DEFINITION_BYTES:
        return ()
    message = (
        f"pipeline {pipeline.pipeline_id} has {count:,} versions of {pipeline.definition_bytes:,} bytes, the "
        f"limits are {MAX_PIPELINE_VERSIONS:,} and {MAX_DEFINITION_BYTES:,}; define it under another name"
    )
    return (Problem(code="too_many_versions", path="$partitionkey", message=message),)


def _cancelled(
    stream: Stream, pipeline: DefinedPipeline, numbers: list[int], command_id: str, reason: str
) -> Iterator[Event]:
    for number in numbers:
        if number in pipeline.queued:
            yield RunCancelled(command_id=command_id, number=number, reason=reason)
        elif not stream.children[pipeline.run_id(number)].stopping:
            yield ChildStopRequested(child_id=pipeline.run_id(number), reason=reason or "user")


def _body(pipeline: DefinedPipeline, wanted: NumberedRun) -> Json:
    """Returns the body of the command that starts a run: the aggregate of runs decides about it."""
    version = pipeline.version(wanted.version)
    assert version is not None
    origin: Json = {"pipeline": pipeline.pipeline_id, "version": version.number, "number": wanted.number}
    if wanted.schedules:
        origin["schedules"] = wanted.schedules
    return {
        "pipeline": from_json(version.definition),
        "parameters": wanted.parameters,
        "overrides": wanted.overrides,
        "seed": wanted.seed,
        "use_cache": wanted.use_cache,
        "origin": origin,
    }
