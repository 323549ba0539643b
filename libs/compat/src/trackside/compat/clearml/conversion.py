"""Steps of ClearML's controller as steps of a pipeline. Pure."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from trackside.compat.clearml.arguments import NotSupportedError
from trackside.contracts.envelope.ids import is_identifier
from trackside.contracts.envelope.message import Json
from trackside.domain.pipelines import references
from trackside.domain.pipelines.references import PIPELINE, Reference

ARTIFACT_PROPERTIES = {"url": "uri", "size": "size_bytes", "hash": "sha256", "type": "kind"}
MODEL_PROPERTIES = {"url": "uri"}
"""The properties of artifacts and models that have another name here."""
TYPES = {
    "str": "string",
    "string": "string",
    "int": "integer",
    "integer": "integer",
    "float": "number",
    "number": "number",
    "bool": "boolean",
    "boolean": "boolean",
    "list": "array",
    "array": "array",
    "tuple": "array",
    "dict": "object",
    "object": "object",
}
"""The types of parameters by the names that `param_type` may have."""
_ENDS = {"fail": ("failed", "timed_out", "lost"), "abort": ("aborted",)}
"""The states here of what ClearML calls a failed or an aborted step."""


@dataclass
class PipelineNode:
    """A step as ClearML's users see it.

    `executed` is None before its end, then the id of its task, or False if it has not succeeded. `status` is
    one of pending, queued, running, completed, cached, failed, aborted, skipped. `timeout` is in seconds,
    `job_started` and `job_ended` in seconds since 1970. `job` is None: the events of a run are its record.
    """

    name: str
    base_task_id: str | None = None
    queue: str | None = None
    parents: list[str] = field(default_factory=list)
    timeout: float | None = None
    parameters: Json = field(default_factory=dict)
    executed: str | bool | None = None
    job: None = None
    status: str = "pending"
    job_started: float | None = None
    job_ended: float | None = None
    cache_executed_step: bool = False
    monitor_metrics: list[Any] = field(default_factory=list)
    monitor_artifacts: list[Any] = field(default_factory=list)
    monitor_models: list[Any] = field(default_factory=list)
    stage: str | None = None
    step: Json = field(default_factory=dict, repr=False)
    """The fields of the step that it becomes."""
    guarded: frozenset[str] = field(default=frozenset(), repr=False)
    """The states of its end after which its children are skipped, though the run continues."""


def convert_references(value: Any) -> Any:
    """Returns a value of ClearML as a template: sections and properties in references as they are here."""
    if isinstance(value, Mapping):
        return {str(name): convert_references(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [convert_references(inner) for inner in value]
    if not isinstance(value, str):
        return value
    return references.resolve(references.parse(value), _converted)


def _converted(reference: Reference) -> str:
    path = list(reference.path)
    kind = path[1] if len(path) > 1 else ""
    if kind == "parameters" and len(path) > 2:
        path[2:] = [".".join(path[2:]).partition("/")[2] or ".".join(path[2:])]
    elif kind == "artifacts" and len(path) > 3:
        path[3] = ARTIFACT_PROPERTIES.get(path[3], path[3])
    elif kind == "models" and len(path) > 4:
        path[4] = MODEL_PROPERTIES.get(path[4], path[4])
    text = Reference(tuple(path)).text
    return text if reference.default is None else f"{text[:-1]}:-{reference.default}}}"


def convert_parameters(step: str, given: Mapping[str, Any]) -> Json:
    """Returns parameters without the names of their sections; raises ValueError if two become one."""
    found: Json = {}
    for name, value in given.items():
        short = str(name).partition("/")[2] or str(name)
        if short in found:
            raise ValueError(f"step {step!r} has two parameters {short!r}: sections are left out; rename one")
        found[short] = convert_references(value)
    return found


def convert_retries(given: Any, where: str) -> Json | None:
    """Returns how often a failed step is tried again; a callable is refused."""
    if given is None:
        return None
    if not isinstance(given, int):
        raise NotSupportedError(
            f"{where}: retry_on_failure takes a number; rules for each kind of failure, and pauses, are in "
            "the field `retry` of a step: step={'retry': {'failed': {'times': 3, 'backoff_s': 10}}}"
        )
    return {"failed": int(given)}


def end_rules(given: Mapping[str, Any], abort_on_failure: bool) -> tuple[Json, frozenset[str]]:
    """Returns `on_end` of a step, and the ends after which only its children are skipped."""
    flags = given["continue_behaviour"]
    keys = [f"{verb}_on_{end}" for verb in ("continue", "skip_children") for end in _ENDS]
    if flags is None:
        own = {"continue_on_fail": bool(given["continue_on_fail"]), "continue_on_abort": False}
    elif unknown := set(flags) - set(keys):
        raise ValueError(f"continue_behaviour has {sorted(unknown)}; expected {', '.join(keys)}")
    else:
        own = {key: bool(flags.get(key, True)) for key in keys}
    rule: Json = {}
    guarded: set[str] = set()
    for end, states in _ENDS.items():
        goes_on, skips = own[f"continue_on_{end}"], own.get(f"skip_children_on_{end}", True)
        stops = abort_on_failure and end == "fail" and not goes_on
        rule |= dict.fromkeys(states, "fail" if stops else "continue" if goes_on or not skips else "skip")
        guarded |= set(states) if goes_on and skips else set()
    return rule, frozenset(guarded)


def convert_monitors(step: str, given: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Returns what of a step its run mirrors; raises ValueError for what is no list of names or pairs."""
    found = {
        "metrics": _pairs(step, "monitor_metrics", given["monitor_metrics"], _metric),
        "artifacts": _pairs(step, "monitor_artifacts", given["monitor_artifacts"], str),
        "models": _pairs(step, "monitor_models", given["monitor_models"], str),
    }
    return {kind: names for kind, names in found.items() if names}


def _pairs(step: str, argument: str, given: Iterable[Any] | None, text: Any) -> dict[str, str]:
    found = {}
    for each in given or ():
        if isinstance(each, str):
            name = shown = each
        elif isinstance(each, list | tuple) and len(each) == 2 and all(each):
            is_nested = text is _metric and not isinstance(each[0], list | tuple)
            name, shown = (text(each), text(each)) if is_nested else (text(each[0]), text(each[1]))
        else:
            raise ValueError(f"step {step!r}: {argument}: expected names or pairs of names, got {each!r}")
        found[name] = identifier(shown.rstrip("*") or "all")
    return found


def _metric(pair: Sequence[str]) -> str:
    title, series = pair
    return title if title == series else f"{title}/{series}"


def identifier(name: str) -> str:
    """Returns a name with a dot for what no identifier can have; raises ValueError if nothing is left."""
    found = re.sub(r"[^A-Za-z0-9._-]+", ".", name).strip(".")
    if not is_identifier(found):
        raise ValueError(f"{name!r} can't be a name here: it has no letters or digits, or too many")
    return found


def parameter_schema(default: Any, description: Any, param_type: Any) -> Json:
    """Returns the JSON Schema of a parameter; without a default it must be given where a run is started."""
    schema: Json = {}
    if param_type:
        name = str(getattr(param_type, "__name__", param_type)).lower()
        if name not in TYPES:
            raise ValueError(f"param_type {name!r} is unknown; expected one of: {', '.join(TYPES)}")
        schema["type"] = TYPES[name]
    if description:
        schema["description"] = str(description)
    return schema if default is None and param_type else {**schema, "default": default}


def parents_of(node: PipelineNode, names: Iterable[str]) -> list[str]:
    """Returns the steps that a node waits for: its parents, and the steps that it refers to."""
    known = set(names)
    trees = references.parse(
        [node.step.get(key) for key in ("parameters", "inputs", "queue", "each", "spec")]
    )
    named = (reference.base for reference in references.references(trees) if reference.base != PIPELINE)
    return list(dict.fromkeys([*node.parents, *(name for name in named if name in known)]))


def guard(node: PipelineNode, nodes: Mapping[str, PipelineNode]) -> str:
    """Returns `when` of a step: its own, and that no parent has ended so that its children are skipped."""
    # `in` finds a state in a text: expressions have no lists
    conditions = [
        f"steps[{parent!r}].status not in {' '.join(sorted(nodes[parent].guarded))!r}"
        for parent in parents_of(node, nodes)
        if parent in nodes and nodes[parent].guarded
    ]
    own = node.step.get("when", "")
    return " and ".join([f"({own})" if own and conditions else own, *conditions] if own else conditions)
