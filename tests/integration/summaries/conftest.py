"""Fixtures: one database for the tests of a module, whose tables `given_tables` empties."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.integration.summaries.site import Site, served


@pytest.fixture
def database(module_database: str) -> str:
    """Returns the DSN of the module's database."""
    return module_database


@pytest.fixture
async def site(database: str, tmp_path: Path) -> AsyncIterator[Site]:
    """Yields a server over empty tables and an empty store."""
    async with served(database, tmp_path) as running:
        yield running
