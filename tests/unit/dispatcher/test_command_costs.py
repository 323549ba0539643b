"""What one command costs is bounded by its bytes: counted in calls, and beside reading the same bytes."""

import random
import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any

import pytest

from tests.unit.dispatcher.command_costs import dearest, decide, measured, received
from tests.unit.dispatcher.dear_commands import SIZE, Input, Recipe, recipes, repetitions
from trackside.eventlog.garbage import collecting_seldom

CALLS_PER_BYTE = 20
"""How many functions a decision may call for each byte of its command: what is quadratic calls hundreds."""
RATIO = 5
FUZZED = 60

pytestmark = pytest.mark.thorough


def calls_of(given: Input) -> int:
    """Returns how many functions the decision of a command calls."""
    count = 0

    def note(_frame: FrameType, event: str, _argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    streams, _, _ = received(given)
    sys.setprofile(note)
    try:
        decide(streams)
    finally:
        sys.setprofile(None)
    return count


def drawn(seed: int) -> Iterator[Recipe]:
    """Yields recipes of inputs of which two parts, chosen at random, are large."""
    chance, found = random.Random(seed), list(recipes())
    while True:
        half = chance.choice(found).input(SIZE // 2)
        if both := repetitions(half):
            yield chance.choice(both)


def test_the_dearest_command_of_each_type_is_decided_in_five_times_what_reading_it_takes(seed: int) -> None:
    with collecting_seldom():
        costs = [measured(each) for each in recipes()]
        costs += [measured(each) for each, _ in zip(drawn(seed), range(FUZZED), strict=False)]
        for cost in dearest(costs).values():
            assert cost.ratio < RATIO or measured(cost.recipe).ratio < RATIO, cost


def test_no_decision_calls_more_functions_than_the_bytes_of_its_command_admit() -> None:
    by_hand = [each for each in recipes() if not each.what.startswith("$")]
    assert len(by_hand) > 40
    for recipe in by_hand:
        given = recipe.input(SIZE)
        assert calls_of(given) < CALLS_PER_BYTE * SIZE, (given.command_type, given.what)
