"""An assessor of a user's own package: found by its entry point, asked in a real process, not trusted."""

from dataclasses import replace
from typing import Any

import pytest

from tests.integration.dispatcher.users_package import advisor, installed_package
from tests.unit.aggregates.given import CAPABILITIES, SPEC, START, answered, published, refusal
from tests.unit.domain.given import Told
from trackside.aggregates.search.state import FeedRow
from trackside.dispatcher.advice.advisor_process import (
    AdviceFailed,
    AdvisorDied,
    AdvisorProcess,
    AdvisorTimeout,
)
from trackside.dispatcher.advice.assessor_client import AssessorClient
from trackside.dispatcher.plugins.assessor_plugins import installed_assessors

PACKAGE = '''
"""An assessor as a user writes it: this file imports nothing of Trackside."""

import math
import os
import threading


class Floor:
    """Stops what is below a floor, or below half of the worst that ended."""

    def __init__(self, options, direction, seed):
        self.floor = options["floor"]
        if direction != "maximize":
            raise ValueError("only maximize")

    def hopeless(self, trial, ended):
        match trial["newest"]:
            case 13.0:
                raise ArithmeticError("unlucky")
            case 14.0:
                threading.Event().wait()
            case 15.0:
                os._exit(3)
            case 16.0:
                return "yes"
        if math.isnan(trial["newest"]):
            return True
        worst = min((past["value"] for past in ended if past["status"] == "SUCCEEDED"), default=-math.inf)
        return trial["values"][-1] < max(self.floor, worst / 2)
'''
ROWS: list[FeedRow] = [(0, 0, 0.5), (1, 0, 0.05), (0, "SUCCEEDED", 0.8), (2, 0, 0.3), (3, 0, 0.45)]


package = installed_package("flooring", PACKAGE, "[trackside.assessors]\nfloor = flooring:Floor\n")
process = advisor("own-assessor")


def setup(direction: str = "maximize", name: str = "floor") -> dict[str, Any]:
    assessor = {"name": name, "options": {"floor": 0.1}}
    return {"assessor": assessor, "direction": direction, "seed": 4}


async def test_a_users_assessor_judges_by_reports_and_ends_and_the_same_when_told_again(
    process: AdvisorProcess,
) -> None:
    found = await AssessorClient(process).assess("s", setup(), ROWS)
    assert (found.trials_to_stop, found.failures) == ([(1, 1), (2, 3)], [])
    await process._kill()
    assert await AssessorClient(process).assess("s", setup(), ROWS) == found
    assert process.generation == 2


async def test_what_it_raises_is_told_with_its_own_traceback_and_the_others_are_judged(
    process: AdvisorProcess,
) -> None:
    rows: list[FeedRow] = [(0, 0, 13.0), (1, 0, 0.05), (2, 0, 16.0), (3, 0, "nan")]
    found = await AssessorClient(process).assess("s", setup(), rows)
    assert found.trials_to_stop == [(1, 1), (3, 3)]
    raised, nonsense = found.failures
    assert (raised["rows"], raised["type"]) == (1, "ArithmeticError")
    message, _, place = raised["message"].partition(" (in ")
    assert message == "unlucky" and place.startswith("hopeless, ") and "flooring.py:" in place
    assert "flooring.py" in raised["traceback"]
    assert "search_assessor.py" not in raised["traceback"]
    assert nonsense["type"] == "NonsenseError"
    assert "said 'yes' of a trial, not True or False" in nonsense["message"]


async def test_one_that_ends_its_process_or_hangs_is_started_anew(process: AdvisorProcess) -> None:
    with pytest.raises(AdvisorDied):
        await AssessorClient(process).assess("s", setup(), [(0, 0, 15.0)])
    await process.start()
    process.timeout_s = 0.3
    with pytest.raises(AdvisorTimeout):
        await AssessorClient(process).assess("s", setup(), [(0, 0, 14.0)])
    process.timeout_s = 60.0
    assert (await AssessorClient(process).assess("t", setup(), ROWS)).failures == []


async def test_what_its_class_refuses_is_named(process: AdvisorProcess) -> None:
    with pytest.raises(AdviceFailed, match="only maximize"):
        await AssessorClient(process).assess("s", setup("minimize"), ROWS)
    with pytest.raises(AdviceFailed, match=r"no assessor 'gone' is installed; .*: floor"):
        await AssessorClient(process).assess("s", setup(name="gone"), ROWS)


def test_a_search_may_name_an_assessor_that_is_installed_and_no_other() -> None:
    offer = replace(CAPABILITIES, assessors=installed_assessors())
    known = published(1, START, SPEC | {"assessor": {"name": "floor", "options": {"floor": 0.1}}})
    assert len(answered(Told(), known, offer)) == 2
    wrong = published(1, START, SPEC | {"assessor": {"name": "flor"}})
    code, path, _ = refusal(answered(Told(), wrong, offer))
    assert (code, path) == ("unknown_assessor", "$.assessor.name")
