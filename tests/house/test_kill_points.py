"""The functions at which the chaos of kills holds processes exist: their names are texts."""

from importlib import import_module
from operator import attrgetter

import pytest

from tests.chaos.kills.points import FUNCTIONS


@pytest.mark.parametrize("function", sorted(FUNCTIONS))
def test_a_function_at_which_a_process_is_held_exists(function: str) -> None:
    module, _, name = function.partition(":")
    assert callable(attrgetter(name)(import_module(module)))
