"""Messages drawn by chance: a strategy for every class of the codec's table, made from its fields."""

import types
from collections.abc import Iterator
from typing import Annotated, Any, Union, get_args, get_origin

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from pydantic import BaseModel, JsonValue
from pydantic.fields import FieldInfo

from trackside.aggregates.batch.messages import ChildSpec, GroupSpec, TaskSpec, task_name
from trackside.aggregates.rounds.examples import JOB
from trackside.aggregates.rounds.job_spec import JobSpec
from trackside.aggregates.search.space import (
    Branch,
    Choice,
    Constant,
    LogNormal,
    LogUniform,
    Normal,
    QLogNormal,
    QLogUniform,
    QNormal,
    QUniform,
    RandInt,
    Uniform,
)
from trackside.contracts import ids
from trackside.contracts.artifacts import STORED, check_url
from trackside.contracts.commands import CommandReceived
from trackside.contracts.ids import is_identifier
from trackside.contracts.message import Message
from trackside.contracts.resources import Needs, Resources, Retry
from trackside.domain.pipelines.definition import checked_step_name

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
IDENTIFIERS = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,30}", fullmatch=True).filter(is_identifier)
FINITE = st.floats(allow_nan=False, allow_infinity=False)
SCALARS = st.none() | st.booleans() | st.integers() | FINITE | TEXT
ANY_JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3)
)
JSON = st.dictionaries(TEXT, ANY_JSON, max_size=3)
WHOLE = st.integers(-(2**53), 2**53)


@st.composite
def _ordered(draw: st.DrawFn, kind: type[BaseModel], name: str, numbers: SearchStrategy[float]) -> BaseModel:
    low, high = sorted((draw(numbers), draw(numbers)))
    return kind(type=name, low=low, high=high)


STEPS = st.floats(0.01, 5)
MUS, SIGMAS = st.floats(-10, 10), st.floats(0.01, 10)
FLAT: SearchStrategy[BaseModel] = st.one_of(
    st.builds(Constant, type=st.just("constant"), value=ANY_JSON),
    _ordered(Uniform, "uniform", st.floats(-1e307, 1e307)),
    _ordered(LogUniform, "loguniform", st.floats(1e-300, 1e300)),
    st.builds(
        QUniform,
        type=st.just("quniform"),
        low=st.floats(-10, 0),
        high=st.floats(0, 10),
        step=STEPS,
    ),
    st.builds(
        QLogUniform,
        type=st.just("qloguniform"),
        low=st.floats(0.01, 1),
        high=st.floats(1, 10),
        step=STEPS,
    ),
    st.builds(Normal, type=st.just("normal"), mu=MUS, sigma=SIGMAS),
    st.builds(LogNormal, type=st.just("lognormal"), mu=MUS, sigma=SIGMAS),
    st.builds(QNormal, type=st.just("qnormal"), mu=MUS, sigma=SIGMAS, step=STEPS),
    st.builds(QLogNormal, type=st.just("qlognormal"), mu=MUS, sigma=SIGMAS, step=STEPS),
    st.builds(RandInt, type=st.just("randint"), low=st.integers(-(2**53), 0), high=st.integers(1, 2**53)),
)


def _choices(inner: SearchStrategy[BaseModel]) -> SearchStrategy[Choice]:
    members = st.dictionaries(TEXT.filter(lambda name: name != "_name"), inner, min_size=1, max_size=2)
    branches = st.builds(
        lambda name, parameters: Branch(_name=name, **parameters), TEXT.filter(bool), members
    )
    values = st.lists(
        ANY_JSON | branches, min_size=1, max_size=4, unique_by=lambda v: getattr(v, "name", id(v))
    )
    return st.builds(Choice, type=st.just("choice"), values=values)


PARAMETERS: SearchStrategy[BaseModel] = FLAT | _choices(FLAT | _choices(FLAT))


MEMORY = st.none() | st.integers(1, 2**60)
RESOURCES = st.one_of(
    st.builds(
        Resources,
        kind=st.sampled_from(["any", "gpu"]),
        devices=st.integers(1, 64),
        whole_device=st.booleans(),
        estimate_memory=MEMORY,
        estimate_cuda_memory=MEMORY,
    ),
    st.builds(Resources, kind=st.just("cpu"), device=st.sampled_from(["", "cpu-0", "w1/cpu-1"])),
)
RETRIES = st.builds(
    Retry,
    times=st.integers(0, 100),
    backoff_s=st.floats(0, 86_400),
    factor=st.floats(1, 100),
    jitter=st.floats(0, 1),
)
"""Fields that a class bounds in ways that its annotations don't tell."""


def messages(kind: type[Message]) -> SearchStrategy[Any]:
    """Gives a strategy for one kind of message."""
    return models(kind)


def models(kind: type[BaseModel]) -> SearchStrategy[Any]:
    """Gives a strategy for a model: each field drawn, those with a default left out now and then."""
    required: dict[str, SearchStrategy[Any]] = {}
    optional: dict[str, SearchStrategy[Any]] = {}
    for name, field in kind.model_fields.items():
        always = field.is_required() or (kind is GroupSpec and name == "tasks")
        (required if always else optional)[name] = _field(kind, name, field)
    return st.fixed_dictionaries(required, optional=optional).map(lambda fields: kind(**fields))


def _field(kind: type[BaseModel], name: str, field: FieldInfo) -> SearchStrategy[Any]:
    if name == "space":
        return st.dictionaries(TEXT, PARAMETERS, min_size=1, max_size=4)
    if name == "queue" and issubclass(kind, Needs):
        return IDENTIFIERS
    if name == "tasks" and kind is GroupSpec:
        return st.lists(models(TaskSpec), min_size=1, max_size=3).filter(_names_differ)
    if name == "children" and kind is GroupSpec:
        return st.lists(models(ChildSpec).map(_child), max_size=1)
    if name in ("train", "eval", "deploy") and issubclass(kind, JobSpec):
        return st.just(getattr(JOB, name))  # triggers are of triggers, without an end
    if name == "body" and kind is CommandReceived:
        return st.none() | JSON
    return _annotated(field.annotation, tuple(field.metadata))


def _names_differ(tasks: list[TaskSpec]) -> bool:
    return len({task_name(task, number) for number, task in enumerate(tasks)}) == len(tasks)


def _child(child: ChildSpec) -> ChildSpec:
    """Gives a child whose name is none of a task."""
    return child.model_copy(update={"name": "children-of-the-group"})


def _annotated(annotation: Any, metadata: tuple[Any, ...]) -> SearchStrategy[Any]:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if annotation is JsonValue or annotation is Any:
        return ANY_JSON
    if origin is Annotated:
        return _annotated(arguments[0], (*_marks(arguments[1:]), *metadata))
    if origin in (Union, types.UnionType):
        return st.one_of([_annotated(part, metadata) for part in arguments])
    if origin is list:
        return st.lists(_annotated(arguments[0], ()), min_size=_least(metadata), max_size=3)
    if origin is tuple:
        if arguments[-1] is Ellipsis:
            return st.lists(_annotated(arguments[0], ()), max_size=3).map(tuple)
        return st.tuples(*(_annotated(each, ()) for each in arguments))
    if origin is dict:
        if arguments[1] is Any and arguments[0] is str:
            return JSON
        names = TEXT if arguments[0] is str else _annotated(arguments[0], ())
        values = _annotated(arguments[1], ())
        return st.dictionaries(names, values, min_size=_least(metadata), max_size=3)
    if annotation is Resources:
        return RESOURCES
    if annotation is Retry:
        return RETRIES
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return models(annotation)
    if any(getattr(mark, "func", None) is checked_step_name for mark in metadata):
        return IDENTIFIERS.map(lambda name: "step-" + name.replace(".", "-"))
    if any(getattr(mark, "func", None) is ids.checked for mark in metadata):
        return IDENTIFIERS
    if any(getattr(mark, "func", None) is check_url for mark in metadata):
        return st.sampled_from(["s3://bucket/model.pt", "file:///data/digits.npz", STORED + "0" * 64])
    patterns = [mark.pattern for mark in metadata if getattr(mark, "pattern", None)]
    if patterns:
        return st.from_regex(patterns[0].removesuffix("$") + r"\Z")
    if annotation is str:
        return st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
    if annotation is float:
        return _bounded_float(metadata)
    return _bounded(annotation, metadata)


def _bounded(annotation: Any, metadata: tuple[Any, ...]) -> SearchStrategy[Any]:
    """Draws whole numbers within the bounds of a field, and what hypothesis knows by itself."""
    if annotation is not int:
        return st.from_type(annotation)
    low = next((mark.ge for mark in metadata if hasattr(mark, "ge")), -(2**53))
    above = next((mark.gt + 1 for mark in metadata if hasattr(mark, "gt")), low)
    high = next((mark.le for mark in metadata if hasattr(mark, "le")), 2**53)
    below = next((mark.lt - 1 for mark in metadata if hasattr(mark, "lt")), high)
    return st.integers(above, below)


def _marks(metadata: tuple[Any, ...]) -> Iterator[Any]:
    """Gives the bounds themselves where a nested annotation wraps them in a field."""
    for mark in metadata:
        yield from mark.metadata if isinstance(mark, FieldInfo) else (mark,)


def _bounded_float(metadata: tuple[Any, ...]) -> SearchStrategy[float]:
    above = next((mark.gt for mark in metadata if hasattr(mark, "gt")), None)
    low = next((mark.ge for mark in metadata if hasattr(mark, "ge")), above)
    high = next((mark.le for mark in metadata if hasattr(mark, "le")), None)
    return FINITE if low is None else st.floats(low, high, exclude_min=above is not None)


def _least(metadata: tuple[Any, ...]) -> int:
    return next((mark.min_length for mark in metadata if hasattr(mark, "min_length")), 0)
