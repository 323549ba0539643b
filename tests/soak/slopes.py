"""Whether something grows: the slope of samples over time, pass or fail. Pure.

The slope is that of Theil and Sen, the median of the slopes between all pairs of samples: a third of the
samples may be outliers, such as those of a process that was just recovering from a fault.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.stats import theilslopes  # type: ignore[import-untyped]

from tests.soak.checks import Check, CheckResult

WARM_UP_S = 300.0
"""How long a process loads, compiles and fills caches after its start; none of it counts."""
LIFE_S = 900.0
"""How long a process must have lived for its growth to be judged."""
RUN_S = 1_800.0
"""Over how long samples of several lives must be spread for their growth to be judged."""
MOST_SAMPLES = 300
"""Of so many at most the slope is taken: the pairs of 8,640, a day, would need a gigabyte."""
HOUR_S = 3_600.0


@dataclass(frozen=True, slots=True)
class GrowthLimit:
    """How fast something may grow, in units of `unit` an hour, and why not faster."""

    per_hour: float
    unit: str
    reason: str
    scale: float = 1.0
    """How much one of the unit is, such as 2**20 bytes."""


@dataclass(slots=True)
class Life:
    """What was sampled of one process from its start, or of a folder: times in s, and values."""

    times_s: list[float] = field(default_factory=list)
    values: list[float] = field(default_factory=list)

    def add(self, time_s: float, value: float) -> None:
        """Adds a sample."""
        self.times_s.append(time_s)
        self.values.append(value)

    @property
    def length_s(self) -> float:
        """How long it lasted, as far as it was sampled."""
        return self.times_s[-1] - self.times_s[0] if self.times_s else 0.0

    def after_warm_up(self, warm_up_s: float = WARM_UP_S) -> "Life":
        """Returns its samples without those of its beginning."""
        found = Life()
        for time_s, value in zip(self.times_s, self.values, strict=True):
            if time_s - self.times_s[0] >= warm_up_s:
                found.add(time_s, value)
        return found


def slope(xs: Sequence[float], ys: Sequence[float]) -> float:
    """Returns by how much y grows with each x; 0 for fewer than two samples."""
    if len(xs) < 2:
        return 0.0
    if len(xs) > MOST_SAMPLES:
        parts = np.array_split(np.arange(len(xs)), MOST_SAMPLES)
        xs = [float(np.median(np.asarray(xs)[part])) for part in parts]
        ys = [float(np.median(np.asarray(ys)[part])) for part in parts]
    return float(theilslopes(ys, xs).slope)


def growth_in_lives(lives: Sequence[Life]) -> tuple[float, int]:
    """Returns the growth per hour of lives that are long enough, and how many these are.

    It is the median of their slopes, in which a life counts for as long as it lasted.
    """
    found = []
    for life in lives:
        if life.length_s >= LIFE_S:
            warm = life.after_warm_up()
            found.append((slope(warm.times_s, warm.values) * HOUR_S, warm.length_s))
    if not found:
        return 0.0, 0
    found.sort()
    half = sum(length_s for _, length_s in found) / 2
    for rate, length_s in found:
        half -= length_s
        if half <= 0:
            return rate, len(found)
    return found[-1][0], len(found)


def leak_check(name: str, lives: Sequence[Life], limit: GrowthLimit) -> Check:
    """Checks how fast something grows while a process lives."""
    rate, count = growth_in_lives(lives)
    longest_s = max((life.length_s for life in lives), default=0.0)
    if not count:
        return _not_judged(
            name, limit, f"no life of {LIFE_S / 60:.0f} min, the longest has {longest_s / 60:.1f}"
        )
    return _judged(name, rate, limit, f"{count} live{'s' if count > 1 else ''}".replace("1 live", "1 life"))


def drift_check(name: str, lives: Sequence[Life], limit: GrowthLimit, warm_up_s: float = WARM_UP_S) -> Check:
    """Checks how fast something grows over a run, from life to life: what is read again after each start."""
    times_s, values = list[float](), list[float]()
    for life in lives:
        warm = life.after_warm_up(warm_up_s)
        times_s += warm.times_s
        values += warm.values
    spread_s = max(times_s, default=0.0) - min(times_s, default=0.0)
    if spread_s < RUN_S:
        return _not_judged(name, limit, f"{spread_s / 60:.1f} min of {RUN_S / 60:.0f} min")
    order = sorted(range(len(times_s)), key=times_s.__getitem__)
    rate = slope([times_s[at] for at in order], [values[at] for at in order]) * HOUR_S
    return _judged(name, rate, limit, f"{spread_s / 60:.0f} min")


def ratio_check(
    name: str, xs: Sequence[float], ys: Sequence[float], limit: float, unit: str, reason: str
) -> Check:
    """Checks by how much y grows with each x, such as bytes with each event."""
    shown = f"{limit:,.0f} {unit}"
    if len(xs) < 2 or max(xs) - min(xs) < 1_000:
        return Check(name, CheckResult.NOT_JUDGED, f"{len(xs)} samples", shown, reason)
    rate = slope(xs, ys)
    result = CheckResult.FAILED if rate > limit else CheckResult.PASSED
    return Check(name, result, f"{rate:,.0f} {unit}", shown, reason)


def _judged(name: str, rate: float, limit: GrowthLimit, over: str) -> Check:
    found = rate / limit.scale
    result = CheckResult.FAILED if found > limit.per_hour else CheckResult.PASSED
    return Check(name, result, f"{found:+.2f} {limit.unit}/h in {over}", _shown(limit), limit.reason)


def _not_judged(name: str, limit: GrowthLimit, why: str) -> Check:
    return Check(name, CheckResult.NOT_JUDGED, why, _shown(limit), limit.reason)


def _shown(limit: GrowthLimit) -> str:
    return f"{limit.per_hour:g} {limit.unit}/h"
