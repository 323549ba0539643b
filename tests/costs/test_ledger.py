"""What work costs is what the ledger says: a change that makes it dearer changes that, too."""

import json

import pytest

from tests.costs import ledger
from tests.costs.counting import counted_table


@pytest.mark.timeout(600)
async def test_work_costs_what_the_ledger_says() -> None:
    table, _ = await counted_table()
    differences = ledger.differences(ledger.read(), table)
    assert not differences, "\n".join(
        (
            *differences,
            f"if that is meant: {ledger.COMMAND}, and say in the commit what for",
            json.dumps(table),
        )
    )
