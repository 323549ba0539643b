"""Forks a recorded search: a new search that continues from its results. Pure."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trackside.aggregates.search.axes import axes_of, parameters_faults
from trackside.aggregates.search.messages import StartSearch, TrialStatus
from trackside.aggregates.search.state import Search
from trackside.contracts.codec import command_of
from trackside.contracts.refusals import Problem
from trackside.replay.derive.rerun import plain_spec
from trackside.replay.history.errors import BadScenarioError

MAX_UNFINISHED = 200
_NOT_TO_SET = frozenset({"origin", "past", "first"})
_WITH_OPTIONS = ("tuner", "assessor")


@dataclass(frozen=True, slots=True)
class Fork:
    """The command of a fork, and what it takes over.

    `ended` trials are not repeated; `imported` results are given to its tuner. `unfinished` trials had not
    ended, and are its first ones.
    """

    command: StartSearch
    ended: int
    imported: int
    unfinished: int


def parse_changes(texts: Sequence[str]) -> dict[str, Any]:
    """Parses `max_trials=40,tuner.name=gp`, once or several times; raises BadScenarioError.

    A value is JSON where it is, else text. A comma within brackets or quotes separates nothing.
    """
    found: dict[str, Any] = {}
    for text in texts:
        for part in _split(text):
            name, equals, value = part.partition("=")
            name = name.strip()
            if not equals or not name:
                raise BadScenarioError(f"{part!r} sets nothing: expected NAME=VALUE, such as max_trials=40")
            if name.partition(".")[0] in _NOT_TO_SET:
                raise BadScenarioError(f"{name} is set by the fork itself; it can't be changed")
            try:
                found[name] = json.loads(value)
            except ValueError:
                found[name] = value.strip()
    return found


def _split(text: str) -> Iterator[str]:
    part, depth, quoted = "", 0, False
    for letter in text:
        quoted ^= letter == '"'
        depth += (letter in "[{") - (letter in "]}")
        if letter == "," and depth <= 0 and not quoted:
            yield part
            part = ""
        else:
            part += letter
    if part.strip():
        yield part


def fork_search(search: Search, stream: str, offset: int, changes: Mapping[str, Any]) -> Fork:
    """Returns the command of a search that continues a recorded one, with some fields changed.

    `max_trials` counts the ended trials too. Trials that ended with a value, and results that were imported,
    are its past; those that had not ended are its first trials. The seed is that of the new stream unless it
    is set. Raises BadScenarioError.
    """
    ended = [trial for trial in search.trials if trial.ended_at >= 0]
    unfinished = [trial.parameters for trial in search.trials if trial.ended_at < 0]
    spec = _with_changes(plain_spec(search) | {"seed": None}, changes)
    total = spec["max_trials"]
    if isinstance(total, int):
        if total <= len(ended):
            raise BadScenarioError(
                f"{len(ended)} trials of {stream} had ended, and max_trials is {total}: nothing is left; "
                f"use --set max_trials={2 * len(ended)}"
            )
        spec["max_trials"] = total - len(ended)
    if len(unfinished) > MAX_UNFINISHED:
        raise BadScenarioError(f"{len(unfinished)} trials had not ended, the limit is {MAX_UNFINISHED}")
    results = [(past.parameters, past.value) for past in search.imported]
    results += [
        (trial.parameters, trial.value)
        for trial in ended
        if trial.status is TrialStatus.SUCCEEDED
        and trial.value is not None
        and math.isfinite(trial.value)
        and not trial.hidden
    ]
    past = _within_space(spec, results)
    origin = {"kind": "fork", "stream": stream, "offset": offset}
    command = command_of(
        StartSearch.wire_type(), spec | {"origin": origin, "past": past, "first": unfinished}, [StartSearch]
    )
    if isinstance(command, Problem):
        raise BadScenarioError(f"{command.path}: {command.message}")
    assert isinstance(command, StartSearch)
    return Fork(command, len(ended), len(command.past), len(unfinished))


def _with_changes(spec: dict[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Sets fields by their dotted names; another tuner or assessor starts without options."""
    for name in _WITH_OPTIONS:
        if f"{name}.name" in changes:
            spec[name] = {"name": changes[f"{name}.name"], "options": {}}
    for name, value in changes.items():
        *path, last = name.split(".")
        within: Any = spec
        for step in path:
            if not isinstance(within, dict) or not isinstance(within.get(step), dict | None):
                raise BadScenarioError(f"{name}: the search has no {step!r} with fields to set")
            if within.get(step) is None:
                within[step] = {}
            within = within[step]
        within[last] = value
    return spec


def _within_space(
    spec: Mapping[str, Any], results: Sequence[tuple[dict[str, Any], float]]
) -> list[dict[str, Any]]:
    """Drops results outside the space; an invalid space is reported by the command's own check."""
    try:
        axes = axes_of(spec["space"])
    except (ValueError, TypeError, LookupError, AttributeError):
        return []
    return [{"parameters": p, "value": value} for p, value in results if not parameters_faults(axes, p)]
