"""Pipelines, defined in Python: what `spec` returns is the same definition as in YAML.

pipeline = Pipeline("digits", parameters={"epochs": {"type": "integer", "default": 10}})
data = pipeline.task("data", "digits-data")
train = pipeline.task(
    "train",
    "digits-train",
    parameters={"epochs": pipeline.parameter("epochs")},
    inputs={"images": data.artifacts["images"]},
)
pipeline.outputs(accuracy=train.result["accuracy"])
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import yaml

from trackside.aggregates.run.messages import StartPipelineRun
from trackside.contracts.envelope.message import Command, Json
from trackside.contracts.envelope.refusals import Problem, nearest
from trackside.contracts.wire.codec import validate_command
from trackside.domain.pipelines.compiling import CompiledPipeline, compile_pipeline, parameter_values
from trackside.domain.pipelines.definition import PipelineSpec
from trackside.domain.pipelines.references import INDEX, ITEM, PIPELINE, RUN, Reference, parse_reference
from trackside.sdk.definitions import discovery, specs
from trackside.sdk.definitions.durations import put_seconds
from trackside.sdk.definitions.known_fields import known_mappings
from trackside.sdk.errors import UnsendableError
from trackside.sdk.task import Task

KIND = "pipeline"
"""The `kind` of a spec file with a pipeline."""


class Placeholder:
    """A value that a run has later, in a definition a reference to it: its text is `${STEP.result.rows}`.

    An item or attribute of it is what is in it: `step.result["rows"][0]`, `step.artifacts["images"].uri`.
    Names that begin with an underscore, or are those of a method, are only reached as items.
    """

    __slots__ = ("_reference",)
    __iter__ = None
    __contains__ = None

    def __init__(self, *path: str, default: str | None = None) -> None:
        self._reference = Reference(tuple(path), default)
        text = str(self)
        if "}" in text[:-1] or parse_reference(text[2:-1]) != self._reference:
            raise ValueError(f"{text!r} can't be referenced: it has '}}', or a name with ':-'")

    def __getitem__(self, part: str | int) -> "Placeholder":
        return Placeholder(*self._reference.path, str(part))

    def __getattr__(self, name: str) -> "Placeholder":
        if name.startswith("_"):
            raise AttributeError(name)
        return self[name]

    def or_else(self, text: str) -> "Placeholder":
        """Returns the same with a text for a run that has no such value."""
        return Placeholder(*self._reference.path, default=text)

    def __str__(self) -> str:
        default = self._reference.default
        return self._reference.text[:-1] + ("" if default is None else f":-{default}") + "}"

    def __repr__(self) -> str:
        return f"Placeholder({str(self)!r})"

    def __bool__(self) -> NoReturn:
        raise TypeError(f"{self} is only known in a run; a step with `when` is skipped by such a condition")


EACH_ITEM = Placeholder(ITEM)
"""The item, in the templates of a step with `each`."""
EACH_INDEX = Placeholder(INDEX)
"""Its number from 0, in the templates of a step with `each` or `repeat`."""


class PipelineModels:
    """The models of a step: `input` are those that it was given, `output` those that it has saved."""

    def __init__(self, path: Placeholder) -> None:
        self.input = path["input"]
        self.output = path["output"]


@dataclass(frozen=True, slots=True)
class PipelineStep:
    """A step, for the definitions of later ones; `run` is the id of its run, if that is another one."""

    name: str
    run: str = ""

    def _value(self, kind: str) -> Placeholder:
        return Placeholder(*((f"{RUN}{self.run}",) if self.run else ()), self.name, kind)

    @property
    def id(self) -> Placeholder:
        """The id of its task, or of its child's stream."""
        return self._value("id")

    @property
    def status(self) -> Placeholder:
        """How it has ended, such as succeeded."""
        return self._value("status")

    @property
    def result(self) -> Placeholder:
        """What its task returned, or the form of a gate: `step.result["rows"]`."""
        return self._value("result")

    @property
    def artifacts(self) -> Placeholder:
        """What its task has saved: `step.artifacts["images"]`."""
        return self._value("artifacts")

    @property
    def parameters(self) -> Placeholder:
        """The parameters of its task, with all references resolved: `step.parameters["lr"]`."""
        return self._value("parameters")

    @property
    def models(self) -> PipelineModels:
        """Its models: `step.models.output[-1].uri` is the last one that it has saved."""
        return PipelineModels(self._value("models"))


NeededSteps = Sequence[str | PipelineStep] | Mapping[str, Sequence[str | PipelineStep]]


class Pipeline:
    """A pipeline: steps that wait for each other, and for what they refer to.

    `parameters` has a JSON Schema for each, with `default`. `fields` are further fields of a pipeline, as
    in YAML: description, defaults, concurrency, timeout_s, on_end, keep_days. Durations may be texts: "2h".
    """

    def __init__(
        self, name: str = "", parameters: Mapping[str, Mapping[str, Any]] | None = None, **fields: Any
    ) -> None:
        self._body: Json = {"name": name, "parameters": dict(parameters or {}), **fields}
        self._steps: dict[str, Json] = {}
        self._outputs: Json = {}

    def parameter(self, name: str) -> Placeholder:
        """Returns the value of a parameter in a run; raises ValueError if there is no such parameter."""
        if name not in self._body["parameters"]:
            hint = nearest(name, self._body["parameters"])
            raise ValueError(f"the pipeline has no parameter {name!r}{hint}")
        return Placeholder(PIPELINE, name)

    def step(self, name: str, *, needs: NeededSteps = (), **fields: Any) -> PipelineStep:
        """Adds a step by its fields, as in YAML. Raises ValueError for a name that is taken."""
        if name in self._steps:
            raise ValueError(f"the pipeline has a step {name!r} already")
        step: Json = {"name": name}
        if needs:
            step["needs"] = _needs(needs)
        self._steps[name] = step | {
            key: _plain(value, f"{name}.{key}") for key, value in fields.items() if value is not None
        }
        return PipelineStep(name)

    def task(
        self, name: str, task_type: str | type[Task], *, needs: NeededSteps = (), **fields: Any
    ) -> PipelineStep:
        """Adds a step that is a task: a name of the workers' catalogues, or the class itself.

        `fields` are those of a step, as in YAML: parameters, inputs, queue, each, at_once, collect, repeat,
        cache, when, on_end, retry, run_timeout_s and so on.
        """
        type_name = task_type if isinstance(task_type, str) else discovery.task_type_of(task_type)
        return self.step(name, needs=needs, task_type=type_name, **fields)

    def child(
        self, name: str, kind: str, spec: Mapping[str, Any], *, needs: NeededSteps = (), **fields: Any
    ) -> PipelineStep:
        """Adds a step that is a stream of its own: `kind` and `spec` of a search, a batch or a pipeline."""
        return self.step(name, needs=needs, kind=kind, spec=spec, **fields)

    def gate(
        self,
        name: str,
        message: str = "",
        *,
        form: Mapping[str, Mapping[str, Any]] | None = None,
        timeout_s: float | str | None = None,
        needs: NeededSteps = (),
        **fields: Any,
    ) -> PipelineStep:
        """Adds a step that waits for a person, who fills in `form`: a JSON Schema for each field."""
        asked = {"message": message, "form": form or {}, "timeout_s": timeout_s}
        gate = {name: value for name, value in asked.items() if value}
        return self.step(name, needs=needs, gate=gate, **fields)

    def outputs(self, **templates: Any) -> None:
        """Adds what a run has found, for those who started it."""
        self._outputs.update({name: _plain(value, f"outputs.{name}") for name, value in templates.items()})

    def spec(self) -> Json:
        """Returns the definition as JSON. Raises UnsendableError with all its problems."""
        return self.definition().model_dump(mode="json")

    def yaml(self) -> str:
        """Returns the definition as a spec file for `trackside submit`; raises what `spec` raises."""
        return str(yaml.safe_dump({"kind": KIND, **self.spec()}, sort_keys=False, allow_unicode=True))

    def definition(self) -> PipelineSpec:
        """Returns the definition, checked as a whole. Raises UnsendableError with all its problems."""
        body = {**self._body, "steps": list(self._steps.values()), "outputs": self._outputs}
        return _definition({name: value for name, value in body.items() if value not in ("", {})})


PipelineInput = Pipeline | PipelineSpec | Mapping[str, Any]
"""A pipeline: from the builder, or a mapping with the fields of a definition."""


def definition_of(pipeline: PipelineInput) -> PipelineSpec:
    """Returns the definition of a pipeline. Raises UnsendableError with all its problems."""
    if isinstance(pipeline, Pipeline):
        return pipeline.definition()
    return _definition(pipeline)


def start_command(
    pipeline: PipelineInput, parameters: Mapping[str, Any] | None = None, **fields: Any
) -> StartPipelineRun:
    """Returns the command that starts a run; `fields` are further ones of it: overrides, seed, use_cache.

    Raises UnsendableError with all problems, also for parameters that don't fit the definition.
    """
    definition = definition_of(pipeline)
    body = {"pipeline": definition.model_dump(mode="json"), **fields}
    body["parameters"] = _plain(dict(parameters or {}), "parameters")
    _, problems = parameter_values(definition.parameters, body["parameters"], "$.parameters")
    found = validate_command(StartPipelineRun.wire_type(), body, (StartPipelineRun,))
    problems += found if isinstance(found, tuple) else ()
    if problems:
        raise UnsendableError(*problems)
    assert isinstance(found, StartPipelineRun)
    return found


def command_of(kind: type[Command], body: Json) -> Command:
    """Returns a command by its fields, with durations as texts or seconds; raises UnsendableError."""
    problems = put_seconds("$", body, kind.model_fields)
    found = validate_command(kind.wire_type(), body, (kind,))
    if isinstance(found, tuple) or problems:
        raise UnsendableError(*specs.merged(problems, found if isinstance(found, tuple) else ()))
    return found


def _definition(given: PipelineSpec | Mapping[str, Any]) -> PipelineSpec:
    """Returns a definition that was read or checked before, or raises UnsendableError with its problems."""
    problems: list[Problem] = []
    if isinstance(given, PipelineSpec):
        definition = given
    else:
        body = _plain(given, "pipeline")
        if body.get("kind") == KIND:  # the whole of a spec file
            del body["kind"]
        for path, value, known in known_mappings("$", body, PipelineSpec.model_fields):
            problems += put_seconds(path, value, known)
        found = validate_command(StartPipelineRun.wire_type(), {"pipeline": body}, (StartPipelineRun,))
        if isinstance(found, tuple):
            raise UnsendableError(*specs.merged(problems, map(_in_definition, found)))
        assert isinstance(found, StartPipelineRun)
        definition = found.pipeline
    compiled = compile_pipeline(definition)
    problems += compiled if not isinstance(compiled, CompiledPipeline) else ()
    if problems:
        raise UnsendableError(*problems)
    return definition


def _in_definition(problem: Problem) -> Problem:
    return problem.model_copy(update={"path": problem.path.replace("$.pipeline", "$", 1)})


def _needs(given: NeededSteps) -> Json | list[str]:
    if isinstance(given, Mapping):
        return {rule: _step_names(steps) for rule, steps in given.items()}
    return _step_names(given)


def _step_names(given: Sequence[str | PipelineStep]) -> list[str]:
    if isinstance(given, str | PipelineStep):
        raise TypeError(f"needs: expected a list of steps, got {given!r} alone")
    return [step.name if isinstance(step, PipelineStep) else step for step in given]


def _plain(value: Any, where: str) -> Any:
    """Returns a value as JSON, with placeholders as texts, and nothing shared with what was given."""
    if isinstance(value, Placeholder):
        return str(value)
    if isinstance(value, Mapping):
        return {str(name): _plain(inner, f"{where}.{name}") for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner, f"{where}[{at}]") for at, inner in enumerate(value)]
    if isinstance(value, PipelineStep | PipelineModels):
        raise TypeError(f"{where}: expected a value of a step, such as step.id or step.result, got the step")
    if value is None or isinstance(value, str | bool | int | float):
        return value
    raise TypeError(f"{where}: expected what JSON can hold, got {type(value).__name__}")
