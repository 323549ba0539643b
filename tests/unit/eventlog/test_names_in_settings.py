"""Names in settings are identifiers, as on the wire; what is none is refused before anything starts."""

from pathlib import Path

import pytest
from pydantic_settings import BaseSettings

from trackside.cli.app import call
from trackside.eventlog.settings import StackSettings, read_settings
from trackside.scheduler.settings import SchedulerSettings
from trackside.worker.settings import WorkerSettings


@pytest.mark.parametrize(
    ("kind", "variable", "value", "named"),
    [
        (WorkerSettings, "TRACKSIDE_WORKER_QUEUES", "gpu,big ones", "'big ones' is not an identifier"),
        (WorkerSettings, "TRACKSIDE_WORKER_QUEUES", "big ones", "'big ones' is not an identifier"),
        (WorkerSettings, "TRACKSIDE_WORKER_QUEUES", " , ", "' , ' is not an identifier"),
        (WorkerSettings, "TRACKSIDE_WORKER_QUEUES", "a..b", "'a..b' is not an identifier"),
        (WorkerSettings, "TRACKSIDE_WORKER_ID", "my worker", "not an identifier"),
        (
            SchedulerSettings,
            "TRACKSIDE_SCHEDULER_QUEUE_LIMITS",
            "big ones=3",
            "'big ones' is not the name of",
        ),
        (SchedulerSettings, "TRACKSIDE_SCHEDULER_QUEUE_LIMITS", "a..b=3", "'a..b' is not the name of"),
        (StackSettings, "TRACKSIDE_TOPIC_PREFIX", "my team.", "not the beginning of a topic's name"),
    ],
)
def test_a_name_with_a_space_is_refused_at_the_start(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    kind: type[BaseSettings],
    variable: str,
    value: str,
    named: str,
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(SystemExit) as refused:
        read_settings(kind)
    said = capsys.readouterr().err
    assert refused.value.code == 2
    assert said.startswith(f"{variable}: ") and named in said and "letters, digits" in said


def test_names_with_spaces_around_them_are_fine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACKSIDE_WORKER_QUEUES", " gpu , night ,")
    assert read_settings(WorkerSettings).queue_names == ["gpu", "night"]
    monkeypatch.setenv("TRACKSIDE_SCHEDULER_QUEUE_LIMITS", "gpu = 10, night=2")
    assert read_settings(SchedulerSettings).policy.queue_limits == {"gpu": 10, "night": 2}


@pytest.mark.parametrize(
    ("spec", "where"),
    [
        ("kind: task\ntask_type: t\nqueue: big ones\n", "bad.yaml:3: $.queue: "),
        (
            "kind: search\ntask_type: t\nmax_trials: 1\nspace: {x: {type: uniform, low: 0, high: 1}}\n"
            "queue: big ones\n",
            "bad.yaml:5: $.queue: ",
        ),
        ("kind: tasks\nqueue: big ones\ngroups: [{tasks: [{task_type: t}]}]\n", "bad.yaml:2: $.queue: "),
    ],
)
def test_a_queue_with_a_space_is_refused_before_it_is_submitted(
    spec: str,
    where: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.yaml").write_text(spec)
    assert call(["submit", "bad.yaml"]) == 2
    said = capsys.readouterr().err
    assert where in said and "not an identifier: expected 1 to 128 letters, digits" in said
