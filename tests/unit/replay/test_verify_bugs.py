"""The verifier bites: each bug that is seeded into fold, services or log is found for what it is."""

from collections import Counter
from contextlib import suppress

import pytest

from tests.unit.replay.bugs import BUGS, Bug
from tests.unit.replay.installation import Installation
from tests.unit.replay.straying import begun, live
from tests.unit.replay.verifying import findings_of
from trackside.verify.findings import INVARIANTS

pytestmark = pytest.mark.thorough

INSTALLATIONS = 60
ELSEWHERE = {"INV-11", "INV-13", "INV-14", "INV-15"}
"""Pipelines are not there yet; secrets and Postgres have tests of their own."""


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.says.replace(" ", "-"))
def test_a_seeded_bug_is_found(bug: Bug, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    found: Counter[str] = Counter()
    with monkeypatch.context() as patch:
        if bug.mutate is not None:
            bug.mutate(patch)
        for number in range(INSTALLATIONS):
            world = lived_with(bug, f"{seed}/{number}")
            found.update(finding.invariant for finding in findings_of(world))
            if found.keys() & bug.expected:
                return
    pytest.fail(f"{bug.says}: not found in {INSTALLATIONS} installations; found was {dict(found)}")


def lived_with(bug: Bug, seed: str) -> Installation:
    """Gives an installation with a bug, up to where the bug itself makes it impossible to go on."""
    world = begun(seed, bug.forgotten)
    with suppress(LookupError, AssertionError, StopIteration):
        live(world)
    if bug.spoil is not None:
        bug.spoil(world)
    return world


def test_every_invariant_has_a_bug_that_it_finds() -> None:
    expected = {name for bug in BUGS for name in bug.expected}
    assert expected == INVARIANTS.keys() - ELSEWHERE
    assert len(BUGS) >= 14
    assert len({bug.says for bug in BUGS}) == len(BUGS)
