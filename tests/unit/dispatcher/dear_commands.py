"""Dear commands for the test of their costs: bodies of each type that are as large as a record may be.

Dear ones are looked for among examples, of which one part is repeated until the record is full, and
inputs by hand, which no example leads to.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from trackside.aggregates import documents
from trackside.aggregates.registry import AGGREGATES
from trackside.contracts.envelope.message import Json
from trackside.contracts.envelope.topics import MAX_COMMAND_BYTES
from trackside.contracts.wire.ingress import MAX_ITEMS
from trackside.domain.pipelines.value_schemas import MAX_PATTERNS

SIZE = MAX_COMMAND_BYTES - 1_024
"""Bytes of a command's body: what a record of a command may have, less its headers."""
RUN, SEARCH, BATCH = (
    "trackside.start-pipeline-run.v1",
    "trackside.start-search.v1",
    "trackside.submit-tasks.v1",
)
_Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Input:
    """A body of a command; `what` says which part of it is large."""

    command_type: str
    what: str
    body: Json


@dataclass(frozen=True, slots=True)
class Recipe:
    """How an input is made: `make` returns a body by the number of parts of what is large in it."""

    command_type: str
    what: str
    make: Callable[[int], Json]

    def input(self, full: int) -> Input:
        """Returns the largest input with at most `full` bytes and as many items as are allowed."""
        before, count = (1, _octets(self.make(1))), 101
        made = self.make(count)
        for _ in range(10):
            octets = _octets(made)
            if octets <= full and (count == MAX_ITEMS or octets > 0.95 * full or count == before[0]):
                break
            slope = max(1.0, (octets - before[1]) / max(1, count - before[0]))
            before = count, octets
            count = min(MAX_ITEMS, max(1, count + int((0.98 * full - octets) / slope)))
            made = self.make(count)
        return Input(self.command_type, self.what, made)


def _octets(body: Json) -> int:
    return len(json.dumps(body, separators=(",", ":")))


def recipes() -> Iterator[Recipe]:
    """Yields the recipes of dear inputs of each command type."""
    for kind in AGGREGATES.commands:
        name = kind.wire_type()
        yield from repetitions(
            Input(name, "", json.loads(documents.examples()[name].model_dump_json(exclude_none=True)))
        )
    for name, makes in BY_HAND.items():
        for what, make in makes.items():
            yield Recipe(name, what, make)


def repetitions(given: Input) -> list[Recipe]:
    """Returns a recipe for each list and object of an input: it is filled with more of the same."""
    return [
        Recipe(
            given.command_type,
            f"{given.what}${''.join(f'.{part}' for part in path)}",
            partial(_repeated, given.body, path, filler),
        )
        for path, value in _places(given.body, ())
        if (filler := _filler(value)) is not None
    ]


def _repeated(body: Json, path: _Path, filler: Callable[[int], Any], count: int) -> Json:
    made: Json = _replaced(body, path, filler(count))
    return made


def _places(value: Any, path: _Path) -> Iterator[tuple[_Path, Any]]:
    yield path, value
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, each in inner:
        yield from _places(each, (*path, name))


def _filler(value: Any) -> Callable[[int], Any] | None:
    if isinstance(value, list) and value:
        return lambda count: [_renamed(value[at % len(value)], at) for at in range(count)]
    if isinstance(value, dict) and value:
        items = list(value.items())
        return lambda count: (
            value | {f"{items[at % len(items)][0]}{at}": items[at % len(items)][1] for at in range(count)}
        )
    return None


def _renamed(value: Any, at: int) -> Any:
    """Returns an item under another name, as lists of named things refuse two of one name."""
    if isinstance(value, str):
        return f"{value}{at}"
    return value | {"name": f"{value['name']}{at}"} if isinstance(value, dict) and "name" in value else value


def _replaced(body: Any, path: _Path, value: Any) -> Any:
    if not path:
        return value
    first, rest = path[0], path[1:]
    if isinstance(body, list):
        return [_replaced(each, rest, value) if at == first else each for at, each in enumerate(body)]
    return {name: _replaced(each, rest, value) if name == first else each for name, each in body.items()}


def _pipeline(**changed: Any) -> Json:
    return {"pipeline": {"name": "x", "steps": [{"name": "a", "task_type": "noop"}], **changed}}


def _steps(count: int, make: Callable[[int], Json]) -> Json:
    return _pipeline(steps=[{"name": f"s{at}", "task_type": "noop"} | make(at) for at in range(count)])


def _parameter(**schema: Any) -> Json:
    return _pipeline(parameters={"p": schema})


def _patterns(count: int, pattern: str) -> Json:
    """Returns a pipeline with as many patterns as are allowed, and with steps for the rest of the bytes."""
    patterns = [{"pattern": f"{pattern}|zz|{at}"} for at in range(min(count, MAX_PATTERNS))]
    steps = [{"name": f"s{at}", "task_type": "noop"} for at in range(count)]
    return _pipeline(parameters={"p": {"default": "zz", "allOf": patterns}}, steps=steps)


def _children(count: int, child: Json) -> Json:
    """Returns a batch with as many children as are allowed, and with tasks for the rest of the bytes."""
    children = [child | {"name": f"c{at}"} for at in range(min(count, 100))]
    return {"groups": [{"children": children, "tasks": [{"task_type": "noop"} for _ in range(count)]}]}


def _search(**changed: Any) -> Json:
    space = {"x": {"type": "uniform", "low": 0, "high": 1}}
    return {"task_type": "noop", "max_trials": 10_000, "space": space, **changed}


PIPELINES: Mapping[str, Callable[[int], Json]] = {
    "steps": lambda count: _steps(count, lambda at: {}),
    "a chain of steps": lambda count: _steps(count, lambda at: {"needs": [f"s{at - 1}"]} if at else {}),
    "steps of misspelt needs": lambda count: _steps(count, lambda at: {"needs": [f"ss{at}"]}),
    "steps of unknown task types": lambda count: _steps(count, lambda at: {"task_type": f"n{at}"}),
    "steps with conditions": lambda count: _steps(
        count, lambda at: {"needs": ["s0"], "when": "s0.result.x > 1 && s0.result.y < 2"} if at else {}
    ),
    "one step with all needs": lambda count: _pipeline(
        steps=[
            *({"name": f"s{at}", "task_type": "noop"} for at in range(count)),
            {"name": "last", "task_type": "noop", "needs": [f"s{at}" for at in range(count)]},
        ]
    ),
    "references": lambda count: _pipeline(
        steps=[
            {
                "name": "a",
                "task_type": "noop",
                "parameters": {f"p{at}": "${pipeline.q}" for at in range(count)},
            }
        ],
        parameters={"q": {"default": 1}},
    ),
    "references to nothing": lambda count: _pipeline(
        steps=[
            {
                "name": "a",
                "task_type": "noop",
                "parameters": {f"p{at}": f"${{pipeline.q{at}}}" for at in range(count)},
            }
        ]
    ),
    "a long condition": lambda count: _pipeline(
        steps=[
            {"name": "a", "task_type": "noop"},
            {
                "name": "b",
                "task_type": "noop",
                "needs": ["a"],
                "when": " && ".join(["a.result.x > 1"] * min(count, 200)),
            },
        ]
    ),
    "patterns with repetitions": lambda count: _patterns(count, r"(\w{20}){9}"),
    "patterns of Unicode": lambda count: _patterns(count, r"(?i)([\w\p{Greek}]{20})"),
    "patterns of alternatives": lambda count: _patterns(count, "|".join(f"zz{at}" for at in range(160))),
    "branches": lambda count: _parameter(default="zz", anyOf=[{"const": at} for at in range(count)]),
    "comparisons": lambda count: _parameter(
        default=[9_999] * min(count, 998), items={"anyOf": [{"const": at} for at in range(min(count, 490))]}
    ),
    "parameters": lambda count: _pipeline(
        parameters={f"p{at}": {"type": "string", "default": "x"} for at in range(count)}
    ),
    "items of a fan-out": lambda count: _pipeline(
        steps=[{"name": "a", "task_type": "noop", "each": list(range(count))}]
    ),
}
BY_HAND: Mapping[str, Mapping[str, Callable[[int], Json]]] = {
    RUN: {
        **PIPELINES,
        "overrides of nothing": lambda count: (
            _pipeline() | {"overrides": {f"x{at}": {"priority": 1} for at in range(count)}}
        ),
    },
    "trackside.define-pipeline.v1": PIPELINES,
    SEARCH: {
        "values of a choice": lambda count: _search(
            space={"c": {"type": "choice", "values": list(range(count))}}
        ),
        "parameters of a space": lambda count: _search(
            space={f"p{at}": {"type": "uniform", "low": 0, "high": 1} for at in range(count)}
        ),
        "a grid": lambda count: _search(
            tuner={"name": "grid"},
            space={f"p{at}": {"type": "choice", "values": [1, 2]} for at in range(count)},
        ),
        "past trials": lambda count: _search(
            past=[{"parameters": {"x": at / count}, "value": at} for at in range(count)]
        ),
        "past trials outside of the space": lambda count: _search(
            past=[{"parameters": {f"y{at}": 1}, "value": at} for at in range(count)]
        ),
        "first trials": lambda count: _search(first=[{"x": at / count} for at in range(count)]),
        "spaces in spaces": lambda count: _search(
            space={
                "c": {
                    "type": "choice",
                    "values": [
                        {"_name": f"n{at}", "y": {"type": "uniform", "low": 0, "high": 1}}
                        for at in range(count)
                    ],
                }
            }
        ),
    },
    BATCH: {
        "tasks": lambda count: {"groups": [{"tasks": [{"task_type": "noop"} for _ in range(count)]}]},
        "tasks with names": lambda count: {
            "groups": [{"tasks": [{"name": f"t{at}", "task_type": "noop"} for at in range(count)]}]
        },
        "groups": lambda count: {"groups": [{"tasks": [{"task_type": "noop"}]} for _ in range(count)]},
        "tasks of unknown types": lambda count: {
            "groups": [{"tasks": [{"task_type": f"n{at}"} for at in range(count)]}]
        },
        "children": lambda count: _children(count, {"kind": "search", "spec": _search()}),
        "children with pipelines": lambda count: _children(
            count, {"kind": "run", "spec": _patterns(1, r"(?i)([\w\p{Greek}]{20})")}
        ),
    },
}
"""Dear inputs that no example leads to, by the number of their parts."""
