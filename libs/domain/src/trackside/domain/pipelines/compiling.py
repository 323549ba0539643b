"""Checks a definition as a whole, and parses what is parsed once: references and expressions. Pure."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from itertools import chain, islice
from typing import Any, NamedTuple

import rfc8785

from trackside.contracts.envelope.message import Json
from trackside.contracts.envelope.refusals import MAX_PROBLEMS, Problem, nearest
from trackside.contracts.envelope.secret_references import is_reference
from trackside.domain.pipelines import references
from trackside.domain.pipelines.definition import PipelineSpec, StepSpec, templates_of
from trackside.domain.pipelines.json_limits import json_problems
from trackside.domain.pipelines.step_checks import (
    StepReferences,
    names_of,
    output_problems,
    step_problems,
)
from trackside.domain.pipelines.value_schemas import SchemaCheck, SchemaCosts, schema_problem, violation

RUN, DEFINITION = "run", "pipeline"
"""The kind of a step that is a run, and the field of its spec whose references are those of that run."""
MAX_CYCLES = 10
"""How many cycles are named."""


class CompiledPipeline(NamedTuple):
    """A definition whose references are parsed, and whose steps need all that they refer to."""

    pipeline: PipelineSpec
    sha256: str
    """The digest of the definition as it was given, as canonical JSON (RFC 8785)."""


def digest(pipeline: PipelineSpec) -> str:
    """Returns the SHA-256 of a definition as canonical JSON, which its version is known by.

    Raises ValueError for what has no canonical form; a definition that compiles has one.
    """
    return hashlib.sha256(rfc8785.dumps(pipeline.model_dump(mode="json"))).hexdigest()


def compile_pipeline(
    given: PipelineSpec, costs: SchemaCosts | None = None
) -> CompiledPipeline | tuple[Problem, ...]:
    """Parses and checks a definition; returns its problems, with paths in it, at most MAX_PROBLEMS.

    What its schemas cost is added to `costs`, which are those of one command.
    """
    if problems := tuple(islice(definition_problems(given), MAX_PROBLEMS)):
        return problems
    steps = [parsed_step(step) for step in given.steps]
    outputs = {name: references.parse(template) for name, template in given.outputs.items()}
    parsed = given.model_copy(update={"steps": steps, "outputs": outputs})
    named = [names_of(step) for step in steps]
    needing = [_with_all_needs(step, names) for step, names in zip(steps, named, strict=True)]
    found = chain(
        _unclosed(parsed),
        _cycles(needing),
        step_problems(parsed, named),
        output_problems(parsed),
        _all_schema_problems(given, costs or SchemaCosts()),
    )
    if problems := tuple(islice(found, MAX_PROBLEMS)):
        return problems
    try:
        sha256 = digest(given)
    except ValueError as error:  # a number of a field, such as an amount of memory: templates were checked
        return (Problem(code="out_of_range", path="$", message=f"has no canonical JSON: {error}"),)
    return CompiledPipeline(parsed.model_copy(update={"steps": needing}), sha256)


def source_of(compiled: PipelineSpec) -> PipelineSpec:
    """Returns a definition with its references as texts again; its steps name all that they need."""
    steps = [step.model_copy(update=_templates(step, references.source)) for step in compiled.steps]
    outputs = {name: references.source(tree) for name, tree in compiled.outputs.items()}
    return compiled.model_copy(update={"steps": steps, "outputs": outputs})


def _templates(step: StepSpec, change: Any) -> Json:
    return {name: change(value) for name, value in templates_of(step)}


def parsed_step(step: StepSpec) -> StepSpec:
    """Returns a step with its templates parsed."""
    parsed = _templates(step, references.parse)
    if step.kind == RUN and isinstance(step.spec, dict) and DEFINITION in step.spec:
        parsed["spec"][DEFINITION] = references.literal(step.spec[DEFINITION])
    return step.model_copy(update=parsed)


def definition_problems(given: PipelineSpec) -> Iterator[Problem]:
    """Yields what in a definition is no JSON with a canonical form, so that it has no digest."""
    for at, step in enumerate(given.steps):
        for name, value in templates_of(step):
            yield from json_problems(value, f"$.steps[{at}].{name}")
        if step.gate is not None:
            yield from json_problems(step.gate.form, f"$.steps[{at}].gate.form")
    yield from json_problems(given.parameters, "$.parameters")
    yield from json_problems(given.outputs, "$.outputs")


def _unclosed(parsed: PipelineSpec) -> Iterator[Problem]:
    for path, text in _all_unclosed(parsed):
        message = (
            f"{text[:60]!r}: a reference ends with }} before the next one begins, as in ${{STEP.id}}; for "
            "a text with these characters, make it the value of a parameter, and write ${pipeline.NAME}"
        )
        yield Problem(code="bad_reference", path=path, message=message)


def _all_unclosed(parsed: PipelineSpec) -> Iterator[tuple[str, str]]:
    for at, step in enumerate(parsed.steps):
        for name, tree in templates_of(step):
            if name == "spec" and step.kind == RUN and isinstance(tree, dict):
                tree = {key: each for key, each in tree.items() if key != DEFINITION}  # is checked as its own
            yield from references.unclosed(tree, f"$.steps[{at}].{name}")
    yield from references.unclosed(parsed.outputs, "$.outputs")


def _all_schema_problems(given: PipelineSpec, costs: SchemaCosts) -> Iterator[Problem]:
    forms = [(f"$.steps[{at}].gate.form", step.gate.form) for at, step in enumerate(given.steps) if step.gate]
    places = [*forms, ("$.parameters", given.parameters)]
    checks = (
        SchemaCheck(f"{path}.{name}", schema, (schema["default"],) if "default" in schema else ())
        for path, schemas in places
        for name, schema in schemas.items()
    )
    if (too_costly := costs.add(checks)) is not None:
        yield too_costly
        return
    for path, schemas in places:
        yield from _schema_problems(schemas, path)


def _schema_problems(schemas: Mapping[str, Json], path: str) -> Iterator[Problem]:
    for name, schema in schemas.items():
        if (wrong := schema_problem(schema)) is not None:
            yield Problem(
                code="bad_schema", path=f"{path}.{name}", message=f"not a usable JSON Schema: {wrong}"
            )
        elif "default" in schema:
            yield from _misfits(schema, schema["default"], f"{path}.{name}.default")


def parameter_values(
    schemas: Mapping[str, Json], given: Json, path: str, costs: SchemaCosts | None = None
) -> tuple[Json, list[Problem]]:
    """Returns the values of typed parameters, with defaults filled in, and what is wrong with those given.

    What the checks cost is added to `costs`, which are those of one command.
    """
    checks = (
        SchemaCheck(f"{path}.{name}", schema, (given[name],))
        for name, schema in schemas.items()
        if name in given
    )
    if (too_costly := (costs or SchemaCosts()).add(checks)) is not None:
        return {}, [too_costly]
    problems = []
    for name in given.keys() - schemas.keys():
        message = f"there is no parameter {name!r}{nearest(name, schemas)}"
        problems.append(Problem(code="unknown_parameter", path=f"{path}.{name}", message=message))
        if len(problems) == MAX_PROBLEMS:
            break
    values: Json = {}
    for name, schema in schemas.items():
        if name in given:
            values[name] = given[name]
            problems += _misfits(schema, values[name], f"{path}.{name}")
        elif "default" in schema:
            values[name] = schema["default"]  # was checked with its schema
        else:
            message = f"parameter {name!r} has no value and no default"
            problems.append(Problem(code="missing_parameter", path=f"{path}.{name}", message=message))
    return values, sorted(problems, key=lambda problem: problem.path)


def _misfits(schema: Json, value: Any, path: str) -> list[Problem]:
    if problems := list(islice(json_problems(value, path), MAX_PROBLEMS)):
        return problems
    if is_reference(value) and schema.get("type", "string") == "string":
        return []  # the value of a secret is a text, of which no other rule can be checked here
    if (found := violation(schema, value)) is None:
        return []
    return [Problem(code="bad_parameters", path=path + found[0].removeprefix("$"), message=found[1])]


def steps_named(step: StepSpec) -> list[str]:
    """Returns the steps that the references and expressions of a step name, in their order."""
    return names_of(step).steps()


def steps_whose_results_are_used(pipeline: PipelineSpec) -> set[str]:
    """Returns the steps that other steps, or the outputs of a compiled pipeline, refer to."""
    used = {name for step in pipeline.steps for name in steps_named(step)}
    return used | {
        reference.base for tree in pipeline.outputs.values() for reference in references.references(tree)
    }


def _with_all_needs(step: StepSpec, names: StepReferences) -> StepSpec:
    """Returns a step that needs what it says, and what it refers to."""
    said = {*step.needs.all, *step.needs.any_of, *step.needs.all_ended}
    implied = [name for name in names.steps() if name not in said]
    wanted = [*dict.fromkeys(step.needs.all), *implied]
    if len(wanted) == len(step.needs.all):
        return step
    return step.model_copy(update={"needs": step.needs.model_copy(update={"all": wanted})})


def needed(step: StepSpec) -> list[str]:
    """Returns all steps that a compiled step waits for, each once."""
    return list(dict.fromkeys((*step.needs.all, *step.needs.any_of, *step.needs.all_ended)))


def ordered(steps: Iterable[StepSpec]) -> list[str]:
    """Returns the names of compiled steps so that each comes after those that it needs."""
    return list(TopologicalSorter({step.name: needed(step) for step in steps}).static_order())


def _cycles(steps: Sequence[StepSpec]) -> Iterator[Problem]:
    """Yields a problem for each cycle of more than one step, the steps of one left out of the next."""
    graph = {step.name: {name for name in needed(step) if name != step.name} for step in steps}
    places = {step.name: at for at, step in reversed(list(enumerate(steps)))}
    for _ in range(MAX_CYCLES):
        try:
            TopologicalSorter(graph).prepare()
        except CycleError as error:
            cycle = list(reversed(error.args[1]))
            message = f"steps wait for each other: {' needs '.join(_shortened(cycle))}"
            yield Problem(code="pipeline_cycle", path=f"$.steps[{places[cycle[0]]}].needs", message=message)
            graph = {name: needs for name, needs in graph.items() if name not in cycle}
        else:
            return


def _shortened(cycle: Sequence[str]) -> Sequence[str]:
    """Leaves out the steps within a long cycle."""
    if len(cycle) <= 20:
        return cycle
    return [*cycle[:10], f"... ({len(cycle) - 20} more)", *cycle[-10:]]
