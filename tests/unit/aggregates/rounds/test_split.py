"""Which samples are for training and which for evaluation (I16-I18)."""

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trackside.aggregates.rounds.job.split import SplitRule, added, count, dropped, samples, share_of

SHARES = [0.0, 1.0, 0.1, 0.5, 0.8, 1 / 3, 1e-17, 0.30000000000000004, 0.9999999999999999, 5e-324]
SHARE = st.sampled_from(SHARES) | st.floats(0, 1)
CHANGES = st.lists(st.tuples(st.integers(0, 60), SHARE), min_size=1, max_size=6)


def divided(changes: list[tuple[int, float]]) -> tuple[list[SplitRule], int]:
    """Returns the segments of shares that count for so many samples each, and how many samples there are."""
    segments: list[SplitRule] = []
    end = 0
    for number, train_prob in changes:
        segments = added(segments, end, share_of(train_prob))
        end += number
    return segments, end


@given(SHARE, st.lists(st.integers(0, 50), max_size=8))
def test_what_a_sample_is_for_is_the_same_however_samples_arrive(train_prob: float, arrivals: Any) -> None:
    """I17, for each sample, not only for their number."""
    end = sum(arrivals)
    at_once = list(samples(added([], 0, share_of(train_prob)), 0, end, "train"))
    segments: list[SplitRule] = []
    found: list[int] = []
    begin = 0
    for number in arrivals:
        segments = added(segments, begin, share_of(train_prob))
        found += samples(segments, begin, begin + number, "train")
        begin += number
    assert (found, len(found)) == (at_once, int(end * Fraction(repr(train_prob))))


@pytest.mark.thorough
@given(CHANGES, st.data())
def test_each_sample_is_for_one_use_and_counted_as_such(changes: Any, data: st.DataObject) -> None:
    """I18: Sedna appends samples for evaluation again each time it looks."""
    segments, total = divided(changes)
    begin = data.draw(st.integers(0, total))
    end = data.draw(st.integers(begin, total))
    train, evaluation = (list(samples(segments, begin, end, use)) for use in ("train", "eval"))
    assert sorted(train + evaluation) == list(range(begin, end))
    counts = [count(segments, begin, end, use) for use in ("train", "eval")]
    assert [len(train), len(evaluation)] == counts
    rules = {at: [each for each in segments if each.begin <= at][-1] for at in range(begin, end)}
    assert [at for at, rule in rules.items() if rule.use_of(at) == "train"] == train


@pytest.mark.thorough
@given(CHANGES)
def test_a_changed_share_keeps_what_the_samples_before_have_left(changes: list[tuple[int, float]]) -> None:
    """All samples together have as many for training as their shares give, to the remainder."""
    segments, total = divided(changes)
    exact = sum((number * Fraction(repr(train_prob)) for number, train_prob in changes), Fraction(0))
    assert (count(segments, 0, total, "train"), count([], 0, 0, "eval")) == (int(exact), 0)


def test_a_share_that_is_changed_before_a_sample_comes_leaves_no_segment() -> None:
    segments = added([], 0, "4/5")
    for share in ("1/2", "1/3", "1/4"):
        segments = added(segments, 7, share)
    assert segments == [SplitRule(0, "4/5"), SplitRule(7, "1/4", "3/5")]
    assert added(segments, 7, "4/5") == [SplitRule(0, "4/5")]
    assert added(added([], 3, "1/2"), 3, "1/4") == [SplitRule(3, "1/4")]


@given(CHANGES, st.data())
def test_dropped_segments_change_nothing_for_later_samples(changes: Any, data: st.DataObject) -> None:
    segments, total = divided(changes)
    first = data.draw(st.integers(0, total))
    kept = dropped(segments, first)
    assert list(samples(kept, first, total, "train")) == list(samples(segments, first, total, "train"))
    assert kept[-1:] == segments[-1:]


def test_a_share_is_the_decimal_text_of_a_probability() -> None:
    shares = {0.8: "4/5", 0.0: "0", 1.0: "1", 0.1: "1/10"}
    shares[0.30000000000000004] = "7500000000000001/25000000000000000"
    assert ({train_prob: share_of(train_prob) for train_prob in shares}, share_of(-0.0)) == (shares, "0")


@pytest.mark.parametrize(("train_prob", "tenths"), [(0.0, 0), (1.0, 10), (0.1, 1), (0.8, 8)])
def test_samples_are_counted_by_their_segments(train_prob: float, tenths: int) -> None:
    """So many that looking at each would never end."""
    segments = added([], 0, share_of(train_prob))
    assert count(segments, 0, 10**18, "train") == tenths * 10**17
    segments, total = divided([(10**15, 0.5 + at / 10_000) for at in range(1_000)])
    assert len(segments) == 1_000
    assert count(segments, 0, total, "eval") + count(segments, 0, total, "train") == 10**18


@pytest.mark.parametrize("train_prob", [0.8, 0.30000000000000004])
def test_the_samples_of_a_manifest_are_found_one_after_another(train_prob: float) -> None:
    """One that needs the memory of all of them would not be an iterator."""
    segments = added([], 0, share_of(train_prob))
    found = samples(segments, 0, 10**12, "train")
    assert [next(found) for _ in range(3)] == ([1, 2, 3] if train_prob == 0.8 else [3, 6, 9])
    last = (10**12 - 10**5, 10**12)
    assert sum(1 for _ in samples(segments, *last, "train")) == count(segments, *last, "train")
