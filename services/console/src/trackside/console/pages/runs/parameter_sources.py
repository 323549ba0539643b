"""What the parameters and inputs of a step are, and where each comes from. Pure."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from trackside.domain.pipelines import references
from trackside.domain.pipelines.references import INDEX, ITEM, PIPELINE, RUN, Reference
from trackside.domain.proposal import parse_cause
from trackside.domain.rows.table import ViewRow


@dataclass(frozen=True, slots=True)
class ValueSource:
    """What a value comes from: a reference as text, what that is, and the event.

    `address` is the page of what is referred to, `event` that of the state after the event; empty if there
    is none.
    """

    text: str
    words: str
    address: str = ""
    event: str = ""
    offset: int = -1


@dataclass(frozen=True, slots=True)
class ParameterRow:
    """A parameter, an input or another template of a step.

    `value` is None before it is known: then `template` is all there is.
    """

    name: str
    template: Any
    value: Any = None
    is_known: bool = True
    sources: list[ValueSource] = field(default_factory=list)


def parameter_rows(run_id: str, step: ViewRow, events: Mapping[str, str]) -> list[ParameterRow]:
    """Returns a row for each parameter and input of a step, then for its other templates.

    `step` is its row with its definition, `events` has the event that each reference comes from, as
    STREAM@OFFSET, by the text of the reference.
    """
    spec: Mapping[str, Any] = step["spec"] or {}
    found = list[ParameterRow]()
    for name, template in (spec.get("parameters") or {}).items():
        known = (step["parameters"] or {}).get(name)
        found.append(_row(run_id, name, template, step["resolved"], events, known))
    for name, template in (spec.get("inputs") or {}).items():
        found.append(_row(run_id, f"input {name}", template, step["resolved"], events))
    for name in ("each", "queue", "spec"):
        template = spec.get(name)
        if template is not None and any(_references(template)):
            found.append(_row(run_id, name, template, step["resolved"], events))
    return found


def _row(
    run_id: str,
    name: str,
    template: Any,
    resolved: Mapping[str, Any] | None,
    events: Mapping[str, str],
    known: Any = None,
) -> ParameterRow:
    texts = {each.text: each for each in _references(template)}
    sources = [_source(run_id, each, events) for each in texts.values()]
    if not texts:
        return ParameterRow(name, template, template, True, [ValueSource("", "the definition")])
    has_items = any(each.base in (ITEM, INDEX) for each in texts.values())
    values = resolved or {}
    is_known = all(text in values or each.default is not None for text, each in texts.items())
    if has_items or resolved is None or not is_known:
        return ParameterRow(name, template, None, False, sources)
    value = known if known is not None else references.resolve(references.parse(template), _valued(values))
    return ParameterRow(name, template, value, True, sources)


def _valued(values: Mapping[str, Any]) -> Any:
    return lambda reference: values.get(reference.text, reference.default)


def _references(template: Any) -> Iterator[Reference]:
    return references.references(references.parse(template))


def _source(run_id: str, reference: Reference, events: Mapping[str, str]) -> ValueSource:
    words, address = _words_and_address(run_id, reference)
    event = parse_cause(events.get(reference.text, ""))
    if event is None:
        return ValueSource(reference.text, words, address)
    stream, offset = event
    past = f"/experiments/{_quoted(stream)}/past?at={offset}"
    return ValueSource(reference.text, words, address, past, offset)


def _words_and_address(run_id: str, reference: Reference) -> tuple[str, str]:
    base, kind = reference.base, reference.path[1] if len(reference.path) > 1 else ""
    match base:
        case str() if base == PIPELINE:
            return "a parameter of the run", f"/experiments/{_quoted(run_id)}"
        case str() if base in (ITEM, INDEX):
            return "each item of the step has its own", ""
        case str() if base.startswith(RUN):
            other, name = base.removeprefix(RUN), kind
            kind = reference.path[2] if len(reference.path) > 2 else ""
            return (
                f"{_of_kind(kind)} of step {name} of run {other}",
                f"/experiments/{_quoted(other)}/steps/{_quoted(name)}",
            )
    return f"{_of_kind(kind)} of step {base}", f"/experiments/{_quoted(run_id)}/steps/{_quoted(base)}"


_OF_KIND = {
    "artifacts": "an artifact",
    "parameters": "a parameter",
    "models": "a model",
    "id": "the id",
    "result": "the result",
    "status": "the status",
}


def _of_kind(kind: str) -> str:
    return _OF_KIND.get(re.split(r"[^a-z]", kind)[0], "a value")


def _quoted(text: str) -> str:
    return quote(text, safe="")
