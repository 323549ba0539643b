"""Where commands look for the snapshots of past states."""

from pathlib import Path

import pytest

from trackside.cli.runtime.addresses import BOOTSTRAP, DSN, PAST_FOLDER, Addresses
from trackside.projections.past.postgres_store import PostgresPastStore
from trackside.projections.past.store import FolderPastStore

ADDRESSES = {BOOTSTRAP: "127.0.0.1:9", DSN: "postgresql://127.0.0.1:9/none"}


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (BOOTSTRAP, DSN, PAST_FOLDER):
        monkeypatch.delenv(name, raising=False)


def test_a_folder_that_is_set_has_the_snapshots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {**ADDRESSES, PAST_FOLDER: str(tmp_path)}.items():
        monkeypatch.setenv(name, value)
    found = Addresses().past_states
    assert found is not None
    assert isinstance(found.store, FolderPastStore)
    assert found.store.folder == tmp_path


def test_the_database_of_given_addresses_has_the_snapshots(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ADDRESSES.items():
        monkeypatch.setenv(name, value)
    found = Addresses().past_states
    assert found is not None
    assert isinstance(found.store, PostgresPastStore)


def test_a_log_alone_has_no_snapshots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(BOOTSTRAP, ADDRESSES[BOOTSTRAP])
    assert Addresses().past_states is None
