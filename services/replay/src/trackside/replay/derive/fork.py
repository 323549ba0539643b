"""Forks a recorded search: a new search that continues from its results. Pure."""

import json
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from trackside.aggregates.search.messages import StartSearch, TrialStatus
from trackside.aggregates.search.space.axes import Axes, axes_of, parameters_faults
from trackside.aggregates.search.state import Search, Trial
from trackside.contracts.envelope.refusals import Problem
from trackside.contracts.wire.codec import command_of
from trackside.replay.derive.rerun import plain_spec, refuse_promotion
from trackside.replay.history.errors import BadScenarioError

MAX_UNFINISHED = 200
LISTED = 10
"""How many trials are listed of those that are left out for one reason."""
_NOT_TO_SET = frozenset({"origin", "past", "first"})
_WITH_OPTIONS = ("tuner", "assessor")
_REASONS = {
    TrialStatus.EARLY_STOPPED: "stopped early, so without a final value",
    TrialStatus.USER_CANCELED: "stopped by a user",
    TrialStatus.SYS_CANCELED: "ended with the search",
}


@dataclass(frozen=True, slots=True)
class Fork:
    """The command of a fork, and what it takes over.

    `ended` trials are not repeated; `imported` results are given to its tuner. `unfinished` trials had not
    ended, and are its first ones. `left_out` are reasons, each with the trials that it holds for, with None
    for an imported result.
    """

    command: StartSearch
    ended: int
    imported: int
    unfinished: int
    left_out: Mapping[str, Sequence[int | None]] = field(default_factory=dict)

    @property
    def left_out_lines(self) -> list[str]:
        """Returns a line for each reason, with the numbers of the first trials."""
        return [f"left out: {_listed(trials)}: {reason}" for reason, trials in self.left_out.items()]


def parse_changes(texts: Sequence[str], not_to_set: Collection[str] = _NOT_TO_SET) -> dict[str, Any]:
    """Parses `max_trials=40,tuner.name=gp`, once or several times; raises BadScenarioError.

    A value is JSON where it is, else text. A comma within brackets or quotes separates nothing. Fields of
    `not_to_set` are refused.
    """
    found: dict[str, Any] = {}
    for text in texts:
        for part in _split(text):
            name, equals, value = part.partition("=")
            name = name.strip()
            if not equals or not name:
                raise BadScenarioError(f"{part!r} sets nothing: expected NAME=VALUE, such as max_trials=40")
            if name.partition(".")[0] in not_to_set:
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
    refuse_promotion(
        search,
        stream,
        "the tuner of a fork would know their results, but not what was still to be promoted; run the trials "
        f"again with `trackside replay rerun {stream}`, or submit the spec with seed {search.seed} and more "
        "max_trials as a new search",
    )
    ended = [trial for trial in search.trials if trial.ended_at >= 0]
    open_trials = [trial for trial in search.trials if trial.ended_at < 0]
    spec = _with_changes(plain_spec(search) | {"seed": None}, changes)
    total = spec["max_trials"]
    if isinstance(total, int):
        if total <= len(ended):
            raise BadScenarioError(
                f"{len(ended)} trials of {stream} had ended, and max_trials is {total}: nothing is left; "
                f"use --set max_trials={2 * len(ended)}"
            )
        spec["max_trials"] = total - len(ended)
    if len(open_trials) > MAX_UNFINISHED:
        raise BadScenarioError(f"{len(open_trials)} trials had not ended, the limit is {MAX_UNFINISHED}")
    left_out: dict[str, list[int | None]] = {}
    axes = _axes(spec)
    past: list[dict[str, Any]] = []
    results = [(None, each.parameters, each.value, "") for each in search.imported]
    for number, parameters, value, reason in [*results, *map(_result, ended)]:
        reason = reason or _outside(axes, parameters)
        if reason:
            left_out.setdefault(reason, []).append(number)
        else:
            past.append({"parameters": parameters, "value": value})
    first: list[dict[str, Any]] = []
    for trial in open_trials:
        # What a user wanted to try outside of the space is tried; what another space had is not.
        reason = "" if trial.outside else _outside(axes, trial.parameters)
        if reason:
            left_out.setdefault(f"it had not ended, and is {reason}", []).append(trial.number)
        else:
            first.append(trial.parameters)
    origin = {"kind": "fork", "stream": stream, "offset": offset}
    outside = any(trial.outside for trial in open_trials)
    more = {"origin": origin, "past": past, "first": first, "first_outside": outside}
    command = command_of(StartSearch.wire_type(), spec | more, [StartSearch])
    if isinstance(command, Problem):
        raise BadScenarioError(f"{command.path}: {command.message}")
    assert isinstance(command, StartSearch)
    return Fork(command, len(ended), len(command.past), len(first), left_out)


def _result(trial: Trial) -> tuple[int | None, dict[str, Any], float | None, str]:
    """Returns the number, parameters and value of a trial, and why it is no result; empty if it is one."""
    reason = ""
    if trial.hidden:
        reason = "added by a user, and hidden from the tuner"
    elif trial.status is not TrialStatus.SUCCEEDED:
        reason = _REASONS.get(trial.status or TrialStatus.FAILED, "failed")
    elif trial.value is None or not math.isfinite(trial.value):
        reason = f"its value is not a finite number: {trial.non_finite or 'none'}"
    return trial.number, trial.parameters, trial.value, reason


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


def _axes(spec: Mapping[str, Any]) -> Axes | None:
    """Returns the axes of a space; None for an invalid one, which the command's own check reports."""
    try:
        return axes_of(spec["space"])
    except (ValueError, TypeError, LookupError, AttributeError):
        return None


def _outside(axes: Axes | None, parameters: Mapping[str, Any]) -> str:
    """Returns why parameters are not in the space; empty if they are."""
    faults = [] if axes is None else parameters_faults(axes, parameters)
    return f"not in the space: {', '.join(path.removeprefix('$.') for path, _ in faults)}" if faults else ""


def _listed(trials: Sequence[int | None]) -> str:
    numbers = [str(number) for number in trials if number is not None]
    shown = ", ".join(numbers[:LISTED]) + (
        f" and {len(numbers) - LISTED} more" if len(numbers) > LISTED else ""
    )
    imported = len(trials) - len(numbers)
    named = [f"trial{'s' if len(numbers) > 1 else ''} {shown}"] if numbers else []
    return " and ".join([*named, *([f"{imported} imported"] if imported else [])])
