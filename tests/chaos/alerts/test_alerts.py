"""Each alert fires on a real stack, with a real Prometheus, when what it is about happens; else none does.

`make test` runs a few alerts, `make chaos` all of them.
"""

import asyncio
import logging
import os
from pathlib import Path

import pytest

from tests.chaos.alerts import faults
from tests.chaos.alerts.faults import fire
from tests.chaos.alerts.installation import SLOTS, Installation, installation
from tests.chaos.alerts.prometheus import needs_prometheus
from tests.stack import Servers
from tests.unit.alerts.rules import alerts

LONG_RUNS = int(os.environ.get("TRACKSIDE_CHAOS_RUNS", "0"))
MINUTE_S = 1.0
QUIET_MINUTE_S = 3.0
"""Longer in a quiet run: a busy machine pauses any process for a moment, and no alert is about that."""
TRIAL_S = 0.4

pytestmark = [needs_prometheus, pytest.mark.timeout(900)]


@pytest.fixture(autouse=True)
def _no_messages_of_the_client() -> None:
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)


async def test_a_normal_search_fires_no_alert_and_a_lost_worker_does(
    stack: Servers, database: str, topic_prefix: str, leash: Path
) -> None:
    async with installation(stack, database, topic_prefix, leash, QUIET_MINUTE_S) as on:
        await run_quietly(on, trials=30)
        on.watched_by.set_minute(MINUTE_S)
        await asyncio.gather(fire(on, faults.undecodable_record), fire(on, faults.worker_paused))
        assert on.watched_by.broken_rules() == []


@pytest.mark.skipif(not LONG_RUNS, reason="long; `make chaos` runs it")
async def test_every_alert_fires(stack: Servers, database: str, topic_prefix: str, leash: Path) -> None:
    async with installation(stack, database, topic_prefix, leash, QUIET_MINUTE_S) as on:
        await run_quietly(on, trials=200)
        assert on.watched_by.absent_metrics() == []
        on.watched_by.set_minute(MINUTE_S)
        for fault in faults.CAUSES:
            await fire(on, fault)
        assert on.watched_by.broken_rules() == []
        await on.watched_by.until_silent(*(alert.name for alert in alerts()))


def test_every_alert_has_a_fault_that_causes_it() -> None:
    caused = [name for names in faults.CAUSES.values() for name in names]
    assert sorted(caused) == sorted(alert.name for alert in alerts())


async def run_quietly(on: Installation, trials: int) -> None:
    """Runs a search to its end; no alert may fire meanwhile."""
    await on.start_search("quiet", trials, TRIAL_S, SLOTS)
    await on.client.wait("quiet", timeout_s=600)
    await asyncio.to_thread(on.watched_by.await_evaluation)
    assert on.watched_by.fired() == {}
