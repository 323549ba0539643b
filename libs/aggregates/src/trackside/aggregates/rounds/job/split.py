"""Which samples are for training and which for evaluation: a rule for each sample, whatever arrives at once.

Sample i of a segment is for training if floor(carry + (i + 1) * share) > floor(carry + i * share), as
Bresenham (1965) draws a line with this slope. So each run of n samples has n * share for training, up to one
sample, and all of them together exactly as many as the share gives. No floats: `share` is the fraction that
the decimal text of `train_prob` is.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

Use = Literal["train", "eval"]


@dataclass(frozen=True, slots=True)
class SplitRule:
    """Samples from `begin` on, up to the next segment, that are divided by one share."""

    begin: int
    """The number of its first sample."""
    share: str
    """The share of those for training, from 0 to 1, as a fraction."""
    carry: str = "0"
    """What the samples before have left, from 0 to less than 1, as a fraction."""

    def trained_before(self, sample: int) -> int:
        """Returns how many samples from its first one up to another one are for training."""
        return int(Fraction(self.carry) + (sample - self.begin) * Fraction(self.share))

    def carry_at(self, sample: int) -> str:
        """Returns what is left before a sample."""
        return str((Fraction(self.carry) + (sample - self.begin) * Fraction(self.share)) % 1)

    def use_of(self, sample: int) -> Use:
        """Returns what a sample is for."""
        return "train" if self.trained_before(sample + 1) > self.trained_before(sample) else "eval"


def share_of(train_prob: float) -> str:
    """Returns the fraction that the shortest decimal text of a probability is: `4/5` of 0.8."""
    return str(Fraction(repr(float(train_prob))))


def count(segments: Sequence[SplitRule], begin: int, end: int, use: Use) -> int:
    """Returns how many samples from `begin` to `end`, which is not included, are for a use."""
    trained = sum(
        segment.trained_before(last) - segment.trained_before(first)
        for segment, first, last in _pieces(segments, begin, end)
    )
    return trained if use == "train" else max(0, end - begin) - trained


def samples(segments: Sequence[SplitRule], begin: int, end: int, use: Use) -> Iterator[int]:
    """Yields the numbers of the samples from `begin` to `end`, which is not included, that are for a use."""
    for segment, first, last in _pieces(segments, begin, end):
        share, carry = Fraction(segment.share), Fraction(segment.carry)
        whole = math.lcm(share.denominator, carry.denominator)
        step = share.numerator * (whole // share.denominator)
        line = carry.numerator * (whole // carry.denominator) + (first - segment.begin) * step
        before = line // whole
        for sample in range(first, last):
            line += step
            after = line // whole
            if (after > before) is (use == "train"):
                yield sample
            before = after


def added(segments: Sequence[SplitRule], begin: int, share: str) -> list[SplitRule]:
    """Returns segments in which samples from `begin` on are divided by a share; the carry is kept."""
    if segments and Fraction(segments[-1].share) == Fraction(share):
        return list(segments)
    carry = segments[-1].carry_at(begin) if segments else "0"
    before = [segment for segment in segments if segment.begin < begin]
    if before and Fraction(before[-1].share) == Fraction(share):  # changed, and changed back
        return before
    return [*before, SplitRule(begin, share, carry)]


def dropped(segments: Sequence[SplitRule], before: int) -> list[SplitRule]:
    """Returns segments without those that all lie before a sample."""
    ends = [*(segment.begin for segment in segments[1:]), None]
    return [segment for segment, end in zip(segments, ends, strict=True) if end is None or end > before]


def _pieces(segments: Iterable[SplitRule], begin: int, end: int) -> Iterator[tuple[SplitRule, int, int]]:
    """Yields the segments that have samples from `begin` to `end`, each with its first sample and its end."""
    known = list(segments)
    for at, segment in enumerate(known):
        last = min(end, known[at + 1].begin) if at + 1 < len(known) else end
        first = max(begin, segment.begin)
        if first < last:
            yield segment, first, last
