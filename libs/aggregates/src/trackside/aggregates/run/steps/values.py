"""The values of references and expressions: from the folded state of the run alone. Pure."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from trackside.aggregates.run.state import Run, RunStep, StepOutput, run_of
from trackside.aggregates.run.step_messages import SUCCESSES, StepState
from trackside.contracts.envelope.message import Json
from trackside.contracts.envelope.refusals import nearest
from trackside.domain.pipelines import references
from trackside.domain.pipelines.definition import templates_of
from trackside.domain.pipelines.references import (
    INDEX,
    ITEM,
    KINDS,
    PIPELINE,
    RUN,
    MissingValueError,
    Reference,
    step_into,
)
from trackside.domain.proposal import cause_of
from trackside.domain.streams.stream import Stream
from trackside.domain.tasks.task import SavedArtifact

States = Mapping[str, StepState]
"""The states that steps are about to have, by name: those that end in the same decision."""
FindRun = Callable[[str], Stream | None]
"""Returns the stream of another run by its id; None if there is none."""
MODEL = "model"


def resolve_step(run: Run, name: str, states: States, find: FindRun) -> tuple[Json, dict[str, str]]:
    """Returns the values of a step's references by their texts, and the events that they come from.

    Those to its items are left out, and those that have a default and no value. `find` returns the streams of
    other runs. Raises MissingValueError.
    """
    values: Json = {}
    sources: dict[str, str] = {}
    for reference in _references(run, name):
        try:
            value, source = _value_and_source(run, reference, states, find)
        except MissingValueError as error:
            if reference.default is None:
                raise MissingValueError(f"{reference.text}: {error}") from None
            continue
        values[reference.text] = value
        sources[reference.text] = source
    return values, sources


def _value_and_source(run: Run, reference: Reference, states: States, find: FindRun) -> tuple[Any, str]:
    if not reference.base.startswith(RUN):
        value, offset = value_of(run, reference, states)
        return value, cause_of(run.run_id, offset)
    run_id, path = reference.base.removeprefix(RUN), reference.path[1:]
    if run_id == run.run_id:
        raise MissingValueError("a run can't refer to itself by its id: name the step")
    stream = find(run_id)
    other = None if stream is None else run_of(stream)
    if other is None:
        raise MissingValueError(f"there is no run {run_id!r}")
    if other.archived:
        raise MissingValueError(f"run {run_id} is archived: what its steps have found is not kept")
    if path[0] not in other.steps:
        raise MissingValueError(f"run {run_id} has no step {path[0]!r}{nearest(path[0], other.steps)}")
    try:
        value, offset = _step_value(other, path[0], path[1:], {})
    except MissingValueError as error:
        raise MissingValueError(f"run {run_id}: {error}") from None
    return value, cause_of(run_id, offset)


def _references(run: Run, name: str) -> Iterator[Reference]:
    for _, tree in templates_of(run.spec_of(name)):
        for reference in references.references(tree):
            if reference.base not in (ITEM, INDEX):
                yield reference


def has_references(run: Run, name: str) -> bool:
    """Returns whether a step refers to anything but its items."""
    return next(_references(run, name), None) is not None


def fill(tree: Any, values: Json, item: Any = None, index: int | None = None) -> Any:
    """Returns a template with the values of its references, for one item. Raises MissingValueError."""

    def value(reference: Reference) -> Any:
        if reference.base == ITEM:
            return step_into(item, reference.path[1:], ITEM)
        if reference.base == INDEX:
            return index
        if reference.text not in values:
            raise MissingValueError(f"{reference.text} has no value")
        return values[reference.text]

    return references.resolve(tree, value)


def value_of(run: Run, reference: Reference, states: States) -> tuple[Any, int]:
    """Returns the value of a reference, and the offset of the event that it comes from.

    Raises MissingValueError.
    """
    base, path = reference.base, reference.path[1:]
    if base == PIPELINE:
        return step_into(run.parameters, path, PIPELINE), run.started_at
    if base not in run.steps:
        raise MissingValueError(f"there is no {base!r} in this run")
    return _step_value(run, base, path, states)


def _step_value(run: Run, name: str, path: tuple[str, ...], states: States) -> tuple[Any, int]:
    step = run.steps[name]
    state = states.get(name, step.state)
    kind, rest = path[0], path[1:]
    if kind == "status":
        return state.value, step.changed_at
    if kind == "id":
        return _ids(run, name), step.changed_at
    if state not in SUCCESSES:
        raise MissingValueError(f"step {name} is {state.value}, so it has no {kind}")
    if run.spec_of(name).each is None:
        last = max(step.outputs)
        return _found(run, name, last, kind, rest), step.outputs[last].at
    indexes = range(step.count)

    def good(at: int) -> StepOutput | None:
        return None if at in step.unsuccessful else step.outputs.get(at)

    if kind == "result":
        results = [None if (own := good(at)) is None else own.result for at in indexes]
        return step_into(results, rest, f"{name}.result"), step.changed_at
    found = [None if good(at) is None else _found(run, name, at, kind, rest) for at in indexes]
    return found, step.changed_at


def _ids(run: Run, name: str) -> Any:
    step = run.steps[name]
    taken = step.outputs if step.state is StepState.CACHED else {}  # the tasks of another run
    if run.spec_of(name).each is None:
        last = max(step.outputs, default=0)
        return taken[last].task if last in taken else run.item_id(name, last)
    return [taken[at].task if at in taken else run.item_id(name, at) for at in range(step.count)]


def _found(run: Run, name: str, index: int, kind: str, path: tuple[str, ...]) -> Any:
    """Returns what a reference of a kind finds in the output of an item."""
    output = run.steps[name].outputs[index]
    if kind == "result":
        return step_into(output.result, path, f"{name}.result")
    if kind == "artifacts":
        saved = output.artifacts.get(path[0])
        if saved is None:
            known = ", ".join(output.artifacts) or "none"
            raise MissingValueError(f"step {name} has saved no artifact {path[0]!r}; it has saved: {known}")
        if len(path) == 1:
            return saved.reference.model_dump(mode="json")
        return step_into(_described(path[0], saved), path[1:], f"{name}.artifacts.{path[0]}")
    if kind == "models":
        return _model(name, output, path)
    return _parameter(run, name, index, path)


def _described(name: str, saved: SavedArtifact) -> Json:
    own = {"name": name, "version": saved.version, "kind": saved.kind, "id": saved.reference.source}
    return saved.reference.model_dump(mode="json") | own


def _model(name: str, output: StepOutput, path: tuple[str, ...]) -> Any:
    which, *rest = path
    return step_into(_models(output)[which], tuple(rest), f"{name}.models.{which}")


def _models(output: StepOutput) -> Json:
    """Returns the models that an item was given, and those that it has saved, in their order."""
    given = [
        artifact.model_dump(mode="json") | {"name": own, "id": artifact.source, "version": 1}
        for own, artifact in output.inputs.items()
    ]
    saved = [_described(own, each) for own, each in output.artifacts.items() if each.kind == MODEL]
    return {"input": given, "output": saved}


def _parameter(run: Run, name: str, index: int, path: tuple[str, ...]) -> Any:
    """Returns a parameter that an item got: `Section/name` is a name as it is, or a path."""
    parameters = item_parameters(run, name, index)
    whole = ".".join(path)
    for names in ((whole,), path, tuple(part for each in path for part in each.split("/"))):
        try:
            return step_into(parameters, names, f"{name}.parameters")
        except MissingValueError:
            continue
    return step_into(parameters, (whole,), f"{name}.parameters")


def item_parameters(run: Run, name: str, index: int) -> Json:
    """Returns the parameters that an item of a step has got."""
    step = run.steps[name]
    item = None if step.items is None else step.items[index]
    parameters: Json = fill(run.spec_of(name).parameters, step.resolved or {}, item, index)
    return parameters


class RunNames(Mapping[str, Any]):
    """The names of a run as expressions see them: steps, `pipeline`, `steps`, and more of their own."""

    def __init__(self, run: Run, states: States, more: Json | None = None) -> None:
        self._run = run
        self._states = states
        self._more = more or {}

    def __getitem__(self, name: str) -> Any:
        """Returns the value of a name. Raises MissingValueError."""
        if name in self._more:
            return self._more[name]
        if name == PIPELINE:
            return self._run.parameters
        if name == "steps":
            return _Steps(self._run, self._states)
        return _Steps(self._run, self._states)[name]

    def __iter__(self) -> Iterator[str]:
        """Yields the names."""
        return iter((*self._more, PIPELINE, "steps", *self._run.steps))

    def __len__(self) -> int:
        """Returns how many names there are."""
        return len(self._more) + 2 + len(self._run.steps)


class _Steps(Mapping[str, Any]):
    """The steps of a run by name, each as JSON that is computed when it is asked for."""

    def __init__(self, run: Run, states: States) -> None:
        self._run = run
        self._states = states

    def __getitem__(self, name: str) -> Any:
        if name not in self._run.steps:
            raise MissingValueError(f"there is no {name!r} in this run")
        return _Kinds(lambda kind: _whole(self._run, name, kind, self._states))

    def __iter__(self) -> Iterator[str]:
        return iter(self._run.steps)

    def __len__(self) -> int:
        return len(self._run.steps)


class _Kinds(Mapping[str, Any]):
    """What an expression can ask of a step, computed when it is asked for."""

    def __init__(self, find: Callable[[str], Any]) -> None:
        self._find = find

    def __getitem__(self, kind: str) -> Any:
        return self._find(kind)

    def __contains__(self, kind: object) -> bool:
        return kind in KINDS

    def __iter__(self) -> Iterator[str]:
        return iter(KINDS)

    def __len__(self) -> int:
        return len(KINDS)


def _whole(run: Run, name: str, kind: str, states: States) -> Any:
    """Returns all that a step has of a kind."""
    if kind in ("status", "id", "result"):
        return _step_value(run, name, (kind,), states)[0]
    step: RunStep = run.steps[name]
    state = states.get(name, step.state)
    if state not in SUCCESSES:
        raise MissingValueError(f"step {name} is {state.value}, so it has no {kind}")
    if not step.outputs:
        raise MissingValueError(f"step {name} had no items, so it has no {kind}")
    output = step.outputs[max(step.outputs)]
    if kind == "parameters":
        return item_parameters(run, name, max(step.outputs))
    if kind == "models":
        return _models(output)
    return {own: _described(own, saved) for own, saved in output.artifacts.items()}
