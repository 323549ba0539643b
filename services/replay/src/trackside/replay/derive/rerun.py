"""Reruns the trials of a recorded search as a new one, and compares two searches. Pure."""

import math
from dataclasses import dataclass
from typing import Any

from trackside.aggregates.search.messages import Origin, SearchSpec, StartSearch, TrialStatus
from trackside.aggregates.search.state import Search, Trial
from trackside.aggregates.search.trials.promotion import budget_parameter, promotes
from trackside.replay.history.errors import BadScenarioError, NotRecordedError

MAX_TRIALS = 10_000
_ENDS_A_SEARCH = ("max_duration_s", "goal")


def plain_spec(search: Search) -> dict[str, Any]:
    """Returns the definition of a search as JSON, without limits that would end it before its last trial."""
    spec = search.spec.model_dump(mode="json", include=set(SearchSpec.model_fields))
    return {name: value for name, value in spec.items() if name not in _ENDS_A_SEARCH}


def refuse_promotion(search: Search, stream: str, instead: str) -> None:
    """Raises BadScenarioError for a search whose trials continue others, with what to do `instead`."""
    if promotes(search.spec):
        raise BadScenarioError(
            f"trials of {stream} continue checkpoints of others, up to the step that tuner "
            f"{search.spec.tuner.name} gave each: {instead}"
        )


def rerun_command(search: Search, stream: str, offset: int, *, with_assessor: bool = True) -> StartSearch:
    """Returns the command of a search with the same trials: parameters, order, seed, concurrency.

    No tuner is asked: the trials are a fixed list. A trial that continued another one continues the new one
    of that number, up to the same step. Without `with_assessor` every trial runs to its end. Raises
    NotRecordedError if there are no trials, BadScenarioError if there are too many.
    """
    if not search.trials:
        raise NotRecordedError(f"{stream} had no trials yet; there is nothing to run again")
    if len(search.trials) > MAX_TRIALS:
        raise BadScenarioError(f"{stream} has {len(search.trials):,} trials, the limit is {MAX_TRIALS:,}")
    changed = {
        "tuner": {"name": "batch", "options": _listed(search)},
        "max_trials": len(search.trials),
        "seed": search.seed,
        "origin": Origin(kind="rerun", stream=stream, offset=offset).model_dump(mode="json"),
    }
    spec = plain_spec(search) | changed
    return StartSearch.model_validate(spec if with_assessor else spec | {"assessor": None})


def _listed(search: Search) -> dict[str, Any]:
    """Returns the options of a `batch` that has the trials of a search."""
    options: dict[str, Any] = {"sets": [trial.parameters for trial in search.trials], "repeats": True}
    if promotes(search.spec):
        options["starts"] = [
            {"from_trial": trial.from_trial, "step_limit": trial.step_limit} for trial in search.trials
        ]
        if name := budget_parameter(search.spec):
            options["budget_parameter"] = name
    return options


@dataclass(frozen=True, slots=True)
class TrialPair:
    """One trial of two searches; `difference` is new minus old, if both have a value."""

    number: int
    old: Trial | None
    new: Trial | None

    @property
    def same_parameters(self) -> bool:
        """Returns whether both have the trial, with the same parameters."""
        return self.old is not None and self.new is not None and self.old.parameters == self.new.parameters

    @property
    def difference(self) -> float | None:
        """New minus old, None if one of them has no value."""
        old, new = _value(self.old), _value(self.new)
        return None if old is None or new is None else new - old

    @property
    def comparable(self) -> bool:
        """Returns whether both have the trial, with the same parameters, status and number of reports."""
        if self.old is None or self.new is None:
            return False
        progress = [(trial.status, len(trial.reports)) for trial in (self.old, self.new)]
        return self.same_parameters and progress[0] == progress[1]

    @property
    def steps(self) -> list[float]:
        """New minus old at each step that both reported with a value, in the order of steps."""
        if self.old is None or self.new is None or not self.same_parameters:
            return []
        old, new = _reported(self.old), _reported(self.new)
        return [new[step] - old[step] for step in sorted(old.keys() & new.keys())]

    def as_json(self) -> dict[str, Any]:
        """Returns the JSON form."""
        steps = self.steps
        return {
            "trial": self.number,
            "same_parameters": self.same_parameters,
            "alike": self.comparable,
            "difference": self.difference,
            "steps_compared": len(steps),
            "largest_difference_of_a_step": max(steps, key=abs) if steps else None,
            "old": _trial(self.old),
            "new": _trial(self.new),
        }


@dataclass(frozen=True, slots=True)
class SearchComparison:
    """Two searches, trial by trial."""

    old: Search
    new: Search
    pairs: tuple[TrialPair, ...]

    @property
    def differences(self) -> list[float]:
        """The differences of the comparable trials that have values."""
        same = [pair.difference for pair in self.pairs if pair.comparable]
        return [difference for difference in same if difference is not None]

    @property
    def steps(self) -> list[float]:
        """The differences at all steps that both reported of the same trials."""
        return [difference for pair in self.pairs for difference in pair.steps]

    def as_json(self) -> dict[str, Any]:
        """Returns the JSON form."""
        differences, steps = self.differences, self.steps
        return {
            "old": _search(self.old),
            "new": _search(self.new),
            "same_parameters": sum(pair.same_parameters for pair in self.pairs),
            "compared": len(differences),
            "mean_difference": math.fsum(differences) / len(differences) if differences else None,
            "largest_difference": max(differences, key=abs) if differences else None,
            "steps_compared": len(steps),
            "largest_difference_of_a_step": max(steps, key=abs) if steps else None,
            "trials": [pair.as_json() for pair in self.pairs],
        }


def compare_searches(old: Search, new: Search) -> SearchComparison:
    """Compares two searches, trial n with trial n."""
    longest = max(len(old.trials), len(new.trials))
    pairs = (TrialPair(number, _at(old, number), _at(new, number)) for number in range(longest))
    return SearchComparison(old, new, tuple(pairs))


def _at(search: Search, number: int) -> Trial | None:
    return search.trials[number] if number < len(search.trials) else None


def _value(trial: Trial | None) -> float | None:
    return None if trial is None or trial.value is None or not math.isfinite(trial.value) else trial.value


def _reported(trial: Trial) -> dict[int, float]:
    """Returns the finite values that a trial reported, by step; the last one of a step."""
    return {step: value for step, value in trial.reports if value is not None and math.isfinite(value)}


def status_of(trial: Trial | None) -> str | None:
    """Returns a trial's status, `open` while it has not ended."""
    if trial is None:
        return None
    return "open" if trial.status is None else trial.status.value


def _trial(trial: Trial | None) -> dict[str, Any] | None:
    if trial is None:
        return None
    return {
        "status": status_of(trial),
        "value": trial.value,
        "parameters": trial.parameters,
        "reports": [list(report) for report in trial.reports],
    }


def _search(search: Search) -> dict[str, Any]:
    best = None if search.best is None else search.trials[search.best]
    return {
        "stream": search.search_id,
        "status": search.status.value,
        "trials": len(search.trials),
        "succeeded": sum(trial.status is TrialStatus.SUCCEEDED for trial in search.trials),
        "best_trial": None if best is None else best.number,
        "best_value": None if best is None else best.value,
        "duration_s": (search.ended_ms - search.started_ms) / 1000 if search.ended_ms else None,
    }
