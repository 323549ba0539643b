"""The interface of all tuners, and what they share: the parameters of all trials so far."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, Protocol

from trackside.aggregates.search.space.axes import Axes, NotInSpaceError, encode, point_at, size

TrialValue = float | Sequence[float] | None
"""The objective value of a trial: a number, or one for each of several objectives."""
EndState = Literal["complete", "pruned", "failed"]
ParameterKey = tuple[Any, ...]


class TunerWaits(Exception):
    """A tuner can't suggest a trial until another one has ended."""


def suggestion_seed(search_seed: int, number: int, redraw: int = 0) -> int:
    """Returns the 32-bit seed of trial `number`: BLAKE2b("seed/number") with a digest of 4 bytes, big-endian.

    A redraw, after the first draw gave parameters that another trial has, has "seed/number/redraw".
    """
    text = f"{search_seed}/{number}/{redraw}" if redraw else f"{search_seed}/{number}"
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=4).digest(), "big")


class AskTellTuner(Protocol):
    """A tuner for one search, as Optuna's ask-and-tell interface.

    After an exception its state is undefined: create a new one from the history.
    """

    def ask(self, number: int) -> dict[str, Any] | None:
        """Suggests the parameters of trial `number`, or None when all have been suggested.

        The trial is part of the history from then on. Raises ValueError if a trial before it is unknown, and
        TunerWaits, which leaves the state as it was, if the tuner waits for the end of another trial.
        """
        ...

    def restore(self, number: int, parameters: Mapping[str, Any]) -> None:
        """Adds a trial from the log, exactly as if it had been asked here.

        Its parameters replace those of a trial of the same number that was asked here. Parameters that are
        not in the space teach the tuner nothing. Raises ValueError for a gap in the numbers.
        """
        ...

    def tell(
        self,
        number: int,
        state: EndState,
        value: TrialValue = None,
        intermediates: Iterable[tuple[int, float]] = (),
    ) -> None:
        """Records the end of a trial; a second end of it, or of an unknown trial, changes nothing."""
        ...

    def add_result(self, parameters: Mapping[str, Any], value: float) -> None:
        """Adds an imported result; parameters that are not in the space teach the tuner nothing."""
        ...


class TriedParameters:
    """The parameters of all trials so far, in the order of their numbers, encoded by the axes."""

    def __init__(self, axes: Axes) -> None:
        self._axes = axes
        self._size = size(axes)
        self.encoded: list[dict[str, Any] | None] = []
        self._keys: list[ParameterKey | None] = []
        self._counts: Counter[ParameterKey] = Counter()

    def __len__(self) -> int:
        return len(self.encoded)

    def check_asked(self, number: int) -> None:
        """Raises ValueError unless `number` is the first unknown trial."""
        if number != len(self):
            raise self._gap("asked for", number)

    def check_restored(self, number: int) -> None:
        """Raises ValueError unless the trials before `number` are known; it may be known too."""
        if number > len(self):
            raise self._gap("restored", number)

    def _gap(self, what: str, number: int) -> ValueError:
        return ValueError(f"{what} trial {number} with {len(self)} trials known; restore those between")

    def _key(self, parameters: Mapping[str, Any]) -> ParameterKey | None:
        """Returns a key that is the same for equal parameters; None for those that are not in the space."""
        try:
            return tuple(encode(self._axes, parameters).values())
        except NotInSpaceError:
            return None

    def has(self, parameters: Mapping[str, Any]) -> bool:
        """Returns whether a trial so far has these parameters."""
        return self._counts[key] > 0 if (key := self._key(parameters)) is not None else False

    def put(self, number: int, parameters: Mapping[str, Any]) -> dict[str, Any] | None:
        """Sets the parameters of a trial; returns them encoded, None if they are not in the space."""
        try:
            encoded = encode(self._axes, parameters)
        except NotInSpaceError:
            encoded = None
        key = None if encoded is None else tuple(encoded.values())
        if number == len(self.encoded):
            self.encoded.append(encoded)
            self._keys.append(key)
        else:
            before = self._keys[number]
            if before is not None:
                self._counts[before] -= 1
            self.encoded[number], self._keys[number] = encoded, key
        if key is not None:
            self._counts[key] += 1
        return encoded

    def add(self, parameters: Mapping[str, Any]) -> dict[str, Any] | None:
        """Adds imported parameters; returns them encoded, None if they are not in the space."""
        try:
            encoded = encode(self._axes, parameters)
        except NotInSpaceError:
            return None
        self._counts[tuple(encoded.values())] += 1
        return encoded

    def first_untried(self, start: int) -> dict[str, Any] | None:
        """Returns the first point that no trial has, from point `start` of a finite space on, or None.

        Compares no more points than there are trials. Returns None for an infinite space.
        """
        for step in range(min(self._size or 0, len(self) + 1)):
            parameters = point_at(self._axes, (start + step) % (self._size or 1))
            if not self.has(parameters):
                return parameters
        return None
