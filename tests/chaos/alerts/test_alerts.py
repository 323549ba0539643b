"""No alert fires on a real stack, with a real Prometheus, while it works; some do in a search."""

import asyncio
import itertools
import logging
import time
from pathlib import Path

import pytest

from tests.chaos.alerts import faults
from tests.chaos.alerts.cases import CASES
from tests.chaos.alerts.installation import SLOTS, Installation, installation
from tests.chaos.alerts.prometheus import needs_prometheus
from tests.stack import Servers
from tests.unit.alerts.rules import alerts

MINUTE_S = 1.0
QUIET_MINUTE_S = 3.0
"""Longer in a quiet run: a busy machine pauses any process for a moment, and no alert is about that."""
QUIET_MINUTES = 30
TRIAL_S = 0.4
OF_A_LOST_WORKER = ("TracksideServiceDown", "TracksideWorkerLost")

pytestmark = [needs_prometheus, pytest.mark.timeout(900)]


@pytest.fixture(autouse=True)
def _no_messages_of_the_client() -> None:
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)


@pytest.mark.long
async def test_a_normal_search_fires_no_alert_and_a_lost_worker_does(
    stack: Servers, database: str, topic_prefix: str, leash: Path
) -> None:
    async with installation(stack, database, topic_prefix, leash, QUIET_MINUTE_S) as on:
        await run_quietly(on, "quiet", trials=30)
        on.watched_by.set_minute(MINUTE_S)
        async with faults.undecodable_record(on), faults.worker_paused(on):
            await on.watched_by.until_fired(*OF_A_LOST_WORKER, "TracksideDeadLetters")
        assert on.watched_by.broken_rules() == []


@pytest.mark.long
async def test_no_alert_fires_while_searches_run(
    stack: Servers, database: str, topic_prefix: str, leash: Path
) -> None:
    async with installation(stack, database, topic_prefix, leash, QUIET_MINUTE_S) as on:
        until_s = time.monotonic() + QUIET_MINUTES * QUIET_MINUTE_S
        for number in itertools.count():
            await run_quietly(on, f"quiet-{number}", trials=30)
            if time.monotonic() > until_s:
                break
        assert on.watched_by.absent_metrics() == []
        assert on.watched_by.broken_rules() == []


def test_every_alert_has_a_fault_that_causes_it() -> None:
    caused = {name for cases in CASES.values() for case in cases for name in case.alerts}
    assert caused.union(OF_A_LOST_WORKER) == {alert.name for alert in alerts()}


async def run_quietly(on: Installation, search_id: str, trials: int) -> None:
    """Runs a search to its end; no alert may fire meanwhile."""
    await on.start_search(search_id, trials, TRIAL_S, SLOTS)
    await on.client.wait(search_id, timeout_s=600)
    await asyncio.to_thread(on.watched_by.await_evaluation)
    assert on.watched_by.fired() == {}
