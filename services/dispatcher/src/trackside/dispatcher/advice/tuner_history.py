"""A search's past as tuners and assessors are told it, taken from the state: pure."""

from dataclasses import dataclass, field

from trackside.contracts.searches import TrialStatus
from trackside.dispatcher.advice.advisor_process import EndedItem, HistoryItem
from trackside.domain.objectives import numbers
from trackside.domain.search import Search, Trial

_STATES = {TrialStatus.SUCCEEDED: "complete", TrialStatus.EARLY_STOPPED: "pruned"}


@dataclass(slots=True)
class TunerHistory:
    """The past as the suggestion of each trial may know it: it only grows, the same after any restart.

    Trial n is told the parameters of all trials before it, and the ends and imported results that the log had
    when its slot opened, in the log's order. The end of a trial that is not for the tuner is told as failed.
    """

    items: list[HistoryItem] = field(default_factory=list)
    suggested: int = 0
    told: int = 0
    imported: int = 0

    def until(self, search: Search, number: int) -> list[HistoryItem]:
        """Extends the past to what trial `number` may know, and gives it."""
        while self.suggested < number:
            trial = search.trials[self.suggested]
            self._tell(search, search.opened[self.suggested])
            self.items.append(("suggested", trial.number, trial.parameters))
            self.suggested += 1
        self._tell(search, search.opened[number])
        return self.items

    def _tell(self, search: Search, offset: int) -> None:
        assessor = search.spec.assessor
        counts = assessor is not None and assessor.count_last_value
        while self.told < len(search.ends):
            trial = search.trials[search.ends[self.told]]
            if trial.ended_at > offset:
                break
            self._tell_imports(search, trial.ended_at)
            hidden: EndedItem = ("ended", trial.number, "failed", None, [])
            self.items.append(hidden if trial.hidden else ended(trial, counts))
            self.told += 1
        self._tell_imports(search, offset)

    def _tell_imports(self, search: Search, offset: int) -> None:
        while self.imported < len(search.imported) and search.imported[self.imported].at <= offset:
            past = search.imported[self.imported]
            self.items.append(("imported", past.parameters, past.value))
            self.imported += 1


def ended(trial: Trial, counts_last_value: bool = False) -> EndedItem:
    """Gives the item of a trial's end: complete with a value, pruned with its reports, or failed.

    Of several objectives it has all values, or has failed: a value that isn't finite teaches nothing.

    One that was stopped early is complete if its last value counts, and it has one.
    """
    if len(trial.values) > 1:
        several = numbers(trial.values) if trial.status is TrialStatus.SUCCEEDED else None
        return ("ended", trial.number, "failed" if several is None else "complete", several, [])
    state = _STATES.get(trial.status or TrialStatus.FAILED, "failed")
    if state == "pruned" and counts_last_value and trial.value is not None:
        state = "complete"
    if state == "complete" and trial.value is None:
        state = "failed"
    reports = [(step, value) for step, value in trial.reports if value is not None]
    return ("ended", trial.number, state, trial.value, reports)
