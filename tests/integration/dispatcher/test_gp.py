"""Tuner gp, which needs torch: rebuilt from the log it suggests the same."""

import pytest

from tests.golden_suggestions import committed, differences, suggestions
from tests.unit.dispatcher.tuner_histories import SPACE, Setup, rebuilt, run_search
from trackside.dispatcher.advisor.advisor import make_tuner

GP_TOLERANCE = 1e-4
"""It maximises numerically, so the last bits of torch and SciPy grow to more than those of other tuners."""


@pytest.fixture(autouse=True)
def needs_torch() -> None:
    pytest.importorskip("torch", reason="make check needs no torch")


@pytest.mark.long
def test_a_gaussian_process_rebuilt_from_the_log_suggests_what_it_would_have() -> None:
    setup: Setup = (SPACE, {"name": "gp", "options": {"n_startup_trials": 4}}, 3, "maximize")
    history = run_search(make_tuner(*setup), 9, 2)
    asked = 0
    for place, (what, number, *rest) in enumerate(history):
        if what == "suggested" and number in (6, 8):
            assert rebuilt(history[:place], *setup).ask(number) == rest[0]
            asked += 1
    assert asked == 2
    by_chance = run_search(make_tuner(SPACE, {"name": "random"}, 3, "maximize"), 9, 2)
    assert history != by_chance


@pytest.mark.long
def test_a_gaussian_process_suggests_what_it_did_in_earlier_releases() -> None:
    assert list(differences(suggestions("gp"), committed("gp"), tolerance=GP_TOLERANCE)) == []
