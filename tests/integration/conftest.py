"""Fixtures: a small history and its rows, written once a process."""

from collections.abc import Iterator

import pytest

from tests.integration.projections.harness import Written, small_history
from tests.stack import Servers


@pytest.fixture(scope="session")
def kept(stack: Servers) -> Iterator[Written]:
    with small_history(stack.postgres_dsn) as written:
        yield written


@pytest.fixture
def written(kept: Written) -> Iterator[Written]:
    """Yields a copy of it, for a test that changes it."""
    with kept.copied() as copied:
        yield copied
