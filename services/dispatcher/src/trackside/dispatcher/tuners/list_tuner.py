"""Tuners that have a list to go through: the points of a grid, or the parameter sets of a batch."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from trackside.dispatcher.tuners.axes import SpaceJson, axes_of, point, size
from trackside.dispatcher.tuners.tuner import EndState, TrialValue, TriedParameters, suggestion_seed


class ListTuner:
    """A list of parameter sets, and how far the trials have come in it; their values teach nothing."""

    def __init__(self, space: SpaceJson, listed: Iterable[Mapping[str, Any]]) -> None:
        self._listed: Iterator[Mapping[str, Any]] = iter(listed)
        self._known = TriedParameters(axes_of(space))
        self._next: Mapping[str, Any] | None = None

    def ask(self, number: int) -> dict[str, Any] | None:
        """Suggests the first of the list that no trial has, or None at its end.

        Raises ValueError if a trial before this one is unknown.
        """
        self._known.check_asked(number)
        while self._next is None or self._known.has(self._next):
            self._next = next(self._listed, None)
            if self._next is None:
                return None
        self._known.put(number, self._next)
        return dict(self._next)

    def recall(self, number: int, parameters: Mapping[str, Any]) -> None:
        """Takes in a trial that the log says was suggested; raises ValueError for a gap in the numbers."""
        self._known.check_recalled(number)
        self._known.put(number, parameters)

    def tell(
        self,
        number: int,
        state: EndState,
        value: TrialValue = None,
        intermediates: Iterable[tuple[int, float]] = (),
    ) -> None:
        """Learns nothing."""

    def learn(self, parameters: Mapping[str, Any], value: float) -> None:
        """Takes in that these parameters needn't be tried; the value teaches nothing."""
        self._known.learn(parameters)


class RepeatingListTuner(ListTuner):
    """A list of parameter sets of which trial n gets the one at place n, whether a trial had it or not."""

    def __init__(self, space: SpaceJson, sets: Sequence[Mapping[str, Any]]) -> None:
        super().__init__(space, ())
        self._sets = sets

    def ask(self, number: int) -> dict[str, Any] | None:
        """Suggests what is at the trial's place, or None behind the end."""
        if number >= len(self._sets):
            return None
        self.recall(number, self._sets[number])
        return dict(self._sets[number])


def grid_tuner(space: SpaceJson, seed: int) -> ListTuner:
    """Goes through all points of a finite space, in an order that the search's seed gives."""
    import numpy

    axes = axes_of(space)
    points = size(axes)
    if points is None:
        raise ValueError("a grid needs a space with an end of points")
    order = numpy.random.RandomState(suggestion_seed(seed, 0)).permutation(points)
    return ListTuner(space, (point(axes, int(index)) for index in order))


def batch_tuner(space: SpaceJson, options: Mapping[str, Any]) -> ListTuner:
    """Goes through the parameter sets that the option `sets` lists, in their order; with `repeats` all."""
    if options.get("repeats"):
        return RepeatingListTuner(space, options["sets"])
    return ListTuner(space, options["sets"])
