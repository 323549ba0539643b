import io
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest

from tests.unit.domain.given import STREAM, Told, task_active
from tests.unit.domain.test_saved_artifacts import saved
from tests.unit.replay.given import ELSEWHERE, TOPICS, blob_of, log_of, of
from trackside.artifacts.blobs.blobs import blob_path
from trackside.artifacts.blobs.file_blobs import FileBlobs
from trackside.artifacts.errors import ArtifactDamaged, ArtifactMissing, StoreMissing
from trackside.artifacts.store import Store
from trackside.contracts.tasks.artifacts import ArtifactReference, ArtifactsForgotten
from trackside.eventlog.memory import MemoryLog
from trackside.replay.find_stream import find_stream
from trackside.replay.history.errors import DamagedFileError, ReplayError, UnknownStreamError
from trackside.replay.history.held_artifacts import HeldArtifacts
from trackside.replay.transfer.archive import BLOBS, Archive, blobs_of, write_archive
from trackside.replay.transfer.export import write_export
from trackside.replay.transfer.import_stream import ImportSummary, import_file


def nothing(done: int, total: int) -> None:
    """Reports no progress."""


def new_store(folder: Path) -> Store:
    folder.mkdir()
    return Store(FileBlobs(folder))


@dataclass
class Stores:
    """A store with artifacts, and a log and a store elsewhere to which they are to get."""

    store: Store
    references: list[ArtifactReference]
    """A file, an empty one, a larger one, and a folder which has the first file, too."""
    log: MemoryLog
    target: Store

    async def imported(self, path: Path, name: str = "") -> ImportSummary:
        def receive(archive: Archive) -> None:
            archive.check(nothing)
            archive.put_into(self.target, nothing)

        return await import_file(self.log, ELSEWHERE, path, name, receive=receive)

    async def nothing_arrived(self) -> None:
        with pytest.raises(UnknownStreamError):
            await find_stream(self.log, ELSEWHERE, STREAM)
        assert list(self.target.list_blobs()) == []


@pytest.fixture
def stores(store: Store, elsewhere: MemoryLog, tmp_path: Path) -> Stores:
    (tmp_path / "folder" / "sub").mkdir(parents=True)
    (tmp_path / "folder" / "sub" / "same").write_bytes(b"weights")
    (tmp_path / "folder" / "other").write_bytes(b"other")
    references = [store.put(each) for each in (b"weights", b"", bytes(3_000_001), tmp_path / "folder")]
    return Stores(store, references, elsewhere, new_store(tmp_path / "target"))


def told_of(references: list[ArtifactReference]) -> Told:
    told = task_active()
    for number, reference in enumerate(references, 1):
        told.tell(of(reference, number=number, name=f"artifact-{number}"))
    return told


async def exported(told: Told, store: Store, path: Path) -> HeldArtifacts:
    held, stream = HeldArtifacts(), io.BytesIO()
    await write_export(await find_stream(await log_of(told), TOPICS, STREAM), stream.write, held)
    blobs = blobs_of(held.stored(), store)
    with path.open("wb") as file:
        write_archive(file, stream, blobs, store, nothing)
    return held


async def test_the_artifacts_of_a_stream_get_to_another_store(stores: Stores, tmp_path: Path) -> None:
    await exported(told_of(stores.references), stores.store, tmp_path / "f")
    found = await stores.imported(tmp_path / "f", "renamed")
    assert found.compared and found.blobs is not None and len(found.blobs) == 5
    assert [stores.target.verify(reference) for reference in stores.references] == ["ok"] * 4
    assert {blob.sha256 for blob in found.blobs} == {blob.sha256 for blob in stores.target.list_blobs()}
    assert list(stores.target.list_unfinished()) == []
    assert (await find_stream(stores.log, ELSEWHERE, "renamed")).stream_id == "renamed"


async def test_each_blob_is_in_the_file_once_at_its_path_in_a_store(stores: Stores, tmp_path: Path) -> None:
    await exported(told_of([*stores.references, *stores.references]), stores.store, tmp_path / "f")
    with tarfile.open(tmp_path / "f") as tar:
        names = tar.getnames()
        for name in names:
            path = tmp_path / "unpacked" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            content = tar.extractfile(name)
            assert content is not None
            path.write_bytes(content.read())
    blobs = sorted(blob_path(blob.sha256) for blob in stores.store.list_blobs())
    assert names == ["stream.jsonl", BLOBS, *blobs]
    assert [Store(FileBlobs(tmp_path / "unpacked")).verify(each) for each in stores.references] == ["ok"] * 4


async def test_what_was_forgotten_or_is_outside_stays_out_of_the_file(stores: Stores, tmp_path: Path) -> None:
    told = told_of(stores.references[:2])
    told.tell(ArtifactsForgotten(command_id="c-9", artifacts=[stores.references[0].sha256]))
    told.tell(saved(uri="s3://models/m", number=3, name="outside"))
    held = await exported(told, stores.store, tmp_path / "f")
    assert [each.name for each in held.outside()] == [f"{STREAM}/{STREAM}.0/outside@1"]
    found = await stores.imported(tmp_path / "f")
    assert found.blobs is not None and [blob.sha256 for blob in found.blobs] == [stores.references[1].sha256]


async def test_a_file_is_not_begun_if_no_store_has_an_artifact(stores: Stores, tmp_path: Path) -> None:
    lacking = Store(new_store(tmp_path / "empty").blobs, [stores.store.blobs])
    await exported(told_of(stores.references), lacking, tmp_path / "f")
    await stores.imported(tmp_path / "f")
    assert stores.target.verify(stores.references[3]) == "ok"
    (tmp_path / "store" / blob_path(stores.references[2].sha256)).unlink()
    with pytest.raises(ArtifactMissing, match=stores.references[2].sha256):
        await exported(told_of(stores.references), stores.store, tmp_path / "g")
    assert not (tmp_path / "g").exists()


async def test_a_file_of_a_damaged_artifact_has_no_end_and_is_refused(stores: Stores, tmp_path: Path) -> None:
    blob_of(stores.store, stores.references[2].sha256).write_bytes(bytes(3_000_000) + b"1")
    with pytest.raises(ArtifactDamaged, match=stores.references[2].sha256):
        await exported(told_of(stores.references), stores.store, tmp_path / "f")
    with pytest.raises(DamagedFileError):
        await stores.imported(tmp_path / "f")
    await stores.nothing_arrived()


async def test_a_cut_or_changed_file_is_refused_as_a_whole(stores: Stores, tmp_path: Path, seed: int) -> None:
    """What fills the blocks of a tar file, and its times and owners, have no meaning."""
    path, chance = tmp_path / "f", Random(seed)
    await exported(told_of([stores.references[0], stores.references[3]]), stores.store, path)
    whole = path.read_bytes()
    with tarfile.open(path) as tar:
        contents = [(each.offset_data, each.offset_data + each.size) for each in tar]
    places = [at for begin, end in contents for at in chance.sample(range(begin, end), min(8, end - begin))]
    for at in places:
        path.write_bytes(whole[:at] + bytes([whole[at] ^ (1 << chance.randrange(7))]) + whole[at + 1 :])
        with pytest.raises(ReplayError):
            await stores.imported(path)
    for end in [contents[-1][1] - 1, *(chance.randrange(contents[-1][1]) for _ in range(15))]:
        path.write_bytes(whole[:end])
        with pytest.raises(ReplayError):
            await stores.imported(path)
    await stores.nothing_arrived()


Members = list[tuple[str, bytes]]


def other_bytes(members: Members) -> Members:
    at = next(at for at in (2, 3) if members[at][1])
    return [*members[:at], (members[at][0], members[at][1][:-1] + b"!"), *members[at + 1 :]]


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (lambda them: them[:-1], "it has 3 blobs, blobs.jsonl has 4: it was cut off"),
        (lambda them: [*them[:2], them[3], them[2], *them[4:]], "where blobs.jsonl has blobs/sha256/"),
        (lambda them: [*them, ("../../etc/passwd", b"x")], "it has 5 blobs, blobs.jsonl has 4"),
        (lambda them: [them[0], *them[2:]], "the file does not begin with stream.jsonl and blobs.jsonl"),
        (other_bytes, "was changed: its bytes have another digest"),
    ],
    ids=["dropped", "swapped", "added", "without_index", "other_bytes"],
)
async def test_another_tar_file_is_refused_with_what_is_wrong(
    stores: Stores, tmp_path: Path, harm: Callable[[Members], Members], said: str
) -> None:
    path, references = tmp_path / "f", stores.references
    await exported(told_of([references[0], references[1], references[3]]), stores.store, path)
    with tarfile.open(path) as tar:
        members = [(each.name, (tar.extractfile(each) or io.BytesIO()).read()) for each in tar]
    with tarfile.open(path, "w") as tar:
        for name, content in harm(members):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    with pytest.raises(DamagedFileError, match="file_damaged: ") as caught:
        await stores.imported(path)
    assert said in str(caught.value)
    await stores.nothing_arrived()


async def test_without_a_store_a_file_with_artifacts_is_refused(stores: Stores, tmp_path: Path) -> None:
    await exported(told_of(stores.references), stores.store, tmp_path / "f")
    with pytest.raises(StoreMissing, match="the file has 5 blobs"):
        await import_file(stores.log, ELSEWHERE, tmp_path / "f")
    await stores.nothing_arrived()
