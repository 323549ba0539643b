"""What makes an installation ready for its services, before they start."""

import pytest

from tests.integration.installed import prepared
from tests.stack import Servers
from trackside.projections import postgres


def test_migrations_may_take_longer_than_other_transactions(
    stack: Servers, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One counts all points: over a large database a stack would never start again."""
    monkeypatch.setattr(postgres, "TRANSACTION_LIMIT_S", 0.001)
    assert prepared(stack, database).postgres_dsn == database
