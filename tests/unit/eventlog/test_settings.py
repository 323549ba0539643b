import os
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic_settings import BaseSettings

from trackside.cli.app import call
from trackside.eventlog.settings import StackSettings, read_settings
from trackside.scheduler.settings import SchedulerSettings
from trackside.worker.settings import WorkerSettings

QUEUES, LIMITS = "TRACKSIDE_WORKER_QUEUES", "TRACKSIDE_SCHEDULER_QUEUE_LIMITS"


def refusal(kind: type[BaseSettings], capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as refused:
        read_settings(kind)
    assert refused.value.code == 2
    return capsys.readouterr().err


@pytest.mark.parametrize(
    ("kind", "variable", "value", "named"),
    [
        (StackSettings, "TRACKSIDE_HEALTH_PORT", "99999", "'99999'"),
        (StackSettings, "TRACKSIDE_HEALTH_PORT", "http", "'http'"),
        (StackSettings, "TRACKSIDE_KAFKA_BOOTSTRAP", "", "''"),
        (StackSettings, "TRACKSIDE_TOPIC_PREFIX", "my team.", "not the beginning of a topic's name"),
        (WorkerSettings, QUEUES, "gpu,big ones", "'big ones' is not an identifier"),
        (WorkerSettings, QUEUES, " , ", "' , ' is not an identifier"),
        (WorkerSettings, QUEUES, "a..b", "'a..b' is not an identifier"),
        (WorkerSettings, "TRACKSIDE_WORKER_ID", "my worker", "not an identifier"),
        (SchedulerSettings, LIMITS, "big ones=3", "'big ones' is not the name of"),
        (SchedulerSettings, LIMITS, "a..b=3", "'a..b' is not the name of"),
    ],
)
def test_a_bad_value_names_its_variable(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    kind: type[BaseSettings],
    variable: str,
    value: str,
    named: str,
) -> None:
    monkeypatch.setenv(variable, value)
    said = refusal(kind, capsys)
    assert said.startswith(f"{variable}: ") and named in said
    assert ("letters, digits" in said) == (named[0] != "'" or " is not " in named)


def test_names_with_spaces_around_them_are_fine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(QUEUES, " gpu , night ,")
    assert read_settings(WorkerSettings).queue_names == ["gpu", "night"]
    monkeypatch.setenv(LIMITS, "gpu = 10, night=2")
    assert read_settings(SchedulerSettings).policy.queue_limits == {"gpu": 10, "night": 2}


SPACE = "max_trials: 1\nspace: {x: {type: uniform, low: 0, high: 1}}\n"


@pytest.mark.parametrize(
    ("spec", "line"),
    [
        ("kind: task\ntask_type: t\nqueue: big ones\n", 3),
        (f"kind: search\ntask_type: t\n{SPACE}queue: big ones\n", 5),
        ("kind: tasks\nqueue: big ones\ngroups: [{tasks: [{task_type: t}]}]\n", 2),
    ],
)
def test_a_queue_with_a_space_is_refused_before_it_is_submitted(
    spec: str, line: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.yaml").write_text(spec)
    assert call(["submit", "bad.yaml"]) == 2
    said = capsys.readouterr().err
    assert f"bad.yaml:{line}: $.queue: " in said
    assert "not an identifier: expected 1 to 128 letters, digits" in said


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("service", "variable"),
    [("dispatcher", "TRACKSIDE_DISPATCHER_TUNER_TIME_LIMIT_S"), ("scheduler", "TRACKSIDE_SCHEDULER_LEASE_S")],
)
def test_a_service_with_a_bad_setting_exits_with_2(service: str, variable: str) -> None:
    command, env = [sys.executable, "-m", f"trackside.{service}"], {**os.environ, variable: "soon"}
    ended = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)
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
    written = refusal(StackSettings, capsys)
    assert written.startswith(f"{variable}: ") and reason in written
    assert "u:p" not in written and "secret" not in written
