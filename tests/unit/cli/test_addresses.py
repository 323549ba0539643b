from pathlib import Path

import pytest

from trackside.cli.runtime.addresses import BOOTSTRAP, DSN, PASSWORD_FILE, PAST_FOLDER, Addresses
from trackside.cli.runtime.failures import BadUsage
from trackside.projections.past.postgres_store import PostgresPastStore
from trackside.projections.past.store import FolderPastStore


def test_the_password_is_read_from_its_file_or_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "password").write_text("secret\n")
    monkeypatch.setenv(DSN, "postgresql://trackside@127.0.0.1:1/trackside")
    monkeypatch.setenv(PASSWORD_FILE, str(tmp_path / "password"))
    assert Addresses().dsn == "postgresql://trackside:secret@127.0.0.1:1/trackside"
    monkeypatch.setenv(DSN, "postgresql://trackside@127.0.0.1:1/trackside")
    monkeypatch.setenv(PASSWORD_FILE, str(tmp_path / "none"))
    with pytest.raises(BadUsage, match=f"{PASSWORD_FILE}={tmp_path}/none: .*No such file"):
        _ = Addresses().dsn


ADDRESSES = {BOOTSTRAP: "127.0.0.1:9", DSN: "postgresql://127.0.0.1:9/none"}


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (BOOTSTRAP, DSN, PAST_FOLDER):
        monkeypatch.delenv(name, raising=False)


def test_a_folder_or_the_database_has_the_snapshots(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(BOOTSTRAP, ADDRESSES[BOOTSTRAP])
    assert Addresses().past_states is None
    for name, value in ADDRESSES.items():
        monkeypatch.setenv(name, value)
    found = Addresses().past_states
    assert found is not None and isinstance(found.store, PostgresPastStore)
    monkeypatch.setenv(PAST_FOLDER, str(tmp_path))
    found = Addresses().past_states
    assert found is not None and isinstance(found.store, FolderPastStore) and found.store.folder == tmp_path
