"""Tuners that suggest the items of a list: the points of a grid, or the parameter sets of a batch."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from trackside.aggregates.search.space.axes import SpaceJson, axes_of, point_at, size
from trackside.dispatcher.tuners.tuner import (
    EndState,
    TrialValue,
    TriedParameters,
    TunerWaits,
    suggestion_seed,
)


class ListTuner:
    """Suggests the parameter sets of a list in turn, independent of the values of the trials."""

    def __init__(self, space: SpaceJson, sets: Iterable[Mapping[str, Any]]) -> None:
        self._remaining: Iterator[Mapping[str, Any]] = iter(sets)
        self._tried = TriedParameters(axes_of(space))
        self._next: Mapping[str, Any] | None = None

    def ask(self, number: int) -> dict[str, Any] | None:
        """Suggests the first of the list that no trial has, or None at its end.

        Raises ValueError if a trial before this one is unknown.
        """
        self._tried.check_asked(number)
        while self._next is None or self._tried.has(self._next):
            self._next = next(self._remaining, None)
            if self._next is None:
                return None
        self._tried.put(number, self._next)
        return dict(self._next)

    def restore(self, number: int, parameters: Mapping[str, Any]) -> None:
        """Adds a trial from the log; raises ValueError for a gap in the numbers."""
        self._tried.check_restored(number)
        self._tried.put(number, parameters)

    def tell(
        self,
        number: int,
        state: EndState,
        value: TrialValue = None,
        intermediates: Iterable[tuple[int, float]] = (),
    ) -> None:
        """Does nothing: values have no influence."""

    def add_result(self, parameters: Mapping[str, Any], value: float) -> None:
        """Leaves these parameters out of what is still suggested."""
        self._tried.add(parameters)


class RepeatingListTuner(ListTuner):
    """Suggests item n of a list for trial n, whether another trial has the same parameters or not."""

    def __init__(self, space: SpaceJson, sets: Sequence[Mapping[str, Any]]) -> None:
        super().__init__(space, ())
        self._sets = sets

    def ask(self, number: int) -> dict[str, Any] | None:
        """Suggests the item of the trial's number, or None after the end of the list."""
        if number >= len(self._sets):
            return None
        self.restore(number, self._sets[number])
        return dict(self._sets[number])


class ContinuingListTuner(RepeatingListTuner):
    """Suggests item n of a list for trial n, which continues the trial that its start names.

    So the trials of a recorded search that promotes are run again.
    """

    def __init__(
        self, space: SpaceJson, sets: Sequence[Mapping[str, Any]], starts: Sequence[Mapping[str, Any]]
    ) -> None:
        super().__init__(space, sets)
        self._starts = starts
        self._others: set[int] = set()
        self._ended: set[int] = set()

    def ask(self, number: int) -> dict[str, Any] | None:
        """Suggests {parameters, from_trial, step_limit}, or None after the end of the list.

        Raises TunerWaits while the trial that it continues runs. Where that is one of a user, it begins with
        the first step.
        """
        if number >= len(self._sets):
            return None
        start = self._starts[number]
        before = start.get("from_trial")
        if before in self._others:
            before = None
        elif before is not None and before not in self._ended:
            raise TunerWaits
        found = {
            "parameters": dict(self._sets[number]),
            "from_trial": before,
            "step_limit": start.get("step_limit"),
        }
        self.restore(number, found)
        return found

    def restore(self, number: int, parameters: Mapping[str, Any]) -> None:
        """Adds a trial from the log, as it is suggested; `own` is false for one of another source."""
        if not parameters.get("own", True):
            self._others.add(number)
        super().restore(number, parameters["parameters"])

    def tell(
        self,
        number: int,
        state: EndState,
        value: TrialValue = None,
        intermediates: Iterable[tuple[int, float]] = (),
    ) -> None:
        """Notes that a trial has ended: another one may continue it."""
        self._ended.add(number)


def grid_tuner(space: SpaceJson, seed: int) -> ListTuner:
    """Creates a tuner of all points of a finite space, in an order given by the search's seed."""
    import numpy

    axes = axes_of(space)
    points = size(axes)
    if points is None:
        raise ValueError("a grid needs a space with a finite number of points")
    order = numpy.random.RandomState(suggestion_seed(seed, 0)).permutation(points)
    return ListTuner(space, (point_at(axes, int(index)) for index in order))


def batch_tuner(space: SpaceJson, options: Mapping[str, Any]) -> ListTuner:
    """Creates a tuner of the parameter sets of the option `sets`; with `repeats` equal ones are kept.

    With `starts` too, trials continue the checkpoints of others.

    Without sets, the values of the space's one choice are tried in their order, as NNI's BatchTuner does.
    """
    axes = axes_of(space)
    sets = options.get("sets") or [point_at(axes, index) for index in range(size(axes) or 0)]
    if options.get("starts"):
        return ContinuingListTuner(space, sets, options["starts"])
    return RepeatingListTuner(space, sets) if options.get("repeats") else ListTuner(space, sets)
