"""Ticks of the axes of charts: round numbers and times, and their labels."""

import math
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import pairwise

TICKS = 5
_SUFFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_DAY = 86_400
_NOISE = 1e-9
_TIME_STEPS = (
    *(1, 2, 5, 10, 15, 30),
    *(60, 120, 300, 600, 900, 1_800),
    *(3_600, 7_200, 10_800, 21_600, 43_200),
    *(_DAY, 2 * _DAY, 5 * _DAY, 10 * _DAY, 30 * _DAY, 100 * _DAY, 365 * _DAY, 1_000 * _DAY, 3_650 * _DAY),
)
"""Seconds between two ticks of an axis of time."""


def ticks(low: float, high: float, count: int = TICKS) -> list[float]:
    """Returns about `count` round numbers from `low` to `high`: multiples of 1, 2 or 5 times a power of ten.

    Where there are none (the range is a point, or too narrow for floats), its ends.
    """
    # Each end is divided before the difference: that of very large numbers has no float.
    rough = high / count - low / count
    power = 10.0 ** math.floor(math.log10(rough)) if rough > 0 else 0.0
    step = next((factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * 0.999), 0.0)
    if not (step > 0 and math.isfinite(step)):
        return [low] if low == high else [low, high]
    # An end that is a multiple but for the noise of its division is one.
    multiples = range(math.ceil(low / step - _NOISE), math.floor(high / step + _NOISE) + 1)
    return [min(max(number * step, low), high) for number in multiples] or [low, high]


def log_ticks(low: float, high: float, count: int = TICKS) -> list[float]:
    """Returns powers of ten from `low` to `high`, both positive; in a narrow range also 2 and 5 of them.

    They are at most three times `count`.
    """
    first, last = math.ceil(math.log10(low)), math.floor(math.log10(high))
    powers = list(range(first, last + 1))
    if len(powers) >= 3:
        every = -(-len(powers) // count)
        found = [10.0**power for power in powers if power % every == 0]
    else:
        found = [factor * 10.0**power for power in range(first - 1, last + 1) for factor in (1, 2, 5)]
    found = [value for value in found if low <= value <= high]
    if len(found) > 3 * count:
        found = [value for value in found if value in [10.0**power for power in powers]]
    return found if len(found) > 1 else ticks(low, high, count)


def time_ticks(low: float, high: float, count: int = TICKS) -> list[float]:
    """Returns seconds from `low` to `high` that are full minutes, hours, days or the like."""
    rough = (high - low) / count
    if rough < 1:
        return ticks(low, high, count)
    step = next((step for step in _TIME_STEPS if step >= rough), None)
    if step is None:
        return ticks(low, high, count)
    return [float(at * step) for at in range(math.ceil(low / step), math.floor(high / step) + 1)] or [low]


def number_labels(values: Sequence[float]) -> list[str]:
    """Returns short labels that tell the ticks of an axis apart: `0.25`, `1500`, `500k`, `1e-05`."""
    largest = max((abs(value) for value in values), default=0.0)
    gaps = [right - left for left, right in pairwise(sorted(set(values)))]
    step = min([*gaps, sys.float_info.max]) if gaps else largest / 1000
    # Suffixes begin where five digits would, and end where few readers know them.
    suffixes = _SUFFIXES if 1e4 <= largest < 1e16 else ()
    return [_label(value, step, suffixes) for value in values]


def short_number(value: float) -> str:
    """Returns a number with at most 4 significant digits: `0.0312`, `1.25M`, `nan`."""
    suffixes = _SUFFIXES if 1e4 <= abs(value) < 1e16 else ()
    return _label(value, abs(value) / 1000, suffixes)


def _label(value: float, step: float, suffixes: Sequence[tuple[float, str]]) -> str:
    """Returns a number with the digits that its distance to the next one needs."""
    scale, suffix = next(((scale, name) for scale, name in suffixes if abs(value) >= scale), (1.0, ""))
    if not math.isfinite(value) or value == 0 or step == 0:
        return f"{value:.4g}"
    digits = _exponent(abs(value)) - _exponent(step) + 1
    if 1 <= abs(value) / scale < 1e4:
        digits = max(digits, _exponent(abs(value) / scale) + 1)
    return f"{value / scale:.{min(17, max(1, digits))}g}{suffix}"


def duration_labels(seconds: Sequence[float]) -> list[str]:
    """Returns labels of ticks in the largest unit that has no fractions: `30 s`, `5 min`, `2 h`, `3 d`."""
    units = ((_DAY, "d"), (3_600, "h"), (60, "min"))
    for size, unit in units:
        if any(seconds) and all(value % size == 0 for value in seconds):
            return [f"{value / size:.0f} {unit}" for value in seconds]
    return [f"{label} s" for label in number_labels(seconds)]


def clock_labels(seconds: Sequence[float]) -> list[str]:
    """Returns labels of ticks in seconds since 1970, in UTC: dates, or times with the date where it changes.

    Seconds that are not a date (before the year 1 or after 9999) are numbers.
    """
    try:
        moments = [datetime.fromtimestamp(value, UTC) for value in seconds]
    except (OverflowError, ValueError, OSError):
        return number_labels(seconds)
    if all(value % _DAY == 0 for value in seconds):
        return [f"{moment:%Y-%m-%d}" for moment in moments]
    form = "%H:%M" if all(value % 60 == 0 for value in seconds) else "%H:%M:%S"
    return [
        f"{moment:%m-%d {form}}" if at == 0 or moment.date() != moments[at - 1].date() else f"{moment:{form}}"
        for at, moment in enumerate(moments)
    ]


def _exponent(value: float) -> int:
    """Returns the power of ten of the first digit of a positive number, rounded to 12 digits before."""
    return int(f"{value:.11e}".partition("e")[2])
