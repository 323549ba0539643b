"""Checks the steps of a definition: what each has, and what its references and expressions name. Pure."""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

from pydantic import ValidationError

from trackside.contracts.envelope.ids import IDENTIFIER_RULE, is_identifier
from trackside.contracts.envelope.message import Json
from trackside.contracts.envelope.refusals import Problem, nearest, problems_of
from trackside.contracts.tasks.artifacts import ArtifactReference
from trackside.domain.pipelines import expressions, references
from trackside.domain.pipelines.definition import (
    CHILD,
    GATE,
    MAX_ITEMS,
    OWN_NEEDS,
    RESERVED,
    TASK,
    PipelineSpec,
    StepNeeds,
    StepSpec,
    kind_of,
    templates_of,
)
from trackside.domain.pipelines.expressions import STEPS, ExpressionError
from trackside.domain.pipelines.references import INDEX, ITEM, KINDS, PIPELINE, RUN, Reference

MODEL_KINDS = ("input", "output")
MODEL_PROPERTIES = ("id", "media_type", "name", "sha256", "size_bytes", "uri", "version")
COUNTS = ("succeeded", "failed", "total", "states")
"""The names of a `collect` expression: numbers of items, and their numbers by state."""
MAX_COMPARED_NAMES = 50_000
"""How many names unknown ones are compared with for their hints: 10,000 take 0.2 s."""
_OWN_NAMES = {"when": (), "collect": COUNTS, "repeat.until": ("result", INDEX)}
_ONLY_TASKS = ("recorded", "parameters", "inputs", "queue", *OWN_NEEDS, "repeat", "cache")
_MODEL_INDEX = re.compile(r"-?[0-9]{1,9}")
Found = tuple[str, str]
"""Code and message of a problem."""


class StepReferences(NamedTuple):
    """What a parsed step names: its references, and the paths of its expressions, each with its place."""

    references: list[tuple[str, Reference]]
    paths: list[tuple[str, tuple[str, ...]]]
    problems: list[Problem]
    """Those of its expressions; their places are within the step."""

    def steps(self) -> list[str]:
        """Returns the names of the steps that are named, in their order, each once."""
        named = [reference.base for _, reference in self.references]
        found = [base for base in named if base not in RESERVED and not base.startswith(RUN)]
        found += [name for where, path in self.paths if (name := _step_of(where, path)) is not None]
        return list(dict.fromkeys(found))


def names_of(step: StepSpec) -> StepReferences:
    """Returns what a parsed step names. An expression that is none names nothing."""
    found = StepReferences([], [], [])
    for name, tree in templates_of(step):
        found.references.extend(references.located(tree, name))
    for where, text in _expressions(step):
        try:
            found.paths.extend((where, path) for path in expressions.paths_of(text))
        except ExpressionError as error:
            hint = "; names in an expression are written without ${}" if "${" in text else ""
            found.problems.append(Problem(code=error.code, path=where, message=f"{error}{hint}"))
    return found


def _expressions(step: StepSpec) -> Iterator[tuple[str, str]]:
    if step.when:
        yield "when", step.when
    if step.collect:
        yield "collect", step.collect
    if step.repeat is not None:
        yield "repeat.until", step.repeat.until


def _step_of(where: str, path: Sequence[str]) -> str | None:
    """Returns the step that a path of an expression is of, None for another name of this expression."""
    if path[0] == STEPS:
        return path[1] if len(path) > 1 else None
    return None if path[0] in _OWN_NAMES[where] or path[0] == PIPELINE else path[0]


def step_problems(pipeline: PipelineSpec, named: Sequence[StepReferences]) -> Iterator[Problem]:
    """Yields what is wrong with the steps of a parsed definition; `named` has what each names."""
    if pipeline.defaults.service is not None:
        message = "a step has to end, so it can't be a service"
        yield Problem(code="bad_service", path="$.defaults.service", message=message)
    known = _Known(pipeline)
    counted = Counter(step.name for step in pipeline.steps)
    for at, (step, names) in enumerate(zip(pipeline.steps, named, strict=True)):
        path = f"$.steps[{at}]"
        if counted[step.name] > 1:
            message = f"{counted[step.name]} steps are called {step.name!r}"
            yield Problem(code="duplicate_step", path=f"{path}.name", message=message)
        yield from _shape_problems(step, path)
        yield from known.needs_problems(step, path)
        for where, reference in names.references:
            if (found := known.reference_problem(reference, where, step)) is not None:
                yield Problem(code=found[0], path=f"{path}.{where}", message=f"{reference.text}: {found[1]}")
        for problem in names.problems:
            yield problem.model_copy(update={"path": f"{path}.{problem.path}"})
        for where, name in names.paths:
            if (found := known.name_problem(name, where, step)) is not None:
                yield Problem(code=found[0], path=f"{path}.{where}", message=found[1])


def output_problems(pipeline: PipelineSpec) -> Iterator[Problem]:
    """Yields what is wrong with the references in the outputs of a parsed definition."""
    known = _Known(pipeline)
    for name, tree in pipeline.outputs.items():
        for where, reference in references.located(tree, f"$.outputs.{name}"):
            if (found := known.reference_problem(reference, "outputs", None)) is not None:
                yield Problem(code=found[0], path=where, message=f"{reference.text}: {found[1]}")


def _shape_problems(step: StepSpec, path: str) -> Iterator[Problem]:
    given = [name for name in ("task_type", "kind", "gate") if getattr(step, name) is not None]
    if len(given) != 1:
        what = f"has {' and '.join(given)}" if given else "has none"
        message = f"a step is a task (task_type), a stream (kind) or a gate; {step.name!r} {what}"
        yield Problem(code="bad_step", path=path, message=message)
        return
    own = kind_of(step)
    wrong = [name for name in _ONLY_TASKS if own != TASK and getattr(step, name) not in (None, {})]
    wrong += ["spec"] if own != CHILD and step.spec is not None else []
    wrong += ["each"] if own == GATE and step.each is not None else []
    wrong += [name for name in ("at_once", "collect") if step.each is None and getattr(step, name)]
    wrong += ["repeat"] if step.each is not None and step.repeat is not None and own == TASK else []
    many = step.each is not None or step.repeat is not None
    wrong += ["cache"] if step.cache is not None and many and own == TASK else []
    for name in wrong:
        why = (
            _WHY.get(name, "only a task can") if own == TASK or name not in _ONLY_TASKS else "only a task can"
        )
        message = f"{step.name!r} can't have {name!r}: {why}"
        yield Problem(code="bad_step", path=f"{path}.{name}", message=message)
    if own == CHILD and step.spec is None:
        yield Problem(code="missing_field", path=f"{path}.spec", message="missing field 'spec'")
    yield from _type_problems(step, path)


_WHY = {
    "spec": "it is for a step with a kind",
    "each": "a gate is decided once",
    "at_once": "it counts the items of a step with each",
    "collect": "it is for the items of a step with each",
    "repeat": "it has each already; a step has one of them",
    "cache": "the results of each and repeat are not kept in the cache",
}


def _type_problems(step: StepSpec, path: str) -> Iterator[Problem]:
    """Yields the templates whose values can't have the type that they need."""
    if (
        step.spec is not None
        and not references.is_object(step.spec)
        and not references.is_reference(step.spec)
    ):
        message = "expected an object, or a reference to one"
        yield Problem(code="wrong_type", path=f"{path}.spec", message=message)
    if isinstance(step.each, list):
        if len(step.each) > MAX_ITEMS:
            message = f"{len(step.each):,} items, at most {MAX_ITEMS:,} are allowed"
            yield Problem(code="too_many_items", path=f"{path}.each", message=message)
    elif step.each is not None and not references.is_reference(step.each):
        message = "expected a list, or a reference to one"
        yield Problem(code="wrong_type", path=f"{path}.each", message=message)
    yield from _queue_problems(step, path)
    yield from _input_problems(step, path)


def _queue_problems(step: StepSpec, path: str) -> Iterator[Problem]:
    queue: Any = step.queue
    if queue is None or references.is_reference(queue):
        return
    if not references.is_text(queue):
        yield Problem(code="wrong_type", path=f"{path}.queue", message="expected the name of a queue")
    elif isinstance(queue, str) and not is_identifier(queue):
        message = f"{queue!r:.200} is not the name of a queue: expected {IDENTIFIER_RULE}"
        yield Problem(code="bad_identifier", path=f"{path}.queue", message=message)


def _input_problems(step: StepSpec, path: str) -> Iterator[Problem]:
    """Yields what can't be an artifact among the inputs of a step."""
    for name, tree in step.inputs.items():
        where = f"{path}.inputs.{name}"
        if references.is_object(tree):
            if next(references.references(tree), None) is None:
                yield from _artifact_problems(references.source(tree), where)
        elif not references.is_reference(tree):
            message = "expected uri, sha256 and size_bytes, or a reference such as ${STEP.artifacts.NAME}"
            yield Problem(code="wrong_type", path=where, message=message)


def _artifact_problems(given: Json, path: str) -> Iterator[Problem]:
    try:
        ArtifactReference.model_validate(given)
    except ValidationError as error:
        for problem in problems_of(error, ArtifactReference.model_fields, given):
            yield problem.model_copy(update={"path": path + problem.path.removeprefix("$")})


class _Known:
    """What references and expressions of a definition can name."""

    def __init__(self, pipeline: PipelineSpec) -> None:
        self._parameters = pipeline.parameters.keys()
        self._steps = {step.name: None for step in pipeline.steps}.keys()
        self._compared = 0

    def needs_problems(self, step: StepSpec, path: str) -> Iterator[Problem]:
        """Yields the unknown steps among those that a step says it needs."""
        for rule in StepNeeds.model_fields:
            for needed in dict.fromkeys(getattr(step.needs, rule)):
                if needed == step.name:
                    message = f"{step.name!r} needs itself"
                    yield Problem(code="pipeline_cycle", path=f"{path}.needs", message=message)
                elif needed not in self._steps:
                    message = f"{step.name!r} needs {needed!r}, which is no step{self._hint(needed)}"
                    yield Problem(code="unknown_step", path=f"{path}.needs", message=message)

    def reference_problem(self, reference: Reference, where: str, step: StepSpec | None) -> Found | None:
        """Returns what is wrong with a reference at a place of a step, or of the outputs."""
        base, rest = reference.base, reference.path[1:]
        if base.startswith(RUN):
            return _run_problem(base.removeprefix(RUN), rest, step)
        if base in (ITEM, INDEX):
            return _item_problem(reference, where, step)
        if base == PIPELINE:
            return self._parameter_problem(rest)
        return self._step_problem(base, rest, step)

    def name_problem(self, path: tuple[str, ...], where: str, step: StepSpec) -> Found | None:
        """Returns what is wrong with a path of an expression."""
        if path == (STEPS,):
            return "bad_expression", "steps needs the name of one: steps['NAME']"
        named = _step_of(where, path)
        if named is not None:
            rest = path[2:] if path[0] == STEPS else path[1:]
            return self._step_problem(named, rest, step, where)
        return self._parameter_problem(path[1:]) if path[0] == PIPELINE else None

    def _parameter_problem(self, rest: Sequence[str]) -> Found | None:
        if not rest or not rest[0]:
            return "bad_reference", "names no parameter: expected pipeline.NAME"
        if rest[0] in self._parameters:
            return None
        hint = self._hint(rest[0], self._parameters)
        return "unknown_parameter", f"the pipeline has no parameter {rest[0]!r}{hint}"

    def _step_problem(
        self, name: str, rest: Sequence[str], step: StepSpec | None, where: str = ""
    ) -> Found | None:
        if step is not None and name == step.name:
            hint = ", whose last result is called 'result' here" if where == "repeat.until" else ""
            return "pipeline_cycle", f"{name!r} refers to itself{hint}"
        if name in self._steps:
            return step_path_problem(rest)
        if not where:
            return "unknown_step", f"there is no step {name!r}{self._hint(name)}"
        others = [*_OWN_NAMES[where], PIPELINE, *self._steps]
        split = next((each for each in self._steps if re.match(rf"{re.escape(name)}\W", each)), None)
        hint = self._hint(name, others) if split is None else f": write steps[{split!r}] for {split!r}"
        return "unknown_step", f"there is no {name!r} here{hint}"

    def _hint(self, name: str, known: Collection[str] | None = None) -> str:
        compared = self._steps if known is None else known
        self._compared += len(compared)
        return nearest(name, compared) if self._compared <= MAX_COMPARED_NAMES else ""


def _run_problem(run_id: str, rest: Sequence[str], step: StepSpec | None) -> Found | None:
    if step is None:
        return "bad_reference", "the values of another run are only there in a step"
    if not is_identifier(run_id) or not rest or not rest[0]:
        return "bad_reference", "expected run:ID.STEP.KIND, with \\. for a dot in the id"
    return step_path_problem(rest[1:])


def _item_problem(reference: Reference, where: str, step: StepSpec | None) -> Found | None:
    base = reference.base
    if step is None or where.split("[")[0].split(".")[0] == "each":
        return "bad_reference", f"{base} is only there in the tasks and children of a step"
    if step.each is None and (base == ITEM or step.repeat is None):
        other = " or repeat" if base == INDEX else ""
        return "bad_reference", f"{base} is only there in a step with each{other}"
    if base == INDEX and len(reference.path) > 1:
        return "bad_reference", "index has nothing in it"
    return None


def step_path_problem(rest: Sequence[str]) -> Found | None:
    """Returns what is wrong with a path within a step, from its kind on."""
    if not rest:
        return "bad_reference", f"names no kind; expected one of: {', '.join(KINDS)}"
    kind, *names = rest
    if kind not in KINDS:
        known = ", ".join(KINDS)
        return "bad_reference", f"unknown kind {kind!r}; expected one of: {known}{nearest(kind, KINDS)}"
    if kind in ("artifacts", "parameters") and (not names or not names[0]):
        return "bad_reference", f"names none of the {kind}"
    if kind in ("id", "status") and names:
        return "bad_reference", f"{kind} has nothing in it"
    return _models_problem(names) if kind == "models" else None


def _models_problem(names: Sequence[str]) -> Found | None:
    if not names or names[0] not in MODEL_KINDS:
        return "bad_reference", "expected models.input or models.output, then an index and a property"
    if len(names) < 2 or not _MODEL_INDEX.fullmatch(names[1]):
        expected = "expected the index of a model, from the end if it is negative: -1 is the last"
        return "bad_reference", expected
    if len(names) != 3 or names[2] not in MODEL_PROPERTIES:
        known = ", ".join(MODEL_PROPERTIES)
        hint = nearest(names[2], MODEL_PROPERTIES) if len(names) > 2 else ""
        return "bad_reference", f"expected a property of a model ({known}){hint}"
    return None
