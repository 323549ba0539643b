"""Where the commands of a test read their rows."""

from pathlib import Path

import pytest


@pytest.fixture
def addresses(filled: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Runs a test in a new folder, with the rows of its module's `filled`, on a terminal of 100 columns."""
    monkeypatch.setenv("TRACKSIDE_POSTGRES_DSN", filled)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.chdir(tmp_path)
