"""Reruns a recorded run of a pipeline, and forks one at a point of its past. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trackside.aggregates.run.messages import StartPipelineRun
from trackside.aggregates.run.state import Run, RunStep, StepOutput, cached_artifact
from trackside.aggregates.run.step_messages import (
    SUCCESSES,
    StepState,
    TakenOutput,
    TakenStep,
)
from trackside.contracts.envelope.message import Json
from trackside.contracts.envelope.refusals import Problem, nearest
from trackside.contracts.wire.codec import command_of
from trackside.domain.pipelines.compiling import (
    CompiledPipeline,
    compile_pipeline,
    needed,
    ordered,
    source_of,
    steps_whose_results_are_used,
)
from trackside.domain.pipelines.definition import PipelineSpec, StepSpec
from trackside.domain.pipelines.references import PIPELINE
from trackside.domain.pipelines.step_checks import names_of
from trackside.replay.history.errors import BadRangeError, BadScenarioError

_DECIDED = frozenset({*SUCCESSES, StepState.SKIPPED, StepState.OMITTED})
_FIELDS = tuple(name for name in PipelineSpec.model_fields if name not in ("steps", "parameters"))


@dataclass(frozen=True, slots=True)
class RunFork:
    """The command of a fork: the steps that it takes over as they ended, and those that it runs."""

    command: StartPipelineRun
    taken: list[str]
    to_run: list[str]


def rerun_run(run: Run, stream: str, offset: int) -> StartPipelineRun:
    """Returns the command of a run with the same definition, parameters and seed, with all steps to run.

    The definition is the one that the run has, with what commands have patched. The new run is no numbered
    run of a defined pipeline.
    """
    body = _body(run, "rerun", stream, offset, source_of(run.spec).model_dump(mode="json"), run.parameters)
    return _checked(body)


def end_of_step(run: Run, name: str) -> int:
    """Returns the offset of the event that ended a step; raises BadRangeError if it has not ended."""
    if name not in run.steps:
        raise BadRangeError(f"run {run.run_id} has no step {name!r}{nearest(name, run.steps)}")
    step = run.steps[name]
    if not step.over:
        raise BadRangeError(f"step {name} of run {run.run_id} has not ended: it is {step.state.value}")
    return step.changed_at


def fork_run(run: Run, stream: str, offset: int, changes: Mapping[str, Any]) -> RunFork:
    """Returns the command of a run that continues a recorded one as it was after an offset.

    Steps that had succeeded by then are taken over with what they have found. Not taken over is a step that
    a change concerns, by itself or by a parameter of the pipeline, and what comes after a step that runs.
    `changes` are `STEP.FIELD`, `pipeline.PARAMETER` or a field of the definition. Raises BadScenarioError.
    """
    definition = source_of(run.spec).model_dump(mode="json")
    parameters = dict(run.parameters)
    changed = _change(run, definition, parameters, changes)
    command = _checked(_body(run, "fork", stream, offset, definition, parameters))
    compiled = compile_pipeline(command.pipeline)
    if not isinstance(compiled, CompiledPipeline):
        raise BadScenarioError("; ".join(f"{problem.path}: {problem.message}" for problem in compiled))
    new = {name for name in parameters if parameters[name] != run.parameters.get(name)}
    changed |= {step.name for step in compiled.pipeline.steps if _parameters_of(step) & new}
    taken = {name: _taken(run, name, stream) for name in _to_take(run, compiled.pipeline, changed)}
    return RunFork(
        command.model_copy(update={"taken": taken}),
        list(taken),
        [name for name in run.steps if name not in taken],
    )


def _body(run: Run, kind: str, stream: str, offset: int, definition: Json, parameters: Json) -> Json:
    return {
        "pipeline": definition,
        "parameters": parameters,
        "seed": run.seed,
        "use_cache": run.use_cache,
        "copy_of": {"kind": kind, "stream": stream, "offset": offset},
    }


def _checked(body: Json) -> StartPipelineRun:
    command = command_of(StartPipelineRun.wire_type(), body, [StartPipelineRun])
    if isinstance(command, Problem):
        raise BadScenarioError(f"{command.path}: {command.message}")
    assert isinstance(command, StartPipelineRun)
    return command


def _change(run: Run, definition: Json, parameters: Json, changes: Mapping[str, Any]) -> set[str]:
    """Sets fields by their dotted names; returns the steps that are changed by it."""
    steps: dict[str, Json] = {step["name"]: step for step in definition["steps"]}
    changed: set[str] = set()
    for name, value in changes.items():
        first, dot, rest = name.partition(".")
        if first == PIPELINE and rest:
            if rest not in run.spec.parameters:
                raise BadScenarioError(
                    f"{name}: the pipeline has no parameter {rest!r}{nearest(rest, run.spec.parameters)}"
                )
            parameters[rest] = value
        elif dot and first in steps:
            _set(steps[first], rest, value, name)
            changed.add(first)
        elif first in _FIELDS:
            _set(definition, name, value, name)
        else:
            known = [*steps, PIPELINE, *_FIELDS]
            raise BadScenarioError(
                f"{name}: expected STEP.FIELD, pipeline.PARAMETER or a field of the definition"
                f"{nearest(first, known)}"
            )
    return changed


def _set(within: Json, path: str, value: Any, name: str) -> None:
    *before, last = path.split(".")
    for part in before:
        if not isinstance(within.setdefault(part, {}), dict):
            raise BadScenarioError(f"{name}: {part!r} has no fields to set")
        within = within[part]
    within[last] = value


def _parameters_of(step: StepSpec) -> set[str]:
    """Returns the parameters of the pipeline that a parsed step refers to."""
    found = names_of(step)
    paths = [reference.path for _, reference in found.references] + [path for _, path in found.paths]
    return {path[1] for path in paths if len(path) > 1 and path[0] == PIPELINE}


def _to_take(run: Run, pipeline: PipelineSpec, changed: set[str]) -> list[str]:
    """Returns the steps that had succeeded, and before which nothing runs again."""
    specs = {step.name: step for step in pipeline.steps}
    used = steps_whose_results_are_used(pipeline)
    stays: set[str] = set()
    for name in ordered(pipeline.steps):
        step = run.steps[name]
        kept = step.state in _DECIDED and _is_kept(step, specs[name], name in used)
        if kept and name not in changed and stays.issuperset(needed(specs[name])):
            stays.add(name)
    return [name for name in specs if name in stays and run.steps[name].state in SUCCESSES]


def _is_kept(step: RunStep, spec: StepSpec, is_used: bool) -> bool:
    """Returns whether the state has what later steps refer to: of many items it is kept only if used."""
    if step.state not in SUCCESSES:
        return True
    return not is_used or step.keeps_outputs if spec.each is not None else bool(step.outputs)


def _taken(run: Run, name: str, stream: str) -> TakenStep:
    step = run.steps[name]
    return TakenStep(
        stream=stream,
        offset=step.changed_at,
        count=step.count,
        items=step.items,
        values=step.resolved or {},
        outputs=[
            _output(index, found)
            for index, found in sorted(step.outputs.items())
            if index not in step.unsuccessful
        ],
    )


def _output(index: int, found: StepOutput) -> TakenOutput:
    return TakenOutput(
        index=index,
        task=found.task,
        offset=found.at,
        result=found.result,
        artifacts={name: cached_artifact(saved) for name, saved in found.artifacts.items()},
        inputs=found.inputs,
    )
