"""What the log says of artifacts: what counts, what doesn't, and what a stream forgets."""

from typing import Any

from tests.unit.domain.given import ended, over, task_active, token
from trackside.aggregates.search.messages import SearchEnded, SearchStatus
from trackside.contracts.envelope.message import Event
from trackside.contracts.envelope.refusals import Problem
from trackside.contracts.tasks.artifacts import (
    MAX_METADATA_BYTES,
    ArtifactSaved,
    ArtifactsForgotten,
    ForgetArtifacts,
)
from trackside.domain.folding.task_commands import decide
from trackside.domain.outcome import Outcome
from trackside.domain.tasks.task_artifacts import KEPT_METADATA, newest_model

DIGEST = "ab" * 32
OTHER = "cd" * 32


def saved(**changed: Any) -> ArtifactSaved:
    stored = {"uri": f"store:sha256/{DIGEST}", "sha256": DIGEST, "size_bytes": 10}
    named = {"number": 1, "name": "weights", "version": 1, "kind": "file"}
    return ArtifactSaved.model_validate({**token(), **named, **stored, **changed})


def test_a_record_of_an_artifact_that_can_be_none_has_no_effect() -> None:
    told = task_active()
    for changed in (
        {"size_bytes": -1},
        {"size_bytes": 2**70},
        {"sha256": "no digest"},
        {"uri": "s3://me:secret@bucket/x"},
        {"name": "n" * 700},
        {"kind": "checkpoint", "step": -1},
        {"kind": "checkpoint", "step": None},
    ):
        assert told.tell(saved(**changed)) == [Outcome.OVERTAKEN], changed
    assert told.tell(saved()) == [Outcome.APPLIED]


def answer(told: Any, *digests: str) -> list[Event] | tuple[Problem, ...]:
    return decide(told.stream, ForgetArtifacts(artifacts=list(digests)), "c-9")


def test_a_checkpoint_that_an_open_task_may_continue_from_is_not_forgotten() -> None:
    told = task_active()
    late = answer(told, DIGEST)
    assert isinstance(late, list)
    for number, digest in enumerate((DIGEST, OTHER, "ef" * 32), 1):
        checkpoint = {"number": number, "version": number, "step": number, "sha256": digest}
        told.tell(saved(kind="checkpoint", name="checkpoint", **checkpoint))
        if number == 1:
            assert told.tell(*late) == [Outcome.OVERTAKEN], "it has come to need it since the decision"
    refused = answer(told, DIGEST, OTHER)
    assert [(each.code, each.path) for each in refused if isinstance(each, Problem)] == [
        ("artifact_in_use", "$.artifacts[1]")
    ], "the first of three was superseded"
    told.tell(ended())
    forgotten = ArtifactsForgotten(command_id="c-9", artifacts=[DIGEST, OTHER], reason="")
    assert (answer(told, DIGEST, OTHER), told.tell(*late)) == ([forgotten], [Outcome.APPLIED])


def test_a_closed_stream_forgets_artifacts_and_may_be_asked_twice() -> None:
    told = task_active(concurrency=1, max_trials=1)
    told.each(saved(), ended(), over(0), SearchEnded(status=SearchStatus.DONE, trials=1))
    assert told.stream.closed
    for _ in range(2):
        events = answer(told, DIGEST)
        assert isinstance(events, list)
        assert told.tell(*events) == [Outcome.APPLIED]
    assert told.stream.last_offset == told.next_offset - 1


def test_an_artifact_counts_although_the_store_never_had_the_version_before() -> None:
    told = task_active()
    assert told.each(saved(), saved(number=3, version=3, sha256=OTHER)) == [Outcome.APPLIED] * 2
    assert told.tell(saved(number=4, version=2)) == [Outcome.OVERTAKEN], "an older one, under a new number"
    [newest] = told.stream.tasks["digits-1.0"].artifacts.values()
    assert (newest.version, newest.reference.sha256) == (3, OTHER)


def model(number: int, name: str = "weights", **changed: Any) -> ArtifactSaved:
    fields: dict[str, Any] = {"kind": "model", "name": name, "metadata": {"format": "safetensors"}}
    return saved(number=number, **{**fields, **changed})


def test_a_model_keeps_what_it_was_saved_with_up_to_a_limit_and_another_file_does_not() -> None:
    told = task_active()
    told.tell(model(1), saved(number=2, name="curve", metadata={"format": "csv"}))
    artifacts = told.task().artifacts
    assert artifacts["weights"].metadata == {"format": "safetensors"}
    assert (artifacts["weights"].attempt, artifacts["weights"].saved_at) == (1, told.next_offset - 2)
    assert (artifacts["curve"].metadata, artifacts["curve"].attempt) == ({}, 1)
    told = task_active()
    fits = {"notes": "n" * (MAX_METADATA_BYTES - len('{"notes": ""}'))}
    told.tell(model(1, metadata=fits), model(2, "larger", metadata={"notes": fits["notes"] + "n"}))
    assert [each.metadata for each in told.task().artifacts.values()] == [fits, {}]


def test_of_many_models_those_saved_last_keep_their_metadata() -> None:
    told = task_active()
    for number in range(1, KEPT_METADATA + 3):
        told.tell(model(number, f"m{number}"))
    told.tell(model(KEPT_METADATA + 3, "m4", version=2))
    described = [name for name, each in told.task().artifacts.items() if each.metadata]
    assert described == [f"m{number}" for number in range(3, KEPT_METADATA + 3)]
    newest = newest_model(told.task())
    assert newest is not None and (newest[0], newest[1].version) == ("m4", 2)
    told = task_active()
    told.tell(saved())
    assert newest_model(told.task()) is None, "it saved no model"
