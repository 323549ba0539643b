"""What tuners that promote share: the trials of a search, which of them goes on, and with how many steps."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from trackside.dispatcher.tuners.promotion.configurations import Configurations
from trackside.dispatcher.tuners.tuner import EndState, TrialValue, TunerWaits


@dataclass(slots=True)
class PromotableTrial:
    """A trial: which one it continues, and the step that it goes up to.

    One that a user added, or that chance drew, is not the tuner's `own`: it teaches the tuner, and no other
    trial continues it. `value` is its result, larger is better; None before its end and for one that failed.
    """

    number: int
    parameters: Mapping[str, Any]
    from_trial: int | None
    step_limit: int
    own: bool = True
    ended: bool = False
    value: float | None = None

    @property
    def rank(self) -> tuple[float, int]:
        """The best comes first; of equal ones, the earlier."""
        return (-(self.value or 0.0), self.number)


@dataclass(frozen=True, slots=True)
class NextTrial:
    """How the next trial begins: `from_trial` goes on with more steps, or a new configuration with some."""

    from_trial: PromotableTrial | None
    step_limit: int


class PromotionRule(Protocol):
    """Decides which trial goes on, from the trials and ends that it is told in the order of the log."""

    def next(self, may_begin: bool) -> NextTrial | None:
        """Returns how the next trial begins; None if it depends on trials that run.

        Unless it `may_begin` a new configuration, as there are none left, it only promotes.
        """
        ...

    def add(self, trial: PromotableTrial) -> None:
        """Adds a trial that the tuner has suggested."""
        ...

    def remove(self, trial: PromotableTrial) -> None:
        """Removes the newest trial, which the log has otherwise."""
        ...

    def end(self, trial: PromotableTrial) -> None:
        """Takes in the end of a trial."""
        ...


class PromotingTuner:
    """A tuner with a rule of promotion; a suggestion is a pure function of seed and history."""

    def __init__(
        self, rule: PromotionRule, configurations: Configurations, maximize: bool, largest: int
    ) -> None:
        self._rule = rule
        self._configurations = configurations
        self._sign = 1.0 if maximize else -1.0
        self._largest = largest
        self._trials: list[PromotableTrial] = []
        self._running = 0

    def ask(self, number: int) -> dict[str, Any] | None:
        """Suggests trial `number` as {parameters, from_trial, step_limit}, or None if nothing is left to try.

        Raises ValueError if a trial before it is unknown, and TunerWaits if it depends on trials that run.
        """
        self._configurations.tried.check_asked(number)
        found = self._rule.next(may_begin=True)
        parameters: Mapping[str, Any] | None = None
        if found is not None:
            parent = found.from_trial
            parameters = self._configurations.draw(number) if parent is None else parent.parameters
            if parameters is None and (found := self._rule.next(may_begin=False)) is not None:
                assert found.from_trial is not None
                parameters = found.from_trial.parameters
        if found is None or parameters is None:
            if self._running:
                raise TunerWaits
            return None
        before = None if found.from_trial is None else found.from_trial.number
        suggestion = {"parameters": dict(parameters), "from_trial": before, "step_limit": found.step_limit}
        self.restore(number, suggestion)
        return suggestion

    def restore(self, number: int, suggestion: Mapping[str, Any]) -> None:
        """Adds a trial from the log, in the form in which it is suggested; `own` is false for other sources.

        Raises ValueError for a gap in the numbers.
        """
        tried = self._configurations.tried
        tried.check_restored(number)
        parameters = suggestion["parameters"]
        limit = suggestion.get("step_limit")
        trial = PromotableTrial(
            number,
            parameters,
            suggestion.get("from_trial"),
            self._largest if limit is None else limit,
            suggestion.get("own", True),
        )
        if number < len(self._trials):
            before = self._trials[number]
            if before == trial:
                return
            if before.own:
                self._rule.remove(before)
            self._trials[number] = trial
        else:
            self._trials.append(trial)
            self._running += 1
        tried.put(number, parameters)
        if trial.own:
            self._rule.add(trial)

    def tell(
        self,
        number: int,
        state: EndState,
        value: TrialValue = None,
        intermediates: Iterable[tuple[int, float]] = (),
    ) -> None:
        """Records the end of a trial; one that failed, or was stopped early, is not promoted."""
        if number >= len(self._trials) or self._trials[number].ended:
            return
        trial = self._trials[number]
        trial.ended = True
        self._running -= 1
        fits = self._configurations.tried.encoded[number] is not None
        if state == "complete" and isinstance(value, int | float) and fits:
            trial.value = self._sign * float(value)
            self._configurations.learn(trial.parameters, trial.step_limit, float(value))
        if trial.own:
            self._rule.end(trial)

    def add_result(self, parameters: Mapping[str, Any], value: float) -> None:
        """Adds an imported result, as one with the largest budget; no trial goes on from it."""
        if self._configurations.tried.add(parameters) is not None:
            self._configurations.learn(parameters, self._largest, value)
