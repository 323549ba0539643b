"""The simulator finds a forged event that has an effect, whatever is wrong with its signature."""

import pytest

from trackside.contracts.envelope.message import Record
from trackside.contracts.envelope.trusted_keys import Trust
from trackside.contracts.trust.trust import (
    ANOTHER_ROLE,
    ANOTHER_WORKER,
    BAD_SIGNATURE,
    BROKEN_CHAIN,
    UNKNOWN_KEY,
    UNSIGNED,
    distrust_of,
)
from trackside.domain.fleet import fleet
from trackside.domain.folding import fold
from trackside.simulation.config import SimulationConfig
from trackside.simulation.run import simulate

pytestmark = pytest.mark.usefixtures("quiet_services")

SEEDS = 20
FORGER = SimulationConfig(forger=True)


def finds_forged_events() -> bool:
    """Returns whether one of the seeds has a forged event with an effect."""
    results = (simulate(seed, FORGER) for seed in range(SEEDS))
    return any(found.startswith("a forged ") for result in results for found in result.violations)


@pytest.mark.long
@pytest.mark.parametrize(
    "reason", [UNSIGNED, UNKNOWN_KEY, ANOTHER_ROLE, ANOTHER_WORKER, BAD_SIGNATURE, BROKEN_CHAIN]
)
def test_a_reason_that_is_not_looked_at_is_noticed(reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def lax(trust: Trust, record: Record, expected: bytes) -> str:
        found = distrust_of(trust, record, expected)
        return "" if found == reason else found

    for reader in (fold, fleet):
        monkeypatch.setattr(reader, "distrust_of", lax)
    assert finds_forged_events()


def test_a_signature_that_is_not_checked_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fold, "_is_trusted", lambda *_: True)
    assert finds_forged_events()
