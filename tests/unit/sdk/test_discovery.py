"""Where a user's Python looks for the platform and for the name of a task."""

import json
from pathlib import Path

import pytest

from trackside.sdk import Task, discovery
from trackside.sdk.errors import ClientError, SpecError


class Parabola(Task):
    pass


@pytest.fixture(autouse=True)
def below(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Returns a folder, and works in one below it."""
    (tmp_path / "inner").mkdir()
    monkeypatch.chdir(tmp_path / "inner")
    monkeypatch.delenv("TRACKSIDE_KAFKA_BOOTSTRAP", raising=False)
    return tmp_path


def test_the_stack_is_of_the_environment_or_the_nearest(below: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ClientError, match="run `trackside up`"):
        discovery.bootstrap()
    (below / ".trackside").mkdir()
    (below / ".trackside" / "stack.json").write_text(json.dumps({"bootstrap_servers": "h:1"}))
    assert discovery.bootstrap() == "h:1"
    monkeypatch.setenv("TRACKSIDE_KAFKA_BOOTSTRAP", "h:2")
    assert discovery.bootstrap() == "h:2"


def test_a_class_has_the_name_that_the_nearest_catalogue_gives_it(below: Path) -> None:
    with pytest.raises(SpecError, match=r"no catalogue\.yaml in"):
        discovery.task_type_of(Parabola)
    entry = f"{__name__}:Parabola"
    (below / "catalogue.yaml").write_text("tasks:\n  other: {program: [x]}\n  third: {entry: 'a:B'}\n")
    with pytest.raises(SpecError, match=f"has no task with entry '{entry}'"):
        discovery.task_type_of(Parabola)
    (below / "catalogue.yaml").write_text(f"tasks:\n  mine: {{entry: '{entry}', path: .}}\n")
    assert discovery.task_type_of(Parabola) == "mine"
    (below / "catalogue.yaml").write_text("tasks: [")
    with pytest.raises(SpecError, match="can't be read as a catalogue"):
        discovery.task_type_of(Parabola)
