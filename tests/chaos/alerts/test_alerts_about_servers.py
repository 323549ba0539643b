"""Each alert about servers fires on a real stack when that happens, and no other does.

`pytest tests/chaos/alerts -k disk_nearly_full` makes one fault.
"""

from pathlib import Path

import pytest

from tests.chaos.alerts.cases import OF_SERVERS, Case
from tests.chaos.alerts.checked_case import check
from tests.chaos.alerts.prometheus import needs_prometheus
from tests.stack import Servers

pytestmark = [needs_prometheus, pytest.mark.timeout(900), pytest.mark.long]


@pytest.mark.parametrize("case", OF_SERVERS, ids=[case.name for case in OF_SERVERS])
async def test_a_fault_fires_its_alerts_and_no_others_until_it_has_ended(
    case: Case, stack: Servers, database: str, topic_prefix: str, leash: Path
) -> None:
    await check(case, stack, database, topic_prefix, leash)
