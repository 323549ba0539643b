"""What a garbage collection keeps and deletes: the store is a real folder, the log is told event by event."""

import os
from pathlib import Path
from typing import Any

import pytest

from tests.unit.domain import given
from tests.unit.domain.plausible_forgetting import EncryptedTold, forgotten, without_key
from tests.unit.replay.given import after, blob_of, of
from trackside.aggregates.search.messages import SearchEnded, SearchStatus
from trackside.artifacts.errors import ArtifactDamaged, ArtifactMissing
from trackside.artifacts.store import Store
from trackside.contracts.envelope.topics import Topics
from trackside.contracts.tasks.artifacts import ArtifactReference, ArtifactsForgotten
from trackside.contracts.tasks.summaries import ItemArtifact, ReportedItem, SummaryItemsReported
from trackside.eventlog.clock import now_ms
from trackside.eventlog.keys.record_writer import RecordWriter
from trackside.eventlog.memory import MemoryLog
from trackside.replay.garbage.collect import AnotherStoreError, GarbagePlan, delete, plan
from trackside.replay.garbage.holders import Holders
from trackside.replay.garbage.scan import HolderScan

LATER_MS = 10_000_000


def holders_of(told: given.Told) -> Holders:
    holders = Holders()
    for record in told.records:
        holders.take_event(record, record.message.model_dump_json().encode())
    return holders


def collected(told: given.Told, store: Store, before_ms: int = 0) -> GarbagePlan:
    """Returns what would be deleted later, or of what was saved before a time."""
    return plan(holders_of(told), store, before_ms or now_ms() + LATER_MS)


def digests(blobs: list[Any]) -> set[str]:
    return {blob.sha256 for blob in blobs}


def test_what_no_stream_refers_to_is_collected_once_it_is_old_if_the_store_is_ours(store: Store) -> None:
    kept, unheld = store.put(b"kept"), store.put(b"unheld")
    told = after(given.task_active(), of(kept))
    assert digests(collected(told, store).unheld) == {unheld.sha256}
    assert collected(told, store, now_ms() - LATER_MS).unheld == []
    store.put(b"of another installation")
    with pytest.raises(AnotherStoreError, match="TRACKSIDE_STORE"):
        collected(given.task_active(), store)


def encrypted_with(reference: ArtifactReference) -> given.Told:
    told = given.search_running(told=EncryptedTold(), max_trials=1)
    told.tell(given.suggested(0), given.submitted(0))
    over = SearchEnded(status=SearchStatus.DONE, trials=1)
    return after(told, given.assigned(), given.begun(), of(reference), over)


def test_a_forgotten_stream_holds_nothing_and_one_without_its_key_is_not_known(store: Store) -> None:
    scan = store.put(b"scan")
    told, other = encrypted_with(scan), encrypted_with(scan)
    assert holders_of(told).held() == {scan.sha256}
    told.tell(forgotten(told.stream.commands_at))
    assert holders_of(told).held() == set()
    other.records[:] = [without_key(record) for record in other.records]
    assert holders_of(other).unread() == [other.stream.stream_id]
    other.tell(forgotten(other.stream.commands_at))
    assert holders_of(other).unread() == []


def test_what_had_no_effect_or_only_asks_to_forget_holds_nothing(store: Store) -> None:
    kept, stale = store.put(b"kept"), store.put(b"stale")
    told = after(given.task_active(), of(kept), of(stale, number=2, name="other", incarnation="an-older-one"))
    assert digests(collected(told, store).unheld) == {stale.sha256}
    kept, old = store.put(b"kept"), store.put(b"old")
    told = after(given.task_active(), of(kept))
    asked = given.received(9, command_type="trackside.forget-artifacts.v1", body={"artifacts": [old.sha256]})
    told.fold(given.record_of(asked, 0))
    assert digests(collected(told, store).unheld) == {stale.sha256, old.sha256}


def folder_in(store: Store, tmp_path: Path, *names: str) -> ArtifactReference:
    for name in names or ("a",):
        path = tmp_path / "folder" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return store.put(tmp_path / "folder")


def test_the_files_of_a_folder_are_held_with_it(store: Store, tmp_path: Path) -> None:
    reference = folder_in(store, tmp_path, "sub/a", "b")
    told = after(given.task_active(), of(reference))
    assert collected(told, store).unheld == []
    told.tell(ArtifactsForgotten(command_id="c-9", artifacts=[reference.sha256]))
    told.tell(of(store.put(b"kept"), number=2, name="other"))
    assert len(collected(told, store).unheld) == 3


def test_nothing_is_collected_while_a_manifest_can_not_be_read(store: Store, tmp_path: Path) -> None:
    reference = folder_in(store, tmp_path)
    told = after(given.task_active(), of(reference), of(store.put(b"kept"), number=2, name="other"))
    blob = blob_of(store, reference.sha256)
    blob.write_bytes(b"")
    with pytest.raises(ArtifactDamaged, match=reference.sha256):
        collected(told, store)
    blob.unlink()
    with pytest.raises(ArtifactMissing, match=reference.sha256):
        collected(told, store)


def three_checkpoints(store: Store, told: given.Told) -> list[ArtifactReference]:
    """Saves three checkpoints, of which the rule keeps the last two."""
    found = [store.put(f"checkpoint {number}".encode()) for number in range(1, 4)]
    for number, reference in enumerate(found, 1):
        checkpoint: dict[str, Any] = {"name": "checkpoint", "kind": "checkpoint", "step": number}
        told.tell(of(reference, number=number, version=number, **checkpoint))
    return found


@pytest.mark.parametrize("is_over", [False, True])
def test_a_checkpoint_that_no_rule_keeps_is_forgotten_then_deleted(store: Store, is_over: bool) -> None:
    told = given.task_active(concurrency=1, max_trials=1)
    first, second, third = three_checkpoints(store, told)
    if is_over:
        after(told, given.ended(), given.over(0), SearchEnded(status=SearchStatus.DONE, trials=1))
    found = collected(told, store)
    assert found.unheld == []
    assert {name: digests(each) for name, each in found.checkpoints.items()} == {"digits-1": {first.sha256}}
    told.tell(ArtifactsForgotten(command_id="c-9", artifacts=[first.sha256]))
    before_ms = now_ms() + LATER_MS
    rest = collected(told, store, before_ms)
    assert (digests(rest.unheld), rest.checkpoints) == ({first.sha256}, {})
    assert digests(delete(rest, store, before_ms, lambda done, total: None)) == {first.sha256}
    assert digests(list(store.list_blobs())) == {second.sha256, third.sha256}
    with pytest.raises(ArtifactMissing):
        store.get(first, Path("unused"))


def test_a_checkpoint_that_another_stream_refers_to_stays(store: Store) -> None:
    told = given.task_active()
    first, *_ = three_checkpoints(store, told)
    told.tell(ArtifactsForgotten(command_id="c-9", artifacts=[first.sha256]))
    holders = holders_of(told)
    holders.hold("another", f'{{"inputs": {{"begin": "{first.sha256}"}}}}'.encode())
    assert plan(holders, store, now_ms() + LATER_MS).unheld == []


def test_what_is_saved_again_while_it_is_collected_stays(store: Store) -> None:
    told = after(given.task_active(), of(store.put(b"kept")))
    again = store.put(b"again")
    before_ms = now_ms() + 1
    found = collected(told, store, before_ms)
    assert digests(found.unheld) == {again.sha256}
    future_s = before_ms / 1_000 + 1
    os.utime(blob_of(store, again.sha256), (future_s, future_s))
    assert delete(found, store, before_ms, lambda done, total: None) == []
    assert store.exists(again)


def test_a_folder_of_an_imported_stream_is_held_where_it_is_here(store: Store, tmp_path: Path) -> None:
    reference = folder_in(store, tmp_path)
    told = after(given.task_active(), of(store.put(b"kept")))
    holders = holders_of(told)
    holders.hold_imported("old", of(reference).model_dump_json().encode())
    assert plan(holders, store, now_ms() + LATER_MS).unheld == []
    store.delete(reference.sha256, now_ms() + LATER_MS)
    assert len(plan(holders, store, now_ms() + LATER_MS).unheld) == 1


async def test_an_image_of_a_task_is_held_by_the_record_that_reports_it(store: Store) -> None:
    """S14: images are in the store by their digest, without an event that saves them."""
    topics, log = Topics("t."), MemoryLog()
    await log.ensure(topics.shared)
    image, unheld = store.put(b"image"), store.put(b"unheld")
    artifact = ItemArtifact(sha256=image.sha256, size_bytes=image.size_bytes, media_type="image/png")
    item = ReportedItem(kind="image", tag="a", step=1, time_ms=1, body={"width": 1}, artifact=artifact)
    event = SummaryItemsReported(stream="s", task_id="s.1", attempt=1, items=[item])
    await log.append(topics.metrics.name, 0, [RecordWriter("worker", "w1").single("s", event)])
    scan = HolderScan(log, topics, since_ms=0)
    found = plan(await scan.catch_up(), store, now_ms() + LATER_MS)
    assert digests(found.unheld) == {unheld.sha256}
