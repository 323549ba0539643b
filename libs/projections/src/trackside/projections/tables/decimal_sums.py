"""Sums of floats as Postgres adds them as numerics: each rounded to 15 digits, then added exactly."""

from collections.abc import Sequence
from decimal import Context, Decimal
from itertools import chain

import numpy as np
from numpy.typing import NDArray

DIGITS = 15
"""How many digits of a float Postgres takes for its numeric."""
_POWERS = np.array([10.0**power for power in range(23)])
"""The powers of ten that are floats without rounding."""
_HALF = 2.0**25
"""Integers of 15 digits are added as two halves: the sums of 2^28 of each are floats without rounding."""
_EXACT = Context(prec=1_000)


def decimal_sums(columns: Sequence[Sequence[Sequence[float]]]) -> list[Decimal]:
    """Returns the sum of each column of finite floats, which may be in several parts; 0 of an empty one."""
    sums = [Decimal(0)] * len(columns)
    lengths = [sum(map(len, parts)) for parts in columns]
    joined = chain.from_iterable(chain.from_iterable(columns))
    values = np.fromiter(joined, np.float64, sum(lengths))
    if not len(values):
        return sums
    digits, exponents = _rounded(values)
    # Added by column and exponent: few pairs, whose sums are integers.
    lowest = int(exponents.min())
    width = int(exponents.max()) - lowest + 1
    keys = np.repeat(np.arange(len(columns)), lengths) * width + (exponents - lowest)
    found, places = np.unique(keys, return_inverse=True)
    upper = np.floor(digits / _HALF)
    uppers = np.bincount(places, upper, len(found))
    lowers = np.bincount(places, digits - upper * _HALF, len(found))
    for key, high, low in zip(found.tolist(), uppers.tolist(), lowers.tolist(), strict=True):
        column, exponent = divmod(key, width)
        added = Decimal(int(high) * int(_HALF) + int(low)).scaleb(exponent + lowest, _EXACT)
        sums[column] = _EXACT.add(sums[column], added)
    return sums


def _rounded(values: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Returns integers of at most 15 digits and powers of ten whose products are the rounded values."""
    magnitudes = np.abs(values)
    magnitudes[magnitudes == 0] = 1
    shifts = DIGITS - 1 - np.floor(np.log10(magnitudes)).astype(np.int64)
    inside = (shifts >= 0) & (shifts < len(_POWERS))
    powers, factors = _POWERS[np.where(inside, shifts, 0)], np.where(inside, values, 0.0)
    products = factors * powers
    digits = np.rint(products)
    # A product of less than 10^15 is rounded by 1/16 at most. It is decided by that only if it is half-way.
    beyond = products - digits
    lost = _lost(factors, powers, products)
    digits += np.where((np.abs(beyond) == 0.5) & (lost * beyond > 0), np.sign(beyond), 0)
    # A logarithm next to an integer may be rounded to it: then there are 14 or 16 digits before the point.
    sizes = np.abs(products)
    fits = ((sizes >= 10.0 ** (DIGITS - 1)) & (sizes < 10.0**DIGITS)) | (values == 0)
    exponents = -shifts
    for at in np.flatnonzero(~(fits & inside)).tolist():
        text, exponent = f"{values[at]:.{DIGITS - 1}e}".split("e")
        digits[at], exponents[at] = int(text.replace(".", "")), int(exponent) - DIGITS + 1
    return digits, exponents


def _lost(
    one: NDArray[np.float64], other: NDArray[np.float64], product: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Returns what rounding took from products, without rounding (Dekker, 1971)."""
    (high, low), (other_high, other_low) = _halves(one), _halves(other)
    return ((high * other_high - product) + high * other_low + low * other_high) + low * other_low


def _halves(values: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Splits floats into sums of two with at most 26 bits each, whose products are exact."""
    spread = values * (2.0**27 + 1)
    high = spread - (spread - values)
    return high, values - high
