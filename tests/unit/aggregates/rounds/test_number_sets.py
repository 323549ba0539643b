"""Sets of numbers as text."""

from hypothesis import given
from hypothesis import strategies as st

from trackside.aggregates.rounds.number_sets import has_number, largest, with_number

NUMBERS = st.lists(st.integers(0, 500), max_size=60)


@given(NUMBERS)
def test_a_set_has_what_was_added_in_any_order_and_nothing_else(numbers: list[int]) -> None:
    found = ""
    for number in numbers:
        found = with_number(found, number)
    assert [number for number in range(600) if has_number(found, number)] == sorted(set(numbers))
    assert largest(found, 1_000) == sorted(set(numbers))
    assert largest(found, 3) == sorted(set(numbers))[-3:]


def test_a_set_takes_a_quarter_of_a_byte_a_number() -> None:
    found = ""
    for number in range(1, 1_001):
        found = with_number(found, number)
    assert len(found) == 251
    assert not has_number(found, 0)
    assert not has_number(found, -1)
    assert not has_number("", 0)


def test_a_number_that_no_version_has_is_left_out() -> None:
    assert with_number("6", -1) == with_number("6", 2**60) == "6"
