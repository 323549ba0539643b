"""Where a user's Python looks for the platform and for the name of a task; its errors are one family."""

import inspect
import json
from pathlib import Path

import pytest

import trackside.sdk
from trackside.sdk import ClientError, NotOverError, RefusedError, Search, Task, errors
from trackside.sdk.connection.signing import read_signer
from trackside.sdk.definitions import discovery
from trackside.sdk.errors import SpecError


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


def test_all_errors_are_imported_from_the_sdk_and_are_of_one_family() -> None:
    kinds = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, Exception)]
    assert len(kinds) > 8
    for kind in kinds:
        assert getattr(trackside.sdk, kind.__name__) is kind
        assert issubclass(kind, ClientError)
    assert RefusedError in kinds
    assert issubclass(NotOverError, TimeoutError)
    with pytest.raises(AttributeError, match="it has Task, Service, trial, Client"):
        _ = trackside.sdk.Nothing


def test_local_faults_are_of_the_family(below: Path) -> None:
    (below / ".trackside").mkdir()
    for text in ("{", "[]", json.dumps({"other": 1})):
        (below / ".trackside" / "stack.json").write_text(text)
        with pytest.raises(ClientError, match="is not what `trackside up` writes there"):
            discovery.bootstrap()
    with pytest.raises(ClientError, match="No such file"):
        read_signer(below / "key.pem")
    with pytest.raises(ClientError, match="here it is max_trials"):
        Search("t", {"x": {"type": "constant", "value": 1}}, max_trials=2, maxTrialNumber=3)
