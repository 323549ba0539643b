"""A search's history as its tuner receives it, computed from the state alone: pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from trackside.aggregates.search.messages import TrialStatus
from trackside.aggregates.search.state import Search, Trial
from trackside.aggregates.search.trials.objectives import numbers
from trackside.aggregates.search.trials.promotion import promotes

SuggestedItem = tuple[Literal["suggested"], int, Mapping[str, Any]]
EndedItem = tuple[Literal["ended"], int, str, float | list[float] | None, Sequence[tuple[int, float]]]
ImportedItem = tuple[Literal["imported"], Mapping[str, Any], float]
HistoryItem = SuggestedItem | EndedItem | ImportedItem

_STATES = {TrialStatus.SUCCEEDED: "complete", TrialStatus.EARLY_STOPPED: "pruned"}


@dataclass(slots=True)
class TunerHistory:
    """The history that the suggestion of each trial may depend on: append-only, the same after any restart.

    For trial n it has the parameters of all trials before n, and the ends and imported results that the log
    had when the slot of n opened, in the log's order. The end of a trial that is hidden from the tuner is
    reported as failed.
    """

    with_ends: bool = True
    """Whether the tuner receives how trials ended: not if it does not learn from that."""
    items: list[HistoryItem] = field(default_factory=list)
    suggested: int = 0
    ended: int = 0
    imported: int = 0

    def until(self, search: Search, number: int) -> list[HistoryItem]:
        """Extends the history to what trial `number` may depend on, and returns it."""
        self._add_trials(search, number)
        self._add_results(search, search.opened[number])
        return self.items

    def before(self, search: Search, number: int) -> list[HistoryItem]:
        """Extends the history to what trial `number` would depend on if its slot opened now, without ends."""
        assert not self.with_ends
        self._add_trials(search, number)
        self._add_imports(search, search.changed_at)
        return self.items

    def _add_trials(self, search: Search, number: int) -> None:
        while self.suggested < number:
            trial = search.trials[self.suggested]
            self._add_results(search, search.opened[self.suggested])
            self.items.append(("suggested", trial.number, _suggestion(search, trial)))
            self.suggested += 1

    def _add_results(self, search: Search, offset: int) -> None:
        assessor = search.spec.assessor
        counts = assessor is not None and assessor.count_last_value
        while self.with_ends and self.ended < len(search.ends):
            trial = search.trials[search.ends[self.ended]]
            if trial.ended_at > offset:
                break
            self._add_imports(search, trial.ended_at)
            hidden: EndedItem = ("ended", trial.number, "failed", None, [])
            self.items.append(hidden if trial.hidden else ended_item(trial, counts))
            self.ended += 1
        self._add_imports(search, offset)

    def _add_imports(self, search: Search, offset: int) -> None:
        while self.imported < len(search.imported) and search.imported[self.imported].at <= offset:
            past = search.imported[self.imported]
            self.items.append(("imported", past.parameters, past.value))
            self.imported += 1


def _suggestion(search: Search, trial: Trial) -> Mapping[str, Any]:
    """Returns what the tuner has suggested: the parameters, and of one that promotes how a trial starts."""
    if not promotes(search.spec):
        return trial.parameters
    return {
        "parameters": trial.parameters,
        "from_trial": trial.from_trial,
        "step_limit": trial.step_limit,
        "own": trial.source == "algorithm",
    }


def without_starts(history: Sequence[HistoryItem]) -> list[HistoryItem]:
    """Returns the history of a tuner that promotes as any other tuner receives it."""
    return [
        ("suggested", item[1], item[2]["parameters"]) if item[0] == "suggested" else item for item in history
    ]


def ended_item(trial: Trial, counts_last_value: bool = False) -> EndedItem:
    """Returns the item of a trial's end: complete with a value, pruned with its last report, or failed.

    A trial with several objectives is complete with all values, or failed: a value that is not finite teaches
    nothing. One that was stopped early is complete if its last value counts, and it has one.
    """
    if len(trial.values) > 1:
        several = numbers(trial.values) if trial.status is TrialStatus.SUCCEEDED else None
        return ("ended", trial.number, "failed" if several is None else "complete", several, [])
    state = _STATES.get(trial.status or TrialStatus.FAILED, "failed")
    if state == "pruned" and counts_last_value and trial.value is not None:
        state = "complete"
    if state == "complete" and trial.value is None:
        state = "failed"
    return ("ended", trial.number, state, trial.value, trial.last_report())
