"""Keeps what the house tests have read of the repository for as long as they run."""

from collections.abc import Iterator

import pytest

from tests.house import source


@pytest.fixture(scope="package", autouse=True)
def read_files() -> Iterator[None]:
    """Releases the syntax trees of all files after the last test: they slow each collection of garbage."""
    yield
    source.forget()
