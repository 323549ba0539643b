"""Fixtures: one database for the tests of a module, whose tables `given_tables` empties."""

import pytest


@pytest.fixture
def database(module_database: str) -> str:
    """Returns the DSN of the module's database."""
    return module_database
