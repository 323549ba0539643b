"""How the dispatcher begins runs, and continues those that are over. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import NamedTuple

from trackside.aggregates.run.messages import (
    Patch,
    RestartFromStep,
    RetryFailedSteps,
    RunRevived,
    RunStarted,
    StartPipelineRun,
)
from trackside.aggregates.run.state import Run, RunStep, run_of
from trackside.aggregates.run.step_messages import FAILURES, StepState
from trackside.contracts.envelope.message import Command
from trackside.contracts.envelope.refusals import MAX_PROBLEMS, Problem, nearest
from trackside.contracts.envelope.topics import MAX_BATCH_BYTES
from trackside.contracts.streams.children import WantedChild
from trackside.domain.fleet.capabilities import Capabilities, device_problem, service_problem, type_problem
from trackside.domain.folding.aggregate import Decided
from trackside.domain.folding.lookup import Lookup
from trackside.domain.pipelines.child_steps import wanted_children
from trackside.domain.pipelines.compiling import (
    CompiledPipeline,
    compile_pipeline,
    definition_problems,
    digest,
    parameter_values,
    source_of,
)
from trackside.domain.pipelines.definition import PipelineSpec, StepSpec
from trackside.domain.streams.stream import Stream, check_not_begun, no_aggregate


def start(stream: Stream, wanted: StartPipelineRun, command_id: str, lookup: Lookup) -> Decided:
    """Begins a run, unless its stream is taken or its definition is wrong; returns all problems."""
    problems = [] if (taken := check_not_begun(stream)) is None else [taken]
    problems += _patch_problems(wanted.pipeline, wanted.overrides, "$.overrides")
    problems += islice(_taken_problems(wanted), MAX_PROBLEMS)
    unknown = _moved(islice(_unknown(wanted.pipeline, lookup.capabilities), MAX_PROBLEMS), "$.pipeline")
    unfit = definition_problems(wanted.pipeline) if wanted.overrides else iter(())
    compiled = tuple(islice(unfit, MAX_PROBLEMS)) or compile_pipeline(
        _patched(wanted.pipeline, wanted.overrides), lookup.schema_costs
    )
    if not isinstance(compiled, CompiledPipeline):
        problems += [*_moved(compiled, "$.pipeline"), *unknown]
        return tuple(problems[:MAX_PROBLEMS])
    parameters, wrong = parameter_values(
        wanted.pipeline.parameters, wanted.parameters, "$.parameters", lookup.schema_costs
    )
    problems += [*wrong, *unknown]
    started = RunStarted(
        command_id=command_id,
        pipeline=compiled.pipeline,
        sha256=digest(wanted.pipeline) if wanted.overrides else compiled.sha256,
        parameters=parameters,
        overrides=wanted.overrides,
        seed=wanted.seed,
        use_cache=wanted.use_cache,
        origin=wanted.origin,
        copy_of=wanted.copy_of,
        taken=wanted.taken,
    )
    if (size := len(started.model_dump_json())) > MAX_BATCH_BYTES:
        message = (
            f"definition and parameters take {size:,} bytes, the limit is {MAX_BATCH_BYTES:,}: make steps "
            "that are alike one step with `each`, move some into child pipelines, or values into artifacts"
        )
        problems.append(Problem(code="too_long", path="$.pipeline", message=message))
    return tuple(problems[:MAX_PROBLEMS]) or [started]


def children_of(command: Command, run_id: str) -> Iterator[WantedChild]:
    """Yields the children that a run asks for."""
    if isinstance(command, StartPipelineRun):
        yield from wanted_children(command.pipeline, run_id, "$.pipeline")


def _moved(problems: Iterable[Problem], place: str) -> list[Problem]:
    """Returns problems of a definition with their paths in a command that has it at a place."""
    return [
        problem.model_copy(update={"path": place + problem.path.removeprefix("$")}) for problem in problems
    ]


def _unknown(pipeline: PipelineSpec, capabilities: Capabilities) -> Iterator[Problem]:
    """Yields which task types and devices no worker has."""
    for at, step in enumerate(pipeline.steps):
        path = f"$.steps[{at}]"
        device = "" if step.resources is None else step.resources.device
        found = [device_problem(capabilities, device, f"{path}.resources.device")]
        if step.task_type is not None:
            found.append(type_problem(capabilities, step.task_type, f"{path}.task_type"))
            found.append(service_problem(capabilities, step.task_type, False, f"{path}.task_type"))
        yield from (problem for problem in found if problem is not None)


def _patch_problems(pipeline: PipelineSpec, patch: Patch, path: str) -> list[Problem]:
    names = {step.name for step in pipeline.steps}
    return [
        Problem(
            code="unknown_step",
            path=f"{path}.{name}",
            message=f"the pipeline has no step {name!r}{nearest(name, names)}",
        )
        for name in islice((name for name in patch if name not in names), MAX_PROBLEMS)
    ]


def _taken_problems(wanted: StartPipelineRun) -> Iterator[Problem]:
    names = {step.name for step in wanted.pipeline.steps}
    for name in wanted.taken:
        path = f"$.taken.{name}"
        if name not in names:
            message = f"the pipeline has no step {name!r}{nearest(name, names)}"
            yield Problem(code="unknown_step", path=path, message=message)
        elif name in wanted.overrides:
            message = f"step {name!r} is taken over as it ended in another run, so overrides can't change it"
            yield Problem(code="bad_step", path=path, message=message)


def _patched(pipeline: PipelineSpec, patch: Patch) -> PipelineSpec:
    """Returns a definition with patched steps; parameters and inputs are merged by name."""
    if not patch:
        return pipeline
    return pipeline.model_copy(update={"steps": [_patched_step(step, patch) for step in pipeline.steps]})


def _patched_step(step: StepSpec, patch: Patch) -> StepSpec:
    found = patch.get(step.name)
    if found is None:
        return step
    changed = {name: value for name in found.model_fields_set if (value := getattr(found, name)) is not None}
    for name in ("parameters", "inputs"):
        changed[name] = getattr(step, name) | getattr(found, name)
    return step.model_copy(update=changed)


def retry(stream: Stream, wanted: RetryFailedSteps, command_id: str, lookup: Lookup) -> Decided:
    """Continues a run with its failed steps, single items of some, and all that comes after them."""
    run = _run_that_is_over(stream)
    if isinstance(run, Problem):
        return run
    if problems := tuple(islice(_retry_problems(run, wanted), MAX_PROBLEMS)):
        return problems
    chosen = [*(wanted.steps or ()), *wanted.indexes] or [
        name for name, step in run.steps.items() if step.state in FAILURES
    ]
    if not chosen and not wanted.patch and not any(map(_was_stopped, run.steps.values())):
        message = f"no step of run {run.run_id} has failed; restart from a step instead"
        return Problem(code="nothing_failed", path="$", message=message)
    whole = {*wanted.patch, *(name for name, step in run.steps.items() if _was_stopped(step))}
    after = _descendants(run, [*chosen, *whole]) | whole
    partly = {
        name: indexes
        for name in chosen
        if name not in after and run.spec_of(name).each is not None and run.steps[name].items is not None
        if (indexes := wanted.indexes.get(name) or _unsuccessful(run, name))
    }
    return _revived(run, command_id, {*chosen, *after}, partly, wanted.patch)


def restart(stream: Stream, wanted: RestartFromStep, command_id: str, lookup: Lookup) -> Decided:
    """Continues a run from steps on: they and all that comes after them begin again.

    So do steps that never began because the run was stopped.
    """
    run = _run_that_is_over(stream)
    if isinstance(run, Problem):
        return run
    unknown = islice(_unknown_steps(run, wanted.steps), MAX_PROBLEMS)
    problems = [*unknown, *_patch_problems(run.spec, wanted.patch, "$.patch")]
    if problems:
        return tuple(problems[:MAX_PROBLEMS])
    stopped = (name for name, step in run.steps.items() if _was_stopped(step))
    chosen = {*wanted.steps, *wanted.patch, *stopped}
    return _revived(run, command_id, chosen | _descendants(run, chosen), {}, wanted.patch)


def _run_that_is_over(stream: Stream) -> Run | Problem:
    run = run_of(stream)
    if run is None:
        return no_aggregate(stream, "run")
    if run.archived:
        message = f"run {run.run_id} is archived: it can't be continued; fork it instead"
        return Problem(code="run_archived", path="$partitionkey", message=message)
    if run.over:
        return run
    code = "is_stopping" if run.stopping else "run_not_over"
    message = f"run {run.run_id} is {run.status.value}: only a run that is over can be continued"
    return Problem(code=code, path="$partitionkey", message=message)


def _unknown_steps(run: Run, names: Iterable[str]) -> Iterator[Problem]:
    for at, name in enumerate(names):
        if name not in run.steps:
            message = f"run {run.run_id} has no step {name!r}{nearest(name, run.steps)}"
            yield Problem(code="unknown_step", path=f"$.steps[{at}]", message=message)


def _retry_problems(run: Run, wanted: RetryFailedSteps) -> Iterator[Problem]:
    yield from _unknown_steps(run, wanted.steps or ())
    yield from _patch_problems(run.spec, wanted.patch, "$.patch")
    for at, name in enumerate(wanted.steps or ()):
        if name in run.steps and run.steps[name].state not in FAILURES:
            message = f"step {name} is {run.steps[name].state.value}: only failed steps are retried"
            yield Problem(code="nothing_failed", path=f"$.steps[{at}]", message=message)
    for name, indexes in wanted.indexes.items():
        if name not in run.steps or run.spec_of(name).each is None:
            with_each = [known for known in run.steps if run.spec_of(known).each is not None]
            message = f"run {run.run_id} has no step {name!r} with each{nearest(name, with_each)}"
            yield Problem(code="unknown_step", path=f"$.indexes.{name}", message=message)
        elif unknown := sorted(set(indexes) - set(_unsuccessful(run, name))):
            message = f"items {', '.join(map(str, unknown[:10]))} of step {name} have not failed"
            yield Problem(code="unknown_index", path=f"$.indexes.{name}", message=message)


def _was_stopped(step: RunStep) -> bool:
    """Returns whether a step never began as the run was stopped, not because of the steps that it needs."""
    return step.state is StepState.OMITTED and not step.wait.blocked_by


def _unsuccessful(run: Run, name: str) -> list[int]:
    """Returns the items of a step that have not succeeded, those included that never began."""
    step = run.steps[name]
    never = () if step.again is not None else range(step.begun, step.count)
    again = () if step.again is None else step.again[step.begun :]
    return sorted({*step.unsuccessful, *never, *again})


def _descendants(run: Run, names: Iterable[str]) -> set[str]:
    found: set[str] = set()
    waiting = list(names)
    while waiting:
        for name in run.steps[waiting.pop()].dependents:
            if name not in found:
                found.add(name)
                waiting.append(name)
    return found


class _Changed(NamedTuple):
    steps: list[StepSpec]
    problems: list[Problem]


def _recompiled(run: Run, patch: Patch) -> _Changed:
    """Returns the steps that a patch changes, compiled with the whole definition."""
    if not patch:
        return _Changed([], [])
    compiled = compile_pipeline(_patched(source_of(run.spec), patch))
    if not isinstance(compiled, CompiledPipeline):
        return _Changed([], [problem.model_copy(update={"path": "$.patch"}) for problem in compiled])
    return _Changed([step for step in compiled.pipeline.steps if step.name in patch], [])


def _revived(
    run: Run, command_id: str, reset: set[str], partly: Mapping[str, list[int]], patch: Patch
) -> Decided:
    changed = _recompiled(run, patch)
    if changed.problems:
        return tuple(changed.problems[:MAX_PROBLEMS])
    in_order = [name for name in run.steps if name in reset]
    return [
        RunRevived(
            command_id=command_id,
            revival=run.revival + 1,
            reset=in_order,
            indexes=dict(partly),
            patch=patch,
            steps=changed.steps,
        )
    ]
