"""Errors of publishers: one family, imported from one place."""

import inspect
import json
from pathlib import Path

import pytest

import trackside.sdk
from trackside.sdk import ClientError, NotOverError, RefusedError, Search, errors
from trackside.sdk.discovery import bootstrap
from trackside.sdk.signing import read_signer


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


def test_local_faults_are_of_the_family(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TRACKSIDE_KAFKA_BOOTSTRAP", raising=False)
    (tmp_path / ".trackside").mkdir()
    for text in ("{", "[]", json.dumps({"other": 1})):
        (tmp_path / ".trackside" / "stack.json").write_text(text)
        with pytest.raises(ClientError, match="is not what `trackside up` writes there"):
            bootstrap()
    with pytest.raises(ClientError, match="No such file"):
        read_signer(tmp_path / "key.pem")
    with pytest.raises(ClientError, match="here it is max_trials"):
        Search("t", {"x": {"type": "constant", "value": 1}}, max_trials=2, maxTrialNumber=3)
