"""A stream in a file with the bytes of its artifacts: all of them get to another store, or none does."""

import io
import tarfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.unit.domain.given import STREAM, Told, task_active
from tests.unit.domain.test_saved_artifacts import saved
from tests.unit.replay.given import TOPICS, Clock, empty, tell
from trackside.artifacts.blobs import blob_path
from trackside.artifacts.errors import ArtifactDamaged, ArtifactMissing, StoreMissing
from trackside.artifacts.file_blobs import FileBlobs
from trackside.artifacts.store import Store
from trackside.contracts.artifacts import ArtifactReference, ArtifactsForgotten
from trackside.contracts.topics import Topics
from trackside.eventlog.memory import MemoryLog
from trackside.replay.find_stream import find_stream
from trackside.replay.history.errors import DamagedFileError, ReplayError, UnknownStreamError
from trackside.replay.history.held_artifacts import HeldArtifacts
from trackside.replay.transfer.archive import BLOBS, Archive, blobs_of, write_archive
from trackside.replay.transfer.export import write_export
from trackside.replay.transfer.import_stream import ImportSummary, import_file

ELSEWHERE = Topics(prefix="other.", event_partitions=5)


def nothing(done: int, total: int) -> None:
    """Reports no progress."""


def new_store(folder: Path) -> Store:
    folder.mkdir()
    return Store(FileBlobs(folder))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return new_store(tmp_path / "store")


@pytest.fixture
def target(tmp_path: Path) -> Store:
    return new_store(tmp_path / "target")


@pytest.fixture
async def elsewhere() -> MemoryLog:
    other = MemoryLog(Clock(1_900_000_000_000))
    await other.ensure(ELSEWHERE.shared)
    return other


@pytest.fixture
def references(store: Store, tmp_path: Path) -> list[ArtifactReference]:
    """Gives artifacts: a file, an empty one, a larger one, and a folder which has the first file, too."""
    (tmp_path / "folder" / "sub").mkdir(parents=True)
    (tmp_path / "folder" / "sub" / "same").write_bytes(b"weights")
    (tmp_path / "folder" / "other").write_bytes(b"other")
    return [
        store.put(b"weights"),
        store.put(b""),
        store.put(bytes(3_000_001)),
        store.put(tmp_path / "folder"),
    ]


def told_of(references: list[ArtifactReference]) -> Told:
    told = task_active()
    for number, reference in enumerate(references, 1):
        fields: dict[str, Any] = reference.model_dump(include={"uri", "sha256", "size_bytes", "media_type"})
        told.tell(saved(**fields, number=number, name=f"artifact-{number}"))
    return told


async def exported(told: Told, store: Store, path: Path) -> HeldArtifacts:
    """Writes a history and its artifacts to a file."""
    log, held = await empty(), HeldArtifacts()
    await tell(log, STREAM, told)
    stream = io.BytesIO()
    await write_export(await find_stream(log, TOPICS, STREAM), stream.write, held)
    blobs = blobs_of(held.stored(), store)
    with path.open("wb") as file:
        write_archive(file, stream, blobs, store, nothing)
    return held


async def imported(log: MemoryLog, path: Path, target: Store, name: str = "") -> ImportSummary:
    def receive(archive: Archive) -> None:
        archive.check(nothing)
        archive.put_into(target, nothing)

    return await import_file(log, ELSEWHERE, path, name, receive=receive)


async def test_the_artifacts_of_a_stream_get_to_another_store(
    store: Store, target: Store, elsewhere: MemoryLog, references: list[ArtifactReference], tmp_path: Path
) -> None:
    await exported(told_of(references), store, tmp_path / "f")
    found = await imported(elsewhere, tmp_path / "f", target, "renamed")
    assert found.compared and found.blobs is not None and len(found.blobs) == 5
    assert [target.verify(reference) for reference in references] == ["ok"] * 4
    assert {blob.sha256 for blob in found.blobs} == {blob.sha256 for blob in target.list_blobs()}
    assert list(target.list_unfinished()) == []
    assert (await find_stream(elsewhere, ELSEWHERE, "renamed")).stream_id == "renamed"


async def test_each_blob_is_in_the_file_once_below_the_path_that_it_has_in_a_store(
    store: Store, references: list[ArtifactReference], tmp_path: Path
) -> None:
    await exported(told_of([*references, *references]), store, tmp_path / "f")
    with tarfile.open(tmp_path / "f") as tar:
        names = tar.getnames()
        for name in names:
            path = tmp_path / "unpacked" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            content = tar.extractfile(name)
            assert content is not None
            path.write_bytes(content.read())
    blobs = sorted(blob_path(blob.sha256) for blob in store.list_blobs())
    assert names == ["stream.jsonl", BLOBS, *blobs]
    assert [Store(FileBlobs(tmp_path / "unpacked")).verify(each) for each in references] == ["ok"] * 4


async def test_what_was_forgotten_or_is_outside_stays_out_of_the_file(
    store: Store, target: Store, elsewhere: MemoryLog, references: list[ArtifactReference], tmp_path: Path
) -> None:
    told = told_of(references[:2])
    told.tell(ArtifactsForgotten(command_id="c-9", artifacts=[references[0].sha256]))
    told.tell(saved(uri="s3://models/m", number=3, name="outside"))
    held = await exported(told, store, tmp_path / "f")
    assert [each.name for each in held.outside()] == [f"{STREAM}/{STREAM}.0/outside@1"]
    found = await imported(elsewhere, tmp_path / "f", target)
    assert found.blobs is not None and [blob.sha256 for blob in found.blobs] == [references[1].sha256]


async def test_a_file_is_not_begun_if_the_store_lacks_an_artifact(
    store: Store, references: list[ArtifactReference], tmp_path: Path
) -> None:
    (tmp_path / "store" / blob_path(references[2].sha256)).unlink()
    with pytest.raises(ArtifactMissing, match=references[2].sha256):
        await exported(told_of(references), store, tmp_path / "f")
    assert not (tmp_path / "f").exists()


async def test_a_copy_of_the_store_is_read_where_the_store_lacks_an_artifact(
    store: Store, target: Store, elsewhere: MemoryLog, references: list[ArtifactReference], tmp_path: Path
) -> None:
    lacking = Store(new_store(tmp_path / "empty").blobs, [store.blobs])
    await exported(told_of(references), lacking, tmp_path / "f")
    await imported(elsewhere, tmp_path / "f", target)
    assert target.verify(references[3]) == "ok"


async def test_a_file_of_a_damaged_artifact_has_no_end_and_is_refused(
    store: Store, target: Store, elsewhere: MemoryLog, references: list[ArtifactReference], tmp_path: Path
) -> None:
    blob = tmp_path / "store" / blob_path(references[2].sha256)
    blob.chmod(0o600)
    blob.write_bytes(bytes(3_000_000) + b"1")
    with pytest.raises(ArtifactDamaged, match=references[2].sha256):
        await exported(told_of(references), store, tmp_path / "f")
    with pytest.raises(DamagedFileError):
        await imported(elsewhere, tmp_path / "f", target)
    await nothing_arrived(elsewhere, target)


async def nothing_arrived(log: MemoryLog, target: Store) -> None:
    with pytest.raises(UnknownStreamError):
        await find_stream(log, ELSEWHERE, STREAM)
    assert list(target.list_blobs()) == []


async def test_a_file_that_was_cut_off_or_changed_anywhere_is_refused_before_anything_arrives(
    store: Store,
    target: Store,
    elsewhere: MemoryLog,
    references: list[ArtifactReference],
    tmp_path: Path,
    seed: int,
) -> None:
    """What fills the blocks of a tar file, and its times and owners, have no meaning."""
    path, chance = tmp_path / "f", Random(seed)
    await exported(told_of([references[0], references[3]]), store, path)
    whole = path.read_bytes()
    with tarfile.open(path) as tar:
        contents = [(each.offset_data, each.offset_data + each.size) for each in tar]
    places = [at for begin, end in contents for at in chance.sample(range(begin, end), min(8, end - begin))]
    for at in places:
        path.write_bytes(whole[:at] + bytes([whole[at] ^ (1 << chance.randrange(7))]) + whole[at + 1 :])
        with pytest.raises(ReplayError):
            await imported(elsewhere, path, target)
    for end in [contents[-1][1] - 1, *(chance.randrange(contents[-1][1]) for _ in range(15))]:
        path.write_bytes(whole[:end])
        with pytest.raises(ReplayError):
            await imported(elsewhere, path, target)
    await nothing_arrived(elsewhere, target)


def dropped(members: list[tuple[str, bytes]]) -> None:
    del members[-1]


def swapped(members: list[tuple[str, bytes]]) -> None:
    members[2], members[3] = members[3], members[2]


def added(members: list[tuple[str, bytes]]) -> None:
    members.append(("../../etc/passwd", b"x"))


def without_index(members: list[tuple[str, bytes]]) -> None:
    del members[1]


def other_bytes(members: list[tuple[str, bytes]]) -> None:
    at = next(at for at in (2, 3) if members[at][1])
    members[at] = (members[at][0], members[at][1][:-1] + b"!")


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (dropped, "it has 3 blobs, blobs.jsonl has 4: it was cut off"),
        (swapped, "where blobs.jsonl has blobs/sha256/"),
        (added, "it has 5 blobs, blobs.jsonl has 4"),
        (without_index, "the file does not begin with stream.jsonl and blobs.jsonl"),
        (other_bytes, "was changed: its bytes have another digest"),
    ],
)
async def test_another_tar_file_is_refused_with_what_is_wrong(
    store: Store,
    target: Store,
    elsewhere: MemoryLog,
    references: list[ArtifactReference],
    tmp_path: Path,
    harm: Callable[[list[tuple[str, bytes]]], None],
    said: str,
) -> None:
    path = tmp_path / "f"
    await exported(told_of([references[0], references[1], references[3]]), store, path)
    with tarfile.open(path) as tar:
        members = [(each.name, (tar.extractfile(each) or io.BytesIO()).read()) for each in tar]
    harm(members)
    with tarfile.open(path, "w") as tar:
        for name, content in members:
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    with pytest.raises(DamagedFileError, match="file_damaged: ") as caught:
        await imported(elsewhere, path, target)
    assert said in str(caught.value)
    await nothing_arrived(elsewhere, target)


async def test_without_a_store_a_file_with_artifacts_is_refused(
    store: Store, elsewhere: MemoryLog, references: list[ArtifactReference], target: Store, tmp_path: Path
) -> None:
    await exported(told_of(references), store, tmp_path / "f")
    with pytest.raises(StoreMissing, match="the file has 5 blobs"):
        await import_file(elsewhere, ELSEWHERE, tmp_path / "f")
    await nothing_arrived(elsewhere, target)
