"""Each alert fires on a real stack, with a real Prometheus, when what it is about happens; else none does.

Each fault is made on services of its own; `pytest tests/chaos/alerts -k too_large` makes one.
"""

from pathlib import Path

import pytest

from tests.chaos.alerts.cases import CASES, Case
from tests.chaos.alerts.installation import SLOTS, installation
from tests.chaos.alerts.prometheus import needs_prometheus
from tests.stack import Servers

TRIAL_S = 0.4

pytestmark = [needs_prometheus, pytest.mark.timeout(900), pytest.mark.long]


@pytest.mark.parametrize(
    "case", [pytest.param(case, id=f"{word}-{case.name}") for word, cases in CASES.items() for case in cases]
)
async def test_a_fault_fires_its_alerts_and_no_others_until_it_has_ended(
    case: Case, stack: Servers, database: str, topic_prefix: str, leash: Path
) -> None:
    async with installation(stack, database, topic_prefix, leash, case.minute_s) as on:
        await on.watched_by.until_scraped()
        async with case.fault(on):
            await on.watched_by.until_fired(*case.alerts)
        await on.watched_by.until_silent()
        await on.start_search("afterwards", 4, TRIAL_S, SLOTS)
        await on.client.wait("afterwards", timeout_s=120)
        assert set(on.watched_by.fired()) - set(case.perhaps) == set(case.alerts)
        assert on.watched_by.broken_rules() == []
        assert "nothing found" in await on.command("verify-log")
