"""The verifier finds each bug that is planted in the fold, the services or the log."""

from collections import Counter
from contextlib import suppress

import pytest

from tests.unit.verify.given import findings_of
from tests.unit.verify.mutants import MUTANTS, Mutant
from tests.unit.verify.random_cluster.cluster import Cluster
from tests.unit.verify.random_cluster.history import run_moves, started_cluster
from trackside.verify.invariants import INVARIANTS

pytestmark = pytest.mark.thorough

CLUSTERS = 200
ELSEWHERE = {"INV-11", "INV-13", "INV-14", "INV-15", "INV-19", "INV-20", "INV-22", "INV-23", "INV-24"}
"""Runs, secrets, Postgres, children, models, artifacts, stores, rounds: each has tests of its own."""


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.description.replace(" ", "-"))
def test_a_seeded_bug_is_found(mutant: Mutant, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    found: Counter[str] = Counter()
    with monkeypatch.context() as patch:
        if mutant.mutate is not None:
            mutant.mutate(patch)
        for number in range(CLUSTERS):
            cluster = cluster_with(mutant, f"{seed}/{number}")
            found.update(finding.invariant for finding in findings_of(cluster))
            if found.keys() & mutant.expected:
                return
    pytest.fail(f"{mutant.description}: not found in {CLUSTERS} clusters; found was {dict(found)}")


def cluster_with(mutant: Mutant, seed: str) -> Cluster:
    """Returns a cluster with a mutant, up to where the mutant itself makes it impossible to go on."""
    cluster = started_cluster(seed, mutant.omitted)
    with suppress(LookupError, AssertionError, StopIteration):
        run_moves(cluster)
    if mutant.corrupt is not None:
        mutant.corrupt(cluster)
    return cluster


def test_every_invariant_has_a_bug_that_it_finds() -> None:
    expected = {name for mutant in MUTANTS for name in mutant.expected}
    assert expected == INVARIANTS.keys() - ELSEWHERE
    assert len(MUTANTS) >= 14
    assert len({mutant.description for mutant in MUTANTS}) == len(MUTANTS)
