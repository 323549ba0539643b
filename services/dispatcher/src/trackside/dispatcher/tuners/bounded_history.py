"""Which ended trials a tuner with the option `history` learns from: the best and the latest ones. Pure."""

import math
from bisect import insort
from dataclasses import dataclass, field

MAX_BEST = 25
Rank = tuple[int, float, float, int]


def best_of(size: int) -> int:
    """Returns how many of the best trials count: as many as TPE takes for good (Optuna's `default_gamma`)."""
    return min(math.ceil(size / 10), MAX_BEST)


def rank_of_complete(trial: int, value: float, maximize: bool) -> Rank:
    """Returns the rank of a complete trial, smallest for the best; of equal values the older is better."""
    return (0, 0.0, -value if maximize else value, trial)


def rank_of_pruned(trial: int, last: tuple[int, float] | None, maximize: bool) -> Rank:
    """Returns the rank of a pruned trial by its last step and value: after complete ones, as TPE ranks it."""
    if last is None:
        return (2, 0.0, 0.0, trial)
    step, value = last
    if math.isnan(value):
        return (1, -step, math.inf, trial)
    return (1, -step, -value if maximize else value, trial)


@dataclass(slots=True)
class BoundedHistory:
    """The ended trials of a search, of which at most `size` count.

    What counts depends on the trials and their ends alone, not on the order in which they were added. Trials
    are numbers that increase; the latest ones have the highest.
    """

    size: int
    _best: list[Rank] = field(default_factory=list)
    _ended: list[int] = field(default_factory=list)

    def add(self, rank: Rank) -> None:
        """Adds an ended trial from which the tuner learns."""
        insort(self._ended, rank[-1])
        insort(self._best, rank)
        del self._best[best_of(self.size) :]

    def trials(self) -> list[int]:
        """Returns the trials that count, in increasing order; takes time that grows with `size` alone."""
        if len(self._ended) <= self.size:
            return list(self._ended)
        chosen = {rank[-1] for rank in self._best}
        for trial in reversed(self._ended):
            if len(chosen) == self.size:
                break
            chosen.add(trial)
        return sorted(chosen)
