from decimal import Context, Decimal
from functools import reduce
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trackside.projections.tables.decimal_sums import DIGITS, decimal_sums

EXACT = Context(prec=1_000)
HALVES = st.integers(10 ** (DIGITS - 1), 10**DIGITS).map(lambda digits: digits + 0.5)
POWERS = st.integers(-323, 308).map(lambda power: 10.0**power)
VALUES = (
    st.floats(allow_nan=False, allow_infinity=False)
    | st.floats(-1, 1)
    | st.floats(-1e9, 1e9)
    | st.integers(-100, 100).map(float)
    | st.tuples(HALVES, st.sampled_from([1.0, -2.0, 1024.0, 1e7])).map(lambda pair: pair[0] / pair[1])
    | st.tuples(POWERS, st.sampled_from([1 - 2**-53, 1 + 2**-52, 1 - 2**-49])).map(
        lambda pair: -pair[0] * pair[1]
    )
)


def by_decimals(values: list[float]) -> Decimal:
    """Returns the sum of floats, each rounded to 15 digits as Postgres does."""
    return reduce(EXACT.add, (Decimal(f"{value:.{DIGITS}g}") for value in values), Decimal(0))


@pytest.mark.thorough
@given(st.lists(st.lists(st.lists(VALUES, max_size=20), max_size=3), max_size=4))
def test_floats_are_added_without_rounding_and_sums_of_sums_too(columns: list[list[list[float]]]) -> None:
    expected = [by_decimals(list(chain.from_iterable(parts))) for parts in columns]
    found = decimal_sums(columns)
    assert found == expected
    for parts, whole in zip(columns, found, strict=True):
        assert reduce(EXACT.add, decimal_sums([[part] for part in parts]), Decimal(0)) == whole
