"""A bad setting is met before anything starts: exit 2, the variable's name, what was expected."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from trackside.eventlog.settings import StackSettings, read_settings


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("TRACKSIDE_HEALTH_PORT", "99999"),
        ("TRACKSIDE_HEALTH_PORT", "http"),
        ("TRACKSIDE_KAFKA_BOOTSTRAP", ""),
    ],
)
def test_a_bad_value_names_its_variable(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], variable: str, value: str
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(SystemExit) as refused:
        read_settings(StackSettings)
    assert refused.value.code == 2
    said = capsys.readouterr().err
    assert said.startswith(f"{variable}: ")
    assert repr(value) in said


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("service", "variable"),
    [("dispatcher", "TRACKSIDE_DISPATCHER_TUNER_TIME_LIMIT_S"), ("scheduler", "TRACKSIDE_SCHEDULER_LEASE_S")],
)
def test_a_service_with_a_bad_setting_exits_with_2(service: str, variable: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", f"trackside.{service}"],
        env={**os.environ, variable: "soon"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 2
    assert ended.stderr.startswith(f"{variable}: ")


def test_the_password_of_postgres_may_be_in_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    secret = tmp_path / "password"
    secret.write_text("a/b@c: d\n")
    monkeypatch.setenv("TRACKSIDE_POSTGRES_DSN", "postgresql://trackside@postgres:5432/trackside")
    monkeypatch.setenv("TRACKSIDE_POSTGRES_PASSWORD_FILE", str(secret))
    read = read_settings(StackSettings)
    assert read.postgres_dsn == "postgresql://trackside:a%2Fb%40c%3A%20d@postgres:5432/trackside"


@pytest.mark.parametrize(
    ("dsn", "content", "variable", "reason"),
    [
        ("postgresql://u@h/d", None, "TRACKSIDE_POSTGRES_PASSWORD_FILE", "No such file or directory"),
        ("postgresql://u@h/d", "\n", "TRACKSIDE_POSTGRES_PASSWORD_FILE", "the file is empty"),
        ("postgresql://u:p@h/d", "secret\n", "TRACKSIDE_POSTGRES_DSN", "a user and without a password"),
        ("postgresql://h/d", "secret\n", "TRACKSIDE_POSTGRES_DSN", "a user and without a password"),
    ],
)
def test_a_password_file_that_cannot_be_used_is_refused_without_showing_a_password(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    dsn: str,
    content: str | None,
    variable: str,
    reason: str,
) -> None:
    path = tmp_path / "password"
    if content is not None:
        path.write_text(content)
    monkeypatch.setenv("TRACKSIDE_POSTGRES_DSN", dsn)
    monkeypatch.setenv("TRACKSIDE_POSTGRES_PASSWORD_FILE", str(path))
    with pytest.raises(SystemExit) as refused:
        read_settings(StackSettings)
    written = capsys.readouterr().err
    assert refused.value.code == 2
    assert written.startswith(f"{variable}: ") and reason in written
    assert "u:p" not in written and "secret" not in written
