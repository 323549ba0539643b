"""Fixtures: one database for the tests of a module, whose tables `given_tables` empties."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.integration.summaries.given import Rows, given_tables
from tests.integration.summaries.site import Site, served


@pytest.fixture
def database(module_tables: str) -> str:
    return module_tables


@pytest.fixture
async def rows(database: str) -> AsyncIterator[Rows]:
    async with given_tables(database) as given:
        yield given


@pytest.fixture
async def site(database: str, tmp_path: Path) -> AsyncIterator[Site]:
    async with served(database, tmp_path) as running:
        yield running
