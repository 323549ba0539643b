"""INV-22: the store, a real folder, has what streams refer to and have not forgotten."""

from pathlib import Path

import pytest

from tests.unit.domain.given import STREAM, Told, received, record_of, task_active
from tests.unit.domain.test_saved_artifacts import saved
from tests.unit.replay.given import after, blob_of, of
from trackside.aggregates.registry import AGGREGATES
from trackside.artifacts.blobs.file_blobs import FileBlobs
from trackside.artifacts.errors import StoreUnreachable
from trackside.artifacts.store import Store
from trackside.contracts.tasks.artifacts import ArtifactsForgotten
from trackside.domain.folding.streams import Streams
from trackside.domain.outcome import Outcome
from trackside.replay.history.held_artifacts import HeldArtifacts
from trackside.verify.invariants import NEEDS_STORE
from trackside.verify.log import VerificationReport
from trackside.verify.store import verify_store

TASK = f"{STREAM}.0"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    (tmp_path / "store").mkdir()
    return Store(FileBlobs(tmp_path / "store"))


def held_by(told: Told) -> HeldArtifacts:
    held, streams = HeldArtifacts(), Streams(AGGREGATES)
    for record in told.records:
        outcome = streams.fold(record)[1]
        held.take(record, outcome, record.message.model_dump_json().encode())
    return held


def found(told: Told, store: Store, *, digests: bool = False) -> list[str]:
    report, calls = VerificationReport(skipped=dict(NEEDS_STORE)), list[tuple[int, int]]()
    held = held_by(told).stored()
    verify_store(report, held, store, digests=digests, on_progress=lambda *done: calls.append(done))
    assert report.checked["INV-22"] == len(held) and not report.skipped
    assert calls[-1:] == ([(len(calls), len(calls))] if calls else [])
    assert all((each.invariant, each.stream) == ("INV-22", STREAM) for each in report.findings)
    return [each.message for each in report.findings]


def test_a_missing_blob_is_found_with_the_name_of_its_artifact(store: Store) -> None:
    kept, lost = store.put(b"kept"), store.put(b"lost")
    told = after(task_active(), of(kept, name="kept"), of(lost, number=2, name="lost"))
    assert found(told, store) == []
    blob_of(store, lost.sha256).unlink()
    [message] = found(told, store)
    assert message.startswith("artifact_missing: file://")
    assert message.endswith(f" lacks {STREAM}/{TASK}/lost@1, 4 B, sha256 {lost.sha256}")


@pytest.mark.parametrize(("octets", "by_size"), [(b"Kept", []), (b"kep", ["artifact_damaged"])])
def test_sizes_are_compared_at_once_bytes_if_asked(store: Store, octets: bytes, by_size: list[str]) -> None:
    kept = store.put(b"kept")
    told = after(task_active(), of(kept))
    blob_of(store, kept.sha256).write_bytes(octets)
    assert [each.partition(":")[0] for each in found(told, store)] == by_size
    assert [each.partition(":")[0] for each in found(told, store, digests=True)] == ["artifact_damaged"]


def test_each_file_of_a_folder_is_looked_up(store: Store, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    for name in ("a", "b"):
        (tmp_path / "folder" / name).write_text(name)
    folder = store.put(tmp_path / "folder")
    told = after(task_active(), of(folder))
    assert found(told, store) == []
    file = store.manifest(folder).files[1]
    blob_of(store, file.sha256).unlink()
    assert [each.partition(":")[0] for each in found(told, store)] == ["artifact_missing"]


def test_what_was_forgotten_need_not_be_there_until_it_is_saved_again(store: Store) -> None:
    old = store.put(b"old")
    told = after(task_active(), of(old))
    blob_of(store, old.sha256).unlink()
    told.tell(ArtifactsForgotten(command_id="c-9", artifacts=[old.sha256]))
    assert found(told, store) == []
    told.tell(of(old, number=2, version=2))
    assert len(found(told, store)) == 1


def test_what_had_no_effect_or_was_only_asked_for_is_not_looked_up(store: Store) -> None:
    gone = {"uri": f"store:sha256/{'0' * 64}", "sha256": "0" * 64, "size_bytes": 1}
    told = after(task_active(), saved(**gone, incarnation="an-older-one"))
    told.fold(record_of(received(9, body={"inputs": {"digits": gone}}), 0))
    assert found(told, store) == []


def test_what_is_outside_the_store_is_told_apart() -> None:
    outside = saved(uri="s3://bucket/file")
    held = HeldArtifacts()
    held.take(record_of(outside, 9), Outcome.APPLIED, outside.model_dump_json().encode())
    assert (held.stored(), [each.reference.uri for each in held.outside()]) == ([], ["s3://bucket/file"])


def test_a_store_that_is_not_there_is_not_one_that_lacks_everything(store: Store) -> None:
    told = after(task_active(), of(store.put(b"kept")))
    gone = Store(FileBlobs(Path(store.blobs.url.removeprefix("file://")).with_name("unmounted")))
    with pytest.raises(StoreUnreachable):
        found(told, gone)
