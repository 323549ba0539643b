"""Models: versions in order, each of other bytes; tags, stages that one version has, and archived models."""

from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.aggregates.given import problems, refusal
from tests.unit.aggregates.pipeline.given import ask, do
from tests.unit.domain.given import Told, search_running, submitted
from tests.unit.domain.given_models import added, staged, tagged, version_spec
from tests.unit.domain.given_models import registered as model_with
from trackside.aggregates.model import messages
from trackside.aggregates.model.messages import EXCLUSIVE, ModelArchived, ModelRestored, ModelStage
from trackside.aggregates.model.state import Model, model_of, size_of
from trackside.contracts.envelope.message import Event, Json
from trackside.contracts.streams.commands import CommandRefused
from trackside.contracts.tasks.artifacts import MAX_MODEL_VERSIONS, STORED
from trackside.domain.outcome import Outcome

SAVED: Json = {"source": "digits-1/digits-1.7/weights@1"}
TASK: Json = {"stream": "digits-1", "task": "digits-1.7", "attempt": 1}
OTHER_TASK = TASK | {"task": "digits-1.8"}


def artifact(number: int = 1, **more: Any) -> Json:
    digest = f"{number:064x}"
    return {"uri": f"{STORED}{digest}", "sha256": digest, "size_bytes": 5_120, **more}


def body(number: int = 1, **more: Any) -> Json:
    return {"artifact": artifact(number), "format": "safetensors", **more}


def registered(versions: int = 0, **spec: Any) -> Told:
    told = Told()
    assert isinstance(do(told, messages.RegisterModel, spec)[0], messages.ModelRegistered)
    for number in range(1, versions + 1):
        do(told, messages.AddModelVersion, body(number))
    return told


def model(told: Told) -> Model:
    found = model_of(told.stream)
    assert found is not None
    return found


def test_a_version_is_numbered_and_keeps_what_is_known_of_it_and_no_other_has_its_bytes() -> None:
    told = registered()
    facts = {"artifact": artifact(1, **SAVED), "task": TASK, "metrics": {"accuracy": 0.97, "loss": "nan"}}
    for number, more in ((1, facts), (2, {})):
        [event] = do(told, messages.AddModelVersion, body(number, **more))
        assert isinstance(event, messages.ModelVersionAdded) and event.version == number
    first = model(told).versions[0]
    assert first.spec.task is not None and first.spec.task.attempt == 1
    assert (first.spec.metrics, first.stage) == ({"accuracy": 0.97, "loss": "nan"}, "none")
    events = ask(told, messages.AddModelVersion, body(1, format="onnx"))
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
        ({"artifact": artifact(**SAVED), "task": OTHER_TASK}, "wrong_source", "$.artifact.source"),
        ({"config": {str(n): "x" * 60_000 for n in range(2)}}, "too_long", "$"),
        ({"tags": [f"t{n}" for n in range(messages.MAX_TAGS + 1)]}, "bad_length", "$.tags"),
        ({"devices": ["a b"]}, "bad_identifier", "$.devices[0]"),
        ({"artifact": artifact() | {"sha256": "0"}}, "bad_digest", "$.artifact.sha256"),
    ],
)
def test_a_version_that_cannot_be_is_refused(changed: Json, code: str, path: str) -> None:
    found = problems(ask(registered(), messages.AddModelVersion, body(**changed)))
    assert (code, path) in found
    assert messages.MAX_VERSION_BYTES < 2 * 60_000


def test_a_model_has_no_more_versions_or_bytes_of_them_than_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    told, full = registered(3), ("too_many_versions", "$partitionkey")
    size = model(told).size_bytes
    assert size == sum(size_of(version.spec) for version in model(told).versions) > 300
    monkeypatch.setattr("trackside.aggregates.model.decide.MAX_TOTAL_BYTES", size + size // 3 + 1)
    assert isinstance(do(told, messages.AddModelVersion, body(4))[0], messages.ModelVersionAdded)
    assert refusal(ask(told, messages.AddModelVersion, body(5)))[:2] == full
    monkeypatch.setattr("trackside.aggregates.model.decide.MAX_MODEL_VERSIONS", 3)
    assert refusal(ask(registered(3), messages.AddModelVersion, body(4)))[:2] == full
    assert MAX_MODEL_VERSIONS == 100_000


def test_a_stage_is_taken_from_the_version_that_has_it() -> None:
    told = registered(3)
    for version, replaces in ((1, None), (3, 1)):
        [event] = do(told, messages.SetModelStage, {"version": version, "stage": "production"})
        assert isinstance(event, messages.ModelStageSet) and event.replaces == replaces
    do(told, messages.SetModelStage, {"version": 1, "stage": "staging"})
    do(told, messages.SetModelStage, {"version": 2, "stage": "archived"})
    assert [version.stage for version in model(told).versions] == ["staging", "archived", "production"]
    assert do(told, messages.SetModelStage, {"version": 3, "stage": "production"}) == []
    [event] = do(told, messages.SetModelStage, {"version": 1, "stage": "archived"})
    assert isinstance(event, messages.ModelStageSet) and event.replaces is None
    assert [version.stage for version in model(told).versions] == ["archived", "archived", "production"]


def test_tags_are_words_and_labels_have_values() -> None:
    told = registered(1, tags=["images"], labels={"owner": "me"})
    [event] = do(
        told, messages.TagModel, {"add": ["b", "a"], "remove": ["images"], "labels": {"owner": None}}
    )
    assert isinstance(event, messages.ModelTagged) and event.version is None
    assert (model(told).tags, model(told).labels) == (["a", "b"], {})
    do(told, messages.TagModel, {"version": 1, "add": ["small"], "labels": {"license": "mit"}})
    version = model(told).versions[0]
    assert (version.tags, version.labels) == (["small"], {"license": "mit"})
    assert do(told, messages.TagModel, {"version": 1, "add": ["small"], "labels": {"license": "mit"}}) == []
    assert do(told, messages.TagModel, {"remove": ["unknown"], "labels": {"unknown": None}}) == []


def test_tags_have_a_limit_in_all() -> None:
    told = registered(tags=[f"t{n}" for n in range(messages.MAX_TAGS)])
    assert refusal(ask(told, messages.TagModel, {"add": ["more"]}))[:2] == ("too_long", "$.add")
    do(told, messages.TagModel, {"add": ["more"], "remove": ["t0"]})
    labels = {f"l{n}": "" for n in range(messages.MAX_TAGS)}
    do(told, messages.TagModel, {"labels": labels})
    assert refusal(ask(told, messages.TagModel, {"labels": {"more": ""}}))[:2] == ("too_long", "$.labels")


def test_an_archived_model_is_not_changed_until_it_is_restored() -> None:
    told = registered(1)
    [event] = do(told, messages.ArchiveModel, {"reason": "replaced"})
    assert isinstance(event, messages.ModelArchived)
    assert do(told, messages.ArchiveModel, {}) == []
    for kind, asked in (
        (messages.AddModelVersion, body(2)),
        (messages.TagModel, {"add": ["a"]}),
        (messages.SetModelStage, {"version": 1, "stage": "production"}),
    ):
        assert refusal(ask(told, kind, asked))[:2] == ("already_terminal", "$partitionkey")
    assert isinstance(do(told, messages.RestoreModel, {})[0], messages.ModelRestored)
    assert do(told, messages.RestoreModel, {}) == []
    assert isinstance(do(told, messages.AddModelVersion, body(2))[0], messages.ModelVersionAdded)
    assert (model(told).over, model(told).closed) == (True, False)


def test_what_is_no_model_is_refused() -> None:
    bodies: dict[type[Any], Json] = {
        messages.AddModelVersion: body(),
        messages.SetModelStage: {"version": 1, "stage": "none"},
        messages.TagModel: {},
        messages.ArchiveModel: {},
        messages.RestoreModel: {},
    }
    for kind, asked in bodies.items():
        for told in (Told(), search_running()):
            assert refusal(ask(told, kind, asked))[:2] == ("unknown_model", "$partitionkey")


def test_a_version_that_is_not_there_and_a_name_that_is_taken_are_refused() -> None:
    told = registered(2)
    for kind, asked in ((messages.TagModel, {"add": ["a"]}), (messages.SetModelStage, {"stage": "staging"})):
        assert refusal(ask(told, kind, {"version": 3, **asked}))[:2] == ("unknown_model_version", "$.version")
    for taken in (told, search_running()):
        assert refusal(ask(taken, messages.RegisterModel, {}))[:2] == ("already_exists", "$partitionkey")


ARCHIVED, RESTORED = ModelArchived(command_id="c-8", change=1), ModelRestored(command_id="c-9", change=1)
SAME_BYTES = added(3).model_copy(update={"model": version_spec(1)})


@pytest.mark.parametrize(
    ("event", "outcome"),
    [
        *((added(2), Outcome.DUPLICATE), (added(4), Outcome.OVERTAKEN), (SAME_BYTES, Outcome.OVERTAKEN)),
        (staged(1, 3, "production"), Outcome.OVERTAKEN),
        *((staged(2, 1, "production"), Outcome.OVERTAKEN), (staged(1, 1, "none"), Outcome.OVERTAKEN)),
        (staged(1, 1, "production", replaces=2), Outcome.OVERTAKEN),
        *((tagged(1, 3, added=["a"]), Outcome.OVERTAKEN), (RESTORED, Outcome.OVERTAKEN)),
        *((submitted(None), Outcome.OVERTAKEN), (staged(1, 1, "production"), Outcome.APPLIED)),
        *((tagged(1, added=["a"]), Outcome.APPLIED), (ARCHIVED, Outcome.APPLIED)),
    ],
)
def test_only_what_follows_has_an_effect(event: Event, outcome: Outcome) -> None:
    told = model_with(2)
    before = repr(model_of(told.stream))
    assert told.tell(event) == [outcome]
    assert (repr(model_of(told.stream)) != before) == (outcome is Outcome.APPLIED)


def test_a_change_counts_once() -> None:
    told = model_with(2)
    changes = (staged(1, 1, "production"), staged(2, 2, "production", replaces=1))
    for outcome in (Outcome.APPLIED, Outcome.DUPLICATE):
        assert [told.tell(change) for change in changes] == [[outcome]] * 2
    assert [version.stage for version in model(told).versions] == ["none", "production"]


def test_an_archived_model_takes_nothing_but_that_it_is_restored() -> None:
    told = model_with(1)
    told.tell(ARCHIVED)
    for event in (added(2), staged(2, 1, "production"), tagged(2, added=["a"])):
        assert told.tell(event) == [Outcome.OVERTAKEN]
    assert told.tell(RESTORED.model_copy(update={"change": 2})) == [Outcome.APPLIED]
    assert told.tell(added(2), staged(3, 1, "production")) == [Outcome.APPLIED] * 2


@pytest.mark.thorough
@given(st.lists(st.tuples(st.integers(1, 4), st.sampled_from(get_args(ModelStage))), max_size=12))
def test_a_model_knows_which_version_has_a_stage_after_any_changes(changes: Any) -> None:
    told, change = model_with(4), 0
    model = model_of(told.stream)
    assert model is not None
    for version, stage in changes:
        [outcome] = told.tell(staged(change + 1, version, stage, replaces=model.holder(stage)))
        change += outcome is Outcome.APPLIED
    for stage in get_args(ModelStage):
        with_it = [each.number for each in model.versions if each.stage == stage]
        assert model.holder(stage) == (with_it[0] if stage in EXCLUSIVE and with_it else None)
        assert stage not in EXCLUSIVE or len(with_it) <= 1
    assert [model.with_digest(each.spec.artifact.sha256) for each in model.versions] == [1, 2, 3, 4]
