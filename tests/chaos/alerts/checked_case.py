"""Makes a fault on services of its own, and looks at which alerts fire."""

from pathlib import Path

from tests.chaos.alerts.cases import Case
from tests.chaos.alerts.installation import SLOTS, installation
from tests.stack import Servers

TRIAL_S = 0.4


async def check(case: Case, stack: Servers, database: str, topic_prefix: str, leash: Path) -> None:
    """The fault fires its alerts and no others until it has ended; after it a search runs as usual."""
    async with installation(stack, database, topic_prefix, leash, case.minute_s) as on:
        await on.watched_by.until_scraped()
        async with case.fault(on):
            await on.watched_by.until_fired(*case.alerts)
        await on.watched_by.until_silent()
        await on.start_search("afterwards", 4, TRIAL_S, SLOTS)
        await on.client.wait("afterwards", timeout_s=120)
        fired = on.watched_by.fired()
        assert set(fired) - set(case.perhaps) == set(case.alerts), fired
        assert on.watched_by.broken_rules() == []
        assert "nothing found" in await on.command("verify-log")
