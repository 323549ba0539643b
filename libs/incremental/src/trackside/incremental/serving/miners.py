"""Miners: which answers of a model are hard examples, worth labelling and training with.

A miner is a class that is made once for a service, with its parameters as keyword arguments, and called with
the scores of each answer:

    class Mine:
        def __init__(self, threshold=0.5): ...      # ValueError: parameters not valid
        def is_hard(self, scores) -> bool: ...

Those of Trackside have the names, parameters and defaults of Sedna. Installed packages add others by the
entry-point group `trackside.miners`. Scores that a miner of Trackside can't read are not hard.
"""

import math
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, Protocol

from trackside.aggregates.rounds.job.miner_names import BUILT_IN_MINERS
from trackside.contracts.fleet.plugins import find_entry_point

GROUP = "trackside.miners"
SCORE = 4
"""Where the score of a box is: after its left, top, right and bottom edge."""
TOLERANCE = 1e-9
"""Shares and means are compared with this tolerance, so that 3 of 10 boxes are a share of 1 - 0.7."""


class HardExampleMiner(Protocol):
    """The interface of a miner."""

    def is_hard(self, scores: Any) -> bool:
        """Returns whether the example whose answer has these scores is hard."""
        ...


class ThresholdMiner:
    """An example is hard if the mean score of its boxes is below `threshold`.

    Scores: a list of boxes `[left, top, right, bottom, score, ...]`.
    """

    def __init__(self, threshold: float | str = 0.5) -> None:
        self._threshold = _number("threshold", threshold)

    def is_hard(self, scores: Any) -> bool:
        """Returns whether the mean score is below the threshold; False without boxes."""
        found = _box_scores(scores)
        return bool(found) and sum(found) / len(found) < self._threshold - TOLERANCE


class CrossEntropyMiner:
    """An example is hard if the confidence of its probabilities is below `threshold_cross_entropy`.

    Scores: the probability of each class, each from 0 to 1. The confidence is 1 minus their entropy divided
    by that of the uniform distribution: 1 for a certain answer, 0 if all classes are as likely.
    """

    def __init__(self, threshold_cross_entropy: float | str = 0.5) -> None:
        self._threshold = _number("threshold_cross_entropy", threshold_cross_entropy)

    def is_hard(self, scores: Any) -> bool:
        """Returns whether the confidence is below the threshold; False for fewer than two classes."""
        found = _numbers(scores)
        if len(found) < 2 or not _are_probabilities(found):
            return False
        entropy = -sum(each * math.log(each) for each in found if each > 0)
        return 1 - entropy / math.log(len(found)) < self._threshold


class ImageBoxMiner:
    """An example is hard if the share of boxes with at most `threshold_box` is 1 - `threshold_img` or more.

    Scores: a list of boxes `[left, top, right, bottom, score, ...]`, each score from 0 to 1. Its name is IBT.
    """

    def __init__(self, threshold_img: float | str = 0.5, threshold_box: float | str = 0.5) -> None:
        self._threshold_img = _number("threshold_img", threshold_img)
        self._threshold_box = _number("threshold_box", threshold_box)

    def is_hard(self, scores: Any) -> bool:
        """Returns whether so many boxes have a low score; False without boxes."""
        found = _box_scores(scores)
        if not found or not _are_probabilities(found):
            return False
        low = sum(each <= self._threshold_box for each in found)
        return low / len(found) >= 1 - self._threshold_img - TOLERANCE


class RandomMiner:
    """The share `random_ratio` of examples is hard, at random; with the same `seed` the same ones again."""

    def __init__(self, random_ratio: float | str = 0.3, seed: int | str = 0) -> None:
        self._ratio = _number("random_ratio", random_ratio)
        self._random = Random(int(_number("seed", seed)))

    def is_hard(self, scores: Any) -> bool:
        """Returns the next random decision."""
        return self._random.uniform(0.0, 1.0) < self._ratio


class CloudOnlyMiner:
    """Every example is hard."""

    def is_hard(self, scores: Any) -> bool:
        """Returns True."""
        return True


class EdgeOnlyMiner:
    """No example is hard."""

    def is_hard(self, scores: Any) -> bool:
        """Returns False."""
        return False


class BertRouterMiner:
    """An example is hard if a small model is not expected to answer it well.

    Scores are those of a text classifier, which the service's `scores` calls on the input: a mapping, or a
    list of `{"label", "score"}`, with LABEL_0 (the small model is enough) and LABEL_1. The share of LABEL_0
    is compared with `threshold`.
    """

    def __init__(self, threshold: float | str = 0.5) -> None:
        self._threshold = _number("threshold", threshold)

    def is_hard(self, scores: Any) -> bool:
        """Returns whether the share of LABEL_0 is below the threshold; False without both labels."""
        enough, not_enough = _labels(scores)
        total = enough + not_enough
        return math.isfinite(total) and total > 0 and enough / total < self._threshold


_CLASSES: Mapping[str, type[HardExampleMiner]] = {
    "Threshold": ThresholdMiner,
    "CrossEntropy": CrossEntropyMiner,
    "IBT": ImageBoxMiner,
    "Random": RandomMiner,
    "CloudOnly": CloudOnlyMiner,
    "EdgeOnly": EdgeOnlyMiner,
    "BertRouter": BertRouterMiner,
}


def find_miner(name: str, parameters: Mapping[str, Any] | None = None) -> HardExampleMiner:
    """Returns a miner of Trackside, or of an installed package, made with its parameters.

    Raises ValueError for an unknown name, with those that are known, and for parameters it doesn't accept.
    """
    given = dict(parameters or {})
    kind = _CLASSES.get(name)
    if kind is None:
        kind = find_entry_point(GROUP, "miner", name, _CLASSES).load()
    elif unknown := sorted(set(given) - BUILT_IN_MINERS[name]):
        known = ", ".join(sorted(BUILT_IN_MINERS[name])) or "none"
        raise ValueError(f"miner {name} has no parameter {unknown[0]!r}; it has: {known}")
    try:
        return kind(**given)
    except (TypeError, ValueError) as error:
        raise ValueError(f"miner {name}: {error}") from error


def _number(name: str, given: float | str) -> float:
    """Returns a parameter as a number; Sedna's documents have them as text."""
    try:
        found = float(given)
    except (TypeError, ValueError):
        found = math.nan
    if not math.isfinite(found) or isinstance(given, bool):
        raise ValueError(f"{name}: expected a number, got {given!r}")
    return found


def _numbers(scores: Any) -> list[float]:
    """Returns a list of finite numbers; an empty one if there is anything else among them."""
    if hasattr(scores, "tolist"):
        scores = scores.tolist()
    if not isinstance(scores, Sequence) or isinstance(scores, str | bytes):
        return []
    try:
        found = [float(each) for each in scores if not isinstance(each, str)]
    except (TypeError, ValueError):
        return []
    return found if len(found) == len(scores) and all(map(math.isfinite, found)) else []


def _box_scores(scores: Any) -> list[float]:
    """Returns the score of each box; an empty list if one has none."""
    if hasattr(scores, "tolist"):
        scores = scores.tolist()
    if not isinstance(scores, Sequence):
        return []
    try:
        return _numbers([box[SCORE] for box in scores])
    except (TypeError, LookupError):
        return []


def _are_probabilities(numbers: Sequence[float]) -> bool:
    return all(0 <= each <= 1 for each in numbers)


def _labels(scores: Any) -> tuple[float, float]:
    """Returns the scores of LABEL_0 and LABEL_1; NaN for both without them."""
    try:
        by_label = (
            scores if isinstance(scores, Mapping) else {each["label"]: each["score"] for each in scores}
        )
        return float(by_label["LABEL_0"]), float(by_label["LABEL_1"])
    except (TypeError, LookupError, ValueError):
        return math.nan, math.nan
