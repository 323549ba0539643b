"""Models: versions in order, each of other bytes; tags, stages that one version has, and archived models."""

from typing import Any

import pytest

from tests.unit.aggregates.given import answered, problems, published, refusal
from tests.unit.domain.given import Told, search_running
from trackside.aggregates.model.messages import (
    MAX_TAGS,
    MAX_VERSION_BYTES,
    AddModelVersion,
    ArchiveModel,
    ModelArchived,
    ModelRegistered,
    ModelRestored,
    ModelStageSet,
    ModelTagged,
    ModelVersionAdded,
    RegisterModel,
    RestoreModel,
    SetModelStage,
    TagModel,
)
from trackside.aggregates.model.state import Model, model_of, size_of
from trackside.contracts.artifacts import MAX_MODEL_VERSIONS, STORED
from trackside.contracts.commands import CommandAccepted, CommandRefused
from trackside.contracts.message import Command, Event, Json

SAVED: Json = {"source": "digits-1/digits-1.7/weights@1"}
TASK: Json = {"stream": "digits-1", "task": "digits-1.7", "attempt": 1}


def artifact(number: int = 1, **more: Any) -> Json:
    """Returns a reference to bytes of their own for each number."""
    digest = f"{number:064x}"
    return {"uri": f"{STORED}{digest}", "sha256": digest, "size_bytes": 5_120, **more}


def body(number: int = 1, **more: Any) -> Json:
    return {"artifact": artifact(number), "format": "safetensors", **more}


def ask(told: Told, kind: type[Command], asked: Json) -> list[Event]:
    """Publishes a command and returns what the dispatcher decides of it."""
    number = told.next_offset + 1
    return answered(told, published(number, kind.wire_type(), asked))


def do(told: Told, kind: type[Command], asked: Json) -> list[Event]:
    """Publishes a command that is accepted, and returns the events of its effect."""
    accepted, *events = ask(told, kind, asked)
    assert isinstance(accepted, CommandAccepted), accepted
    return events


def registered(versions: int = 0, **spec: Any) -> Told:
    told = Told()
    assert isinstance(do(told, RegisterModel, spec)[0], ModelRegistered)
    for number in range(1, versions + 1):
        do(told, AddModelVersion, body(number))
    return told


def model(told: Told) -> Model:
    found = model_of(told.stream)
    assert found is not None
    return found


def test_a_version_is_numbered_and_keeps_what_is_known_of_it() -> None:
    told = registered()
    facts = {"artifact": artifact(1, **SAVED), "task": TASK, "metrics": {"accuracy": 0.97, "loss": "nan"}}
    [event] = do(told, AddModelVersion, body(1, **facts))
    assert isinstance(event, ModelVersionAdded) and event.version == 1
    [second] = do(told, AddModelVersion, body(2))
    assert isinstance(second, ModelVersionAdded) and second.version == 2
    first = model(told).versions[0]
    assert first.spec.task is not None and first.spec.task.attempt == 1
    assert (first.spec.metrics, first.stage) == ({"accuracy": 0.97, "loss": "nan"}, "none")


def test_bytes_that_a_version_has_are_refused_and_the_version_is_named() -> None:
    told = registered(2)
    events = ask(told, AddModelVersion, body(1, format="onnx"))
    assert refusal(events)[:2] == ("already_exists", "$.artifact.sha256")
    assert isinstance(events[0], CommandRefused) and "version 1" in events[0].message


@pytest.mark.parametrize(
    ("changed", "code", "path"),
    [
        ({"format": "pickle"}, "unsafe_format", "$.format"),
        ({"format": "Joblib"}, "unsafe_format", "$.format"),
        ({"format": "safetensor"}, "unknown_value", "$.format"),
        ({"artifact": artifact() | {"uri": "s3://b/m.PKL"}}, "unsafe_format", "$.artifact.uri"),
        ({"artifact": artifact() | {"uri": "https://h/m.pkl?x=1"}}, "unsafe_format", "$.artifact.uri"),
        ({"artifact": artifact() | {"uri": "https://me:x@h/m"}}, "credentials_in_url", "$.artifact.uri"),
        ({"artifact": artifact(source="digits-1/weights")}, "wrong_source", "$.artifact.source"),
        ({"artifact": artifact(**SAVED)}, "wrong_source", "$.artifact.source"),
        ({"task": TASK}, "wrong_source", "$.artifact.source"),
        (
            {"artifact": artifact(**SAVED), "task": TASK | {"task": "digits-1.8"}},
            "wrong_source",
            "$.artifact.source",
        ),
        ({"config": {str(n): "x" * 60_000 for n in range(2)}}, "too_long", "$"),
        ({"tags": [f"t{n}" for n in range(MAX_TAGS + 1)]}, "bad_length", "$.tags"),
        ({"devices": ["a b"]}, "bad_identifier", "$.devices[0]"),
        ({"artifact": artifact() | {"sha256": "0"}}, "bad_digest", "$.artifact.sha256"),
        ({"licence": "mit"}, "unknown_field", "$.licence"),
    ],
)
def test_a_version_that_cannot_be_is_refused(changed: Json, code: str, path: str) -> None:
    found = problems(ask(registered(), AddModelVersion, body(**changed)))
    assert (code, path) in found
    assert MAX_VERSION_BYTES < 2 * 60_000


def test_a_model_has_no_more_versions_than_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trackside.aggregates.model.decide.MAX_MODEL_VERSIONS", 3)
    events = ask(registered(3), AddModelVersion, body(4))
    assert refusal(events)[:2] == ("too_many_versions", "$partitionkey")
    assert MAX_MODEL_VERSIONS == 100_000


def test_the_versions_of_a_model_have_no_more_bytes_than_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    told = registered(3)
    size = model(told).size_bytes
    assert size == sum(size_of(version.spec) for version in model(told).versions) > 300
    monkeypatch.setattr("trackside.aggregates.model.decide.MAX_TOTAL_BYTES", size + size // 3 + 1)
    assert isinstance(do(told, AddModelVersion, body(4))[0], ModelVersionAdded)
    assert refusal(ask(told, AddModelVersion, body(5)))[:2] == ("too_many_versions", "$partitionkey")


def test_a_stage_is_taken_from_the_version_that_has_it() -> None:
    told = registered(3)
    for version, replaces in ((1, None), (3, 1)):
        [event] = do(told, SetModelStage, {"version": version, "stage": "production"})
        assert isinstance(event, ModelStageSet) and event.replaces == replaces
    do(told, SetModelStage, {"version": 1, "stage": "staging"})
    do(told, SetModelStage, {"version": 2, "stage": "archived"})
    assert [version.stage for version in model(told).versions] == ["staging", "archived", "production"]
    assert do(told, SetModelStage, {"version": 3, "stage": "production"}) == []
    [event] = do(told, SetModelStage, {"version": 1, "stage": "archived"})
    assert isinstance(event, ModelStageSet) and event.replaces is None
    assert [version.stage for version in model(told).versions] == ["archived", "archived", "production"]


def test_tags_are_words_and_labels_have_values() -> None:
    told = registered(1, tags=["images"], labels={"owner": "me"})
    [event] = do(told, TagModel, {"add": ["b", "a"], "remove": ["images"], "labels": {"owner": None}})
    assert isinstance(event, ModelTagged) and event.version is None
    assert (model(told).tags, model(told).labels) == (["a", "b"], {})
    do(told, TagModel, {"version": 1, "add": ["small"], "labels": {"license": "mit"}})
    version = model(told).versions[0]
    assert (version.tags, version.labels) == (["small"], {"license": "mit"})
    assert do(told, TagModel, {"version": 1, "add": ["small"], "labels": {"license": "mit"}}) == []
    assert do(told, TagModel, {"remove": ["unknown"], "labels": {"unknown": None}}) == []


def test_tags_have_a_limit_in_all() -> None:
    told = registered(tags=[f"t{n}" for n in range(MAX_TAGS)])
    assert refusal(ask(told, TagModel, {"add": ["more"]}))[:2] == ("too_long", "$.add")
    do(told, TagModel, {"add": ["more"], "remove": ["t0"]})
    labels = {f"l{n}": "" for n in range(MAX_TAGS)}
    do(told, TagModel, {"labels": labels})
    assert refusal(ask(told, TagModel, {"labels": {"more": ""}}))[:2] == ("too_long", "$.labels")


def test_an_archived_model_is_not_changed_until_it_is_restored() -> None:
    told = registered(1)
    [event] = do(told, ArchiveModel, {"reason": "replaced"})
    assert isinstance(event, ModelArchived)
    assert do(told, ArchiveModel, {}) == []
    for kind, asked in (
        (AddModelVersion, body(2)),
        (TagModel, {"add": ["a"]}),
        (SetModelStage, {"version": 1, "stage": "production"}),
    ):
        assert refusal(ask(told, kind, asked))[:2] == ("already_terminal", "$partitionkey")
    assert isinstance(do(told, RestoreModel, {})[0], ModelRestored)
    assert do(told, RestoreModel, {}) == []
    assert isinstance(do(told, AddModelVersion, body(2))[0], ModelVersionAdded)
    assert (model(told).over, model(told).closed) == (True, False)


@pytest.mark.parametrize(
    ("kind", "asked"),
    [
        (AddModelVersion, body()),
        (TagModel, {}),
        (SetModelStage, {"version": 1, "stage": "none"}),
        (ArchiveModel, {}),
        (RestoreModel, {}),
    ],
)
def test_what_is_no_model_is_refused(kind: type[Command], asked: Json) -> None:
    for told in (Told(), search_running()):
        assert refusal(ask(told, kind, asked))[:2] == ("unknown_model", "$partitionkey")


def test_a_version_that_is_not_there_is_refused() -> None:
    told = registered(2)
    for kind, asked in ((TagModel, {"add": ["a"]}), (SetModelStage, {"stage": "staging"})):
        assert refusal(ask(told, kind, {"version": 3, **asked}))[:2] == (
            "unknown_model_version",
            "$.version",
        )


def test_a_name_that_is_taken_is_refused() -> None:
    for told in (registered(), search_running()):
        assert refusal(ask(told, RegisterModel, {}))[:2] == ("already_exists", "$partitionkey")
