"""What a tuner remembers of a search, whatever the tuner is: which parameters are known already."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, Protocol

from trackside.dispatcher.tuners.axes import Axes, NotInSpaceError, inner, point, size

TrialValue = float | Sequence[float] | None
"""What a trial is judged by: a number, or those of several objectives."""
EndState = Literal["complete", "pruned", "failed"]
ParameterKey = tuple[Any, ...]


class TunerWaits(Exception):
    """A tuner can't suggest a trial until another one has ended."""


def suggestion_seed(search_seed: int, number: int, redraw: int = 0) -> int:
    """Gives the 32-bit seed of trial `number`: the first 4 bytes, big-endian, of BLAKE2b("seed/number").

    A redraw, because the draw before gave a point that is known already, has "seed/number/redraw".
    """
    text = f"{search_seed}/{number}/{redraw}" if redraw else f"{search_seed}/{number}"
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=4).digest(), "big")


class AskTellTuner(Protocol):
    """What a tuner knows of a search. After an exception it is spent: build a new one from the history."""

    def ask(self, number: int) -> dict[str, Any] | None:
        """Suggests the parameters of trial `number`, or None when there are none that were not suggested yet.

        The trial is part of the history from then on. Raises ValueError if a trial before it is unknown, and
        TunerWaits, after which the memory is as it was, if the tuner waits for the end of another.
        """
        ...

    def recall(self, number: int, parameters: Mapping[str, Any]) -> None:
        """Takes in a trial that the log says was suggested, exactly as if it had been asked here.

        Parameters that won over the ones asked here replace them; those that are none of the space are no
        lesson for the tuner. Raises ValueError for a gap in the numbers.
        """
        ...

    def tell(
        self,
        number: int,
        state: EndState,
        value: TrialValue = None,
        intermediates: Iterable[tuple[int, float]] = (),
    ) -> None:
        """Takes in the end of a trial; a second end of it, or of an unknown trial, changes nothing."""
        ...

    def learn(self, parameters: Mapping[str, Any], value: float) -> None:
        """Takes in a result from elsewhere; parameters that are none of the space are no lesson."""
        ...


class TriedParameters:
    """The parameters of all trials so far, in the order of their numbers, as the axes have them."""

    def __init__(self, axes: Axes) -> None:
        self._axes = axes
        self._size = size(axes)
        self.inner: list[dict[str, Any] | None] = []
        self._keys: list[ParameterKey | None] = []
        self._seen: Counter[ParameterKey] = Counter()

    def __len__(self) -> int:
        return len(self.inner)

    def check_asked(self, number: int) -> None:
        """Raises ValueError unless `number` is the first trial that isn't known."""
        if number != len(self):
            raise self._gap("asked for", number)

    def check_recalled(self, number: int) -> None:
        """Raises ValueError unless the trials before `number` are known; it may be known itself."""
        if number > len(self):
            raise self._gap("recalled", number)

    def _gap(self, what: str, number: int) -> ValueError:
        return ValueError(f"{what} trial {number} with {len(self)} trials known; recall those between")

    def key(self, parameters: Mapping[str, Any]) -> ParameterKey | None:
        """Gives what equal sets of parameters have in common; None for one that the space doesn't have."""
        try:
            return tuple(inner(self._axes, parameters).values())
        except NotInSpaceError:
            return None

    def has(self, parameters: Mapping[str, Any]) -> bool:
        """Says whether a trial so far has these parameters."""
        return self._seen[key] > 0 if (key := self.key(parameters)) is not None else False

    def put(self, number: int, parameters: Mapping[str, Any]) -> dict[str, Any] | None:
        """Keeps the parameters of a trial, instead of any it had; gives them as the axes have them."""
        try:
            found = inner(self._axes, parameters)
        except NotInSpaceError:
            found = None
        key = None if found is None else tuple(found.values())
        if number == len(self.inner):
            self.inner.append(found)
            self._keys.append(key)
        else:
            before = self._keys[number]
            if before is not None:
                self._seen[before] -= 1
            self.inner[number], self._keys[number] = found, key
        if key is not None:
            self._seen[key] += 1
        return found

    def learn(self, parameters: Mapping[str, Any]) -> dict[str, Any] | None:
        """Counts parameters from elsewhere as known; gives them as the axes have them, None if they don't."""
        try:
            found = inner(self._axes, parameters)
        except NotInSpaceError:
            return None
        self._seen[tuple(found.values())] += 1
        return found

    def unseen(self, start: int) -> dict[str, Any] | None:
        """Gives the first point that no trial has, from the point `start` of a finite space on, or None.

        Walks over no more points than there are trials. An infinite space gives None.
        """
        for step in range(min(self._size or 0, len(self) + 1)):
            found = point(self._axes, (start + step) % (self._size or 1))
            if not self.has(found):
                return found
        return None
