"""The addresses that commands take from the environment."""

from pathlib import Path

import pytest

from trackside.cli.runtime.addresses import DSN, PASSWORD_FILE, Addresses
from trackside.cli.runtime.failures import BadUsage


def test_commands_read_the_password_of_postgres_from_its_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "password").write_text("secret\n")
    monkeypatch.setenv(DSN, "postgresql://trackside@127.0.0.1:1/trackside")
    monkeypatch.setenv(PASSWORD_FILE, str(tmp_path / "password"))
    assert Addresses().dsn == "postgresql://trackside:secret@127.0.0.1:1/trackside"


def test_a_password_file_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(DSN, "postgresql://trackside@127.0.0.1:1/trackside")
    monkeypatch.setenv(PASSWORD_FILE, str(tmp_path / "none"))
    with pytest.raises(BadUsage, match=f"{PASSWORD_FILE}={tmp_path}/none: .*No such file"):
        _ = Addresses().dsn
