"""A search's past as tuners and assessors are told it, taken from the state: pure."""

from dataclasses import dataclass, field

from trackside.contracts.searches import TrialStatus
from trackside.dispatcher.lanes import Ended, HistoryItem
from trackside.domain.search import Search, Trial
from trackside.domain.task import Task

_STATES = {TrialStatus.SUCCEEDED: "complete", TrialStatus.EARLY_STOPPED: "pruned"}


@dataclass(slots=True)
class TunerHistory:
    """The past as the suggestion of each trial may know it: it only grows, the same after any restart.

    Trial n is told the parameters of all trials before it, and the ends that the log had when its slot
    opened, in the log's order.
    """

    items: list[HistoryItem] = field(default_factory=list)
    suggested: int = 0
    told: int = 0

    def until(self, search: Search, number: int) -> list[HistoryItem]:
        """Extends the past to what trial `number` may know, and gives it."""
        while self.suggested < number:
            trial = search.trials[self.suggested]
            self._tell_ends(search, search.opened[self.suggested])
            self.items.append(("suggested", trial.number, trial.parameters))
            self.suggested += 1
        self._tell_ends(search, search.opened[number])
        return self.items

    def _tell_ends(self, search: Search, offset: int) -> None:
        while self.told < len(search.ends):
            trial = search.trials[search.ends[self.told]]
            if trial.ended_at > offset:
                return
            self.items.append(ended(trial))
            self.told += 1


def ended(trial: Trial) -> Ended:
    """Gives the item of a trial's end: complete with a value, pruned with its reports, or failed."""
    state = _STATES.get(trial.status or TrialStatus.FAILED, "failed")
    if state == "complete" and trial.value is None:
        state = "failed"
    reports = [(step, value) for step, value in trial.reports if value is not None]
    return ("ended", trial.number, state, trial.value, reports)


def reported_so_far(search: Search, tasks: dict[str, Task]) -> list[HistoryItem]:
    """Gives the past as an assessor is told it after a restart: every trial's reports, then its end."""
    items: list[HistoryItem] = []
    for trial in search.trials:
        task = tasks.get(f"{search.search_id}.{trial.number}")
        reports = trial.reports if trial.ended_at >= 0 or task is None else task.reports
        items += [("reported", trial.number, step, value) for step, value in reports]
        if trial.ended_at >= 0:
            items.append(ended(trial))
    return items
