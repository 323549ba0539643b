"""Checks a definition as a whole, and parses what is parsed once: references and expressions. Pure."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Any, NamedTuple

import rfc8785
from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError

from trackside.contracts.message import Json
from trackside.contracts.refusals import Problem, nearest
from trackside.domain.pipelines import expressions, references
from trackside.domain.pipelines.definition import MAX_ITEMS, PipelineSpec, StepNeeds, StepSpec
from trackside.domain.pipelines.references import INDEX, ITEM, KINDS, PIPELINE, RUN, Reference

MODEL_KINDS = ("input", "output")
MODEL_PROPERTIES = ("id", "media_type", "name", "sha256", "size_bytes", "uri", "version")
COUNTS = ("succeeded", "failed", "total", "states")
"""The names of a `collect` expression: numbers of items, and their numbers by state."""
TASK, CHILD, GATE = "task", "child", "gate"
_TEMPLATES = ("parameters", "inputs", "queue", "each", "spec")
_ONLY_TASKS = ("parameters", "inputs", "repeat", "cache")


class CompiledPipeline(NamedTuple):
    """A definition whose references are parsed, and whose steps need all that they refer to."""

    pipeline: PipelineSpec
    sha256: str
    """The digest of the definition as it was given, as canonical JSON (RFC 8785)."""


def kind_of(step: StepSpec) -> str:
    """Returns what a step is: task, child or gate."""
    return GATE if step.gate is not None else CHILD if step.kind is not None else TASK


def digest(pipeline: PipelineSpec) -> str:
    """Returns the SHA-256 of a definition as canonical JSON, which its version is known by."""
    return hashlib.sha256(rfc8785.dumps(pipeline.model_dump(mode="json"))).hexdigest()


def compile_pipeline(given: PipelineSpec) -> CompiledPipeline | tuple[Problem, ...]:
    """Parses and checks a definition; returns all problems, with paths in the definition."""
    steps = [_parsed(step) for step in given.steps]
    outputs = {name: references.parse(template) for name, template in given.outputs.items()}
    parsed = given.model_copy(update={"steps": steps, "outputs": outputs})
    problems = list(_problems(given, parsed))
    if problems:
        return tuple(problems)
    needing = [step.model_copy(update={"needs": _all_needs(step)}) for step in steps]
    if (cycle := _cycle(needing)) is not None:
        return (cycle,)
    return CompiledPipeline(parsed.model_copy(update={"steps": needing}), digest(given))


def source_of(compiled: PipelineSpec) -> PipelineSpec:
    """Returns a definition with its references as texts again; its steps name all that they need."""
    steps = [step.model_copy(update=_templates(step, references.source)) for step in compiled.steps]
    outputs = {name: references.source(tree) for name, tree in compiled.outputs.items()}
    return compiled.model_copy(update={"steps": steps, "outputs": outputs})


def _templates(step: StepSpec, change: Any) -> Json:
    return {name: change(value) for name in _TEMPLATES if (value := getattr(step, name)) is not None}


def _parsed(step: StepSpec) -> StepSpec:
    return step.model_copy(update=_templates(step, references.parse))


def parameter_values(schemas: Mapping[str, Json], given: Json, path: str) -> tuple[Json, list[Problem]]:
    """Returns the values of typed parameters, with defaults filled in, and what is wrong with those given."""
    problems = []
    for name in given.keys() - schemas.keys():
        message = f"there is no parameter {name!r}{nearest(name, schemas)}"
        problems.append(Problem(code="unknown_parameter", path=f"{path}.{name}", message=message))
    values: Json = {}
    for name, schema in schemas.items():
        if name in given:
            values[name] = given[name]
        elif "default" in schema:
            values[name] = schema["default"]
        else:
            message = f"parameter {name!r} has no value and no default"
            problems.append(Problem(code="missing_parameter", path=f"{path}.{name}", message=message))
            continue
        problems += _misfits(schema, values[name], f"{path}.{name}")
    return values, sorted(problems, key=lambda problem: problem.path)


def _misfits(schema: Json, value: Any, path: str) -> Iterator[Problem]:
    for error in Draft202012Validator(schema).iter_errors(value):
        inner = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.path)
        yield Problem(code="bad_parameter", path=f"{path}{inner}", message=error.message[:500])
        return


def _problems(given: PipelineSpec, parsed: PipelineSpec) -> Iterator[Problem]:
    names = {step.name for step in parsed.steps}
    counted = Counter(step.name for step in parsed.steps)
    for at, step in enumerate(parsed.steps):
        path = f"$.steps[{at}]"
        if counted[step.name] > 1:
            message = f"{counted[step.name]} steps are called {step.name!r}"
            yield Problem(code="duplicate_step", path=f"{path}.name", message=message)
        yield from _shape(step, path)
        yield from _needs_problems(step, names, path)
        for name, tree in templates_of(step):
            yield from _reference_problems(tree, step, parsed, names, f"{path}.{name}")
        yield from _expression_problems(step, parsed, names, path)
        if step.gate is not None:
            yield from _schema_problems(step.gate.form, f"{path}.gate.form")
    for name, tree in parsed.outputs.items():
        yield from _reference_problems(tree, None, parsed, names, f"$.outputs.{name}")
    yield from _schema_problems(given.parameters, "$.parameters")


def _shape(step: StepSpec, path: str) -> Iterator[Problem]:
    given = [name for name in ("task_type", "kind", "gate") if getattr(step, name) is not None]
    if len(given) != 1:
        what = f"has {' and '.join(given)}" if given else "has none"
        message = f"a step is a task (task_type), a stream (kind) or a gate; {step.name!r} {what}"
        yield Problem(code="bad_step", path=path, message=message)
        return
    own = kind_of(step)
    wrong = [name for name in _ONLY_TASKS if own != TASK and getattr(step, name)]
    wrong += ["spec"] if own != CHILD and step.spec is not None else []
    wrong += ["each"] if own == GATE and step.each is not None else []
    wrong += [name for name in ("at_once", "collect") if step.each is None and getattr(step, name)]
    wrong += ["repeat"] if step.each is not None and step.repeat is not None else []
    wrong += (
        ["cache"] if step.cache is not None and (step.each is not None or step.repeat is not None) else []
    )
    if own == CHILD and not isinstance(step.spec, dict):
        yield Problem(code="missing_field", path=f"{path}.spec", message="missing field 'spec'")
    for name in wrong:
        message = f"{step.name!r} can't have {name!r}: {_WHY.get(name, 'only a task can')}"
        yield Problem(code="bad_step", path=f"{path}.{name}", message=message)
    if isinstance(step.each, list) and len(step.each) > MAX_ITEMS:
        message = f"{len(step.each):,} items, at most {MAX_ITEMS:,} are allowed"
        yield Problem(code="too_many_items", path=f"{path}.each", message=message)
    elif step.each is not None and not isinstance(step.each, list) and not _is_reference(step.each):
        message = "expected a list, or a reference to one"
        yield Problem(code="wrong_type", path=f"{path}.each", message=message)


_WHY = {
    "spec": "it is for a step with a kind",
    "each": "a gate is decided once",
    "at_once": "it counts the items of a step with each",
    "collect": "it is for the items of a step with each",
    "repeat": "it has each already; a step has one of them",
    "cache": "the results of each and repeat are not kept in the cache",
}


def _is_reference(tree: Any) -> bool:
    return isinstance(tree, dict) and "$ref" in tree


def templates_of(step: StepSpec) -> Iterator[tuple[str, Any]]:
    """Yields the templates that a step has, with their names."""
    for name in _TEMPLATES:
        if (tree := getattr(step, name)) is not None:
            yield name, tree


def _needs_problems(step: StepSpec, names: set[str], path: str) -> Iterator[Problem]:
    for rule in StepNeeds.model_fields:
        for needed in getattr(step.needs, rule):
            if needed == step.name:
                message = f"{step.name!r} needs itself"
                yield Problem(code="pipeline_cycle", path=f"{path}.needs", message=message)
            elif needed not in names:
                message = f"{step.name!r} needs {needed!r}, which is no step{nearest(needed, names)}"
                yield Problem(code="unknown_step", path=f"{path}.needs", message=message)


def _reference_problems(
    tree: Any, step: StepSpec | None, pipeline: PipelineSpec, names: set[str], path: str
) -> Iterator[Problem]:
    for reference in dict.fromkeys(references.references(tree)):
        found = _reference_problem(reference, step, pipeline, names)
        if found is not None:
            yield Problem(code=found[0], path=path, message=f"{reference.text}: {found[1]}")


def _reference_problem(
    reference: Reference, step: StepSpec | None, pipeline: PipelineSpec, names: set[str]
) -> tuple[str, str] | None:
    """Returns code and message of what is wrong with a reference, None if nothing is."""
    base, rest = reference.base, reference.path[1:]
    if base.startswith(RUN):
        return (
            _step_path_problem(rest[1:]) if len(rest) > 1 else ("bad_reference", "expected run:ID.STEP.KIND")
        )
    if base in (ITEM, INDEX):
        fits = step is not None and (step.each is not None or (base == INDEX and step.repeat is not None))
        return None if fits else ("bad_reference", f"{base} is only there in a step with each")
    if base == PIPELINE:
        if not rest or rest[0] not in pipeline.parameters:
            named = rest[0] if rest else ""
            hint = nearest(named, pipeline.parameters)
            return "unknown_parameter", f"the pipeline has no parameter {named!r}{hint}"
        return None
    if base not in names:
        return "unknown_step", f"there is no step {base!r}{nearest(base, names)}"
    if step is not None and base == step.name:
        return "pipeline_cycle", f"{base!r} refers to itself"
    return _step_path_problem(rest)


def _step_path_problem(rest: Sequence[str]) -> tuple[str, str] | None:
    if not rest:
        return "bad_reference", f"names no kind; expected one of: {', '.join(KINDS)}"
    kind, *names = rest
    if kind not in KINDS:
        return (
            "bad_reference",
            f"unknown kind {kind!r}; expected one of: {', '.join(KINDS)}{nearest(kind, KINDS)}",
        )
    if kind in ("artifacts", "parameters") and (not names or not names[0]):
        return "bad_reference", f"names none of the {kind}"
    if kind in ("id", "status") and names:
        return "bad_reference", f"{kind} has nothing in it"
    if kind == "models":
        return _models_problem(names)
    return None


def _models_problem(names: Sequence[str]) -> tuple[str, str] | None:
    if not names or names[0] not in MODEL_KINDS:
        return "bad_reference", "expected models.input or models.output, then an index and a property"
    if len(names) < 2 or not names[1].lstrip("-").isdigit():
        return (
            "bad_reference",
            "expected the index of a model, from the end if it is negative: -1 is the last",
        )
    if len(names) != 3 or names[2] not in MODEL_PROPERTIES:
        named = names[2] if len(names) > 2 else ""
        known = ", ".join(MODEL_PROPERTIES)
        return "bad_reference", f"expected a property of a model ({known}){nearest(named, MODEL_PROPERTIES)}"
    return None


def _expressions(step: StepSpec) -> Iterator[tuple[str, str]]:
    if step.when:
        yield "when", step.when
    if step.collect:
        yield "collect", step.collect
    if step.repeat is not None:
        yield "repeat.until", step.repeat.until


def _expression_problems(
    step: StepSpec, pipeline: PipelineSpec, names: set[str], path: str
) -> Iterator[Problem]:
    for where, text in _expressions(step):
        try:
            paths = expressions.paths_of(text)
        except expressions.ExpressionError as error:
            yield Problem(code=error.code, path=f"{path}.{where}", message=str(error))
            continue
        for found in paths:
            problem = _name_problem(found, where, step, pipeline, names)
            if problem is not None:
                yield Problem(code=problem[0], path=f"{path}.{where}", message=problem[1])


def _name_problem(
    found: tuple[str, ...], where: str, step: StepSpec, pipeline: PipelineSpec, names: set[str]
) -> tuple[str, str] | None:
    own: Sequence[str] = (
        COUNTS if where == "collect" else ("result", INDEX) if where == "repeat.until" else ()
    )
    if found[0] in own:
        return None
    if found[0] == "steps":
        found = found[1:]
        if not found:
            return "bad_expression", "steps needs the name of one: steps['NAME']"
    if found[0] == PIPELINE:
        return _reference_problem(Reference(found), step, pipeline, names)
    if found[0] not in names:
        known = [*own, PIPELINE, *names]
        return "unknown_step", f"there is no {found[0]!r} here{nearest(found[0], known)}"
    if found[0] == step.name:
        return "pipeline_cycle", f"{step.name!r} refers to itself"
    return _step_path_problem(found[1:])


def _schema_problems(schemas: Mapping[str, Json], path: str) -> Iterator[Problem]:
    for name, schema in schemas.items():
        try:
            Draft202012Validator.check_schema(schema)
        except SchemaError as error:
            message = f"not a JSON Schema: {error.message[:300]}"
            yield Problem(code="bad_schema", path=f"{path}.{name}", message=message)
            continue
        if "default" in schema:
            yield from _misfits(schema, schema["default"], f"{path}.{name}.default")


def steps_named(step: StepSpec) -> list[str]:
    """Returns the steps that the references and expressions of a step name, in their order."""
    named = (reference.base for _, tree in templates_of(step) for reference in references.references(tree))
    found = dict.fromkeys(base for base in named if base not in (PIPELINE, ITEM, INDEX))
    own = {*COUNTS, "result", INDEX, PIPELINE}
    for where, text in _expressions(step):
        for path in expressions.paths_of(text):
            name = path[1] if path[0] == "steps" else path[0]
            if path[0] not in own or (where == "when" and path[0] != PIPELINE):
                found[name] = None
    return [name for name in found if not name.startswith(RUN)]


def _all_needs(step: StepSpec) -> StepNeeds:
    """Returns what a step needs: what it says, and what it refers to."""
    said = {*step.needs.all, *step.needs.any_of, *step.needs.all_ended}
    implied = [name for name in steps_named(step) if name not in said]
    return step.needs.model_copy(update={"all": [*dict.fromkeys(step.needs.all), *implied]})


def needed(step: StepSpec) -> list[str]:
    """Returns all steps that a compiled step waits for, each once."""
    return list(dict.fromkeys((*step.needs.all, *step.needs.any_of, *step.needs.all_ended)))


def ordered(steps: Iterable[StepSpec]) -> list[str]:
    """Returns the names of compiled steps so that each comes after those that it needs."""
    return list(TopologicalSorter({step.name: needed(step) for step in steps}).static_order())


def _cycle(steps: Sequence[StepSpec]) -> Problem | None:
    try:
        ordered(steps)
    except CycleError as error:
        named = list(reversed(error.args[1]))
        at = next(at for at, step in enumerate(steps) if step.name == named[0])
        message = f"steps wait for each other: {' needs '.join(named)}"
        return Problem(code="pipeline_cycle", path=f"$.steps[{at}].needs", message=message)
    return None


def steps_whose_results_are_used(pipeline: PipelineSpec) -> set[str]:
    """Returns the steps that other steps, or the outputs of a compiled pipeline, refer to."""
    used = {name for step in pipeline.steps for name in steps_named(step)}
    return used | {
        reference.base for tree in pipeline.outputs.values() for reference in references.references(tree)
    }
