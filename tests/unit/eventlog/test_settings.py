"""A bad setting is met before anything starts: exit 2, the variable's name, what was expected."""

import os
import subprocess
import sys

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
