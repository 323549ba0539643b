"""I40: which answers are hard examples, by each miner; what none of them can read is not hard."""

import math
import re
from importlib.metadata import EntryPoint, EntryPoints
from typing import Any

import numpy
import pytest

from trackside.aggregates.rounds.miner_names import BUILT_IN_MINERS
from trackside.contracts import plugins
from trackside.incremental import miners
from trackside.incremental.miners import find_miner


def boxes(*scores: float) -> list[list[Any]]:
    return [[0, 0, 8, 8, score, "cat"] for score in scores]


CASES = [
    ("Threshold", {}, boxes(0.2, 0.7), True),
    ("Threshold", {}, boxes(0.5, 0.5), False),
    ("Threshold", {"threshold": "0.9"}, boxes(0.8, 0.9), True),
    ("Threshold", {}, numpy.array([[0, 0, 1, 1, 0.4]]), True),
    ("CrossEntropy", {}, [0.5, 0.5], True),
    ("CrossEntropy", {}, [0.99, 0.01], False),
    ("CrossEntropy", {}, [1.0, 0.0], False),
    ("CrossEntropy", {"threshold_cross_entropy": 1.0}, numpy.array([0.99, 0.01]), True),
    ("CrossEntropy", {"threshold_cross_entropy": 2.0}, [1.0], False),
    ("IBT", {}, boxes(0.4, 0.9), True),
    ("IBT", {}, boxes(0.5, 0.5, 0.9), True),
    ("IBT", {}, boxes(0.4, 0.8, 0.9), False),
    ("IBT", {"threshold_img": 0.9, "threshold_box": 0.9}, boxes(*[0.95] * 9, 0.9), True),
    ("IBT", {"threshold_img": 0.7}, boxes(*[0.9] * 7, 0.1, 0.2, 0.3), True),
    ("IBT", {}, boxes(0.4, 1.2), False),
    ("CloudOnly", {}, None, True),
    ("EdgeOnly", {}, boxes(0.0), False),
    ("BertRouter", {}, {"LABEL_0": 0.2, "LABEL_1": 0.6, "LABEL_2": 0.2}, True),
    ("BertRouter", {}, [{"label": "LABEL_0", "score": 0.5}, {"label": "LABEL_1", "score": 0.5}], False),
    ("BertRouter", {"threshold": 0.9}, {"LABEL_0": 0.8, "LABEL_1": 0.2}, True),
]


@pytest.mark.parametrize(("name", "parameters", "scores", "hard"), CASES)
def test_a_miner_decides_by_scores(name: str, parameters: dict[str, Any], scores: Any, hard: bool) -> None:
    assert find_miner(name, parameters).is_hard(scores) is hard


@pytest.mark.parametrize("name", ["Threshold", "CrossEntropy", "IBT", "BertRouter"])
@pytest.mark.parametrize(
    "scores",
    [
        None, [], "text", 3, [[]], [[1, 2, 3, 4]], [None], [["a"] * 6], boxes(math.nan), boxes(0.1, math.inf),
        [math.nan, 0.1], ["0.1", "0.2"], [-0.1, 0.3], {}, {"LABEL_0": 0.0, "LABEL_1": 0.0}, {"LABEL_0": "x"},
        [{"label": "LABEL_0"}], numpy.array([]), boxes("0.1"),  # type: ignore[arg-type]
    ],
    ids=repr,
)  # fmt: skip
def test_scores_that_a_miner_cannot_read_are_not_hard(name: str, scores: Any) -> None:
    assert find_miner(name).is_hard(scores) is False


def test_a_random_miner_picks_its_share_by_its_seed_and_the_names_are_those_of_the_dispatcher() -> None:
    first, again, other = (find_miner("Random", {"seed": seed}) for seed in (7, 7, 8))
    picked = [first.is_hard(None) for _ in range(10_000)]
    assert picked == [again.is_hard(None) for _ in range(10_000)]
    assert picked != [other.is_hard(None) for _ in range(10_000)]
    assert 2_800 < sum(picked) < 3_200
    for name, parameters in BUILT_IN_MINERS.items():
        find_miner(name, dict.fromkeys(parameters, 1))


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("Treshold", {}, "no miner 'Treshold' is installed; known: BertRouter, CloudOnly, CrossEntropy"),
        ("Threshold", {"limit": 1}, "miner Threshold has no parameter 'limit'; it has: threshold"),
        ("EdgeOnly", {"threshold": 1}, "it has: none"),
        ("IBT", {"threshold_box": "high"}, "miner IBT: threshold_box: expected a number, got 'high'"),
        ("Random", {"random_ratio": math.nan}, "random_ratio: expected a number"),
    ],
)
def test_an_unknown_miner_or_parameter_is_named(name: str, parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        find_miner(name, parameters)


class Large:
    """A miner of an installed package."""

    def __init__(self, above: float = 10) -> None:
        self.above = above

    def is_hard(self, scores: Any) -> bool:
        return bool(scores > self.above)


def test_a_package_offers_a_miner_by_its_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint("Large", f"{__name__}:Large", miners.GROUP)
    monkeypatch.setattr(plugins, "entry_points", lambda group: EntryPoints([point]).select(group=group))
    assert find_miner("Large", {"above": 3}).is_hard(4)
    with pytest.raises(ValueError, match=r"miner Large: .*unexpected keyword"):
        find_miner("Large", {"below": 3})
    with pytest.raises(ValueError, match=r"known: .*Threshold, Large"):
        find_miner("large")
