import hashlib
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.stack import SEED_VARIABLE
from trackside.artifacts import errors
from trackside.artifacts.blobs.file_blobs import FileBlobs
from trackside.artifacts.blobs.source_files import SourceFile
from trackside.artifacts.store import Store
from trackside.contracts.tasks.artifacts import FOLDER_MEDIA_TYPE, ArtifactReference

SIZES = [0, 1, 4096, 2**20, 2**20 + 1, 3 * 2**20 + 17]
AGES_AGO = 1_000_000_000.0


@pytest.fixture(name="root")
def _root(tmp_path: Path) -> Path:
    root = tmp_path / "store"
    root.mkdir()
    return root


@pytest.fixture(name="store")
def _store(root: Path) -> Store:
    return Store(FileBlobs(root))


@pytest.fixture(name="content")
def _content() -> Callable[[int], bytes]:
    return random.Random(os.environ[SEED_VARIABLE]).randbytes


def files_of(root: Path) -> list[Path]:
    return sorted(path for path in root.rglob("*") if path.is_file())


def blob(root: Path, digest: str) -> Path:
    return root / "blobs" / "sha256" / digest[:2] / digest


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("give", [False, True])
def test_a_file_is_read_back_as_it_was_saved(
    store: Store, root: Path, tmp_path: Path, content: Callable[[int], bytes], size: int, give: bool
) -> None:
    source = tmp_path / "model.safetensors"
    source.write_bytes(written := content(size))
    digest = hashlib.sha256(written).hexdigest()
    reference = store.put(source, give=give)
    assert reference == ArtifactReference(uri=f"store:sha256/{digest}", sha256=digest, size_bytes=size)
    assert files_of(root) == [blob(root, digest)]
    assert blob(root, digest).stat().st_mode & 0o777 == 0o444
    store.get(reference, tmp_path / "got")
    assert (tmp_path / "got").read_bytes() == written
    assert store.verify(reference) == "ok" and store.exists(reference)


def test_equal_bytes_are_stored_once_and_are_young_again(store: Store, root: Path, tmp_path: Path) -> None:
    reference = store.put(b"model", media_type="application/json")
    path = blob(root, reference.sha256)
    os.utime(path, (AGES_AGO, AGES_AGO))
    before = path.stat()
    (tmp_path / "file.json").write_bytes(b"model")
    assert store.put(tmp_path / "file.json") == reference
    assert files_of(root) == [path]
    assert path.stat().st_ino == before.st_ino
    assert path.stat().st_mtime > before.st_mtime


@pytest.mark.parametrize("named_twice", [False, True])
def test_a_given_file_shares_its_bytes(store: Store, root: Path, tmp_path: Path, named_twice: bool) -> None:
    source = tmp_path / "model"
    source.write_bytes(b"model")
    os.utime(source, (AGES_AGO, AGES_AGO))
    if named_twice:
        (tmp_path / "other").hardlink_to(source)
    stored = blob(root, store.put(source, give=True).sha256).stat()
    assert (stored.st_ino == source.stat().st_ino) is not named_twice
    assert stored.st_mtime > AGES_AGO, "garbage collection goes by age"


def test_a_damaged_blob_is_found_and_written_again_with_the_next_save(store: Store, root: Path) -> None:
    reference = store.put(b"model")
    path = blob(root, reference.sha256)
    path.chmod(0o644)
    path.write_bytes(b"modeL")
    assert store.verify(reference) == "damaged"
    assert store.put(b"model") == reference
    assert store.verify(reference) == "ok"


def test_what_is_missing_or_damaged_is_named_and_where(store: Store, root: Path, tmp_path: Path) -> None:
    reference = store.put(b"model")
    path = blob(root, reference.sha256)
    path.chmod(0o644)
    path.write_bytes(b"longer than it was")
    with pytest.raises(errors.ArtifactDamaged, match=f"{reference.sha256}.*file://.*store"):
        store.get(reference, tmp_path / "got")
    path.unlink()
    assert store.verify(reference) == "missing"
    with pytest.raises(errors.ArtifactMissing, match=f"{reference.sha256}.*file://.*store"):
        store.get(reference, tmp_path / "got")
    (tmp_path / "folder").mkdir()
    store.get(empty := store.put(tmp_path / "folder"), tmp_path / "empty")
    assert list((tmp_path / "empty").iterdir()) == []
    (tmp_path / "folder" / "model").write_bytes(b"model")
    lacking = store.put(tmp_path / "folder")
    path.unlink()
    assert (store.verify(empty), store.verify(lacking)) == ("ok", "missing")
    with pytest.raises(errors.ArtifactMissing):
        store.get(lacking, tmp_path / "got")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["empty", "folder", "store"], "nothing is left"


@pytest.mark.parametrize("harm", ["damaged", "missing", "gone"])
def test_another_copy_is_read_if_bytes_are_gone(store: Store, root: Path, tmp_path: Path, harm: str) -> None:
    reference = store.put(b"model")
    shutil.copytree(root, tmp_path / "copy")
    if harm == "gone":
        shutil.rmtree(root)
    else:
        blob(root, reference.sha256).unlink()
    if harm == "damaged":
        blob(root, reference.sha256).write_bytes(b"wrong")
    both = Store(store.blobs, [FileBlobs(tmp_path / "copy")])
    both.get(reference, tmp_path / "got")
    assert (tmp_path / "got").read_bytes() == b"model"
    assert both.exists(reference)


def test_a_store_whose_folder_is_gone_is_unreachable_and_not_empty(store: Store, tmp_path: Path) -> None:
    reference = store.put(b"model")
    shutil.rmtree(tmp_path / "store")
    with pytest.raises(errors.StoreUnreachable):
        store.get(reference, tmp_path / "got")
    with pytest.raises(errors.StoreUnreachable):
        store.verify(reference)
    with pytest.raises(errors.StoreUnreachable):
        list(store.list_blobs())
    below = Store(FileBlobs(tmp_path / "missing" / "store"))
    with pytest.raises(errors.StoreUnreachable, match="see that the folder exists"):
        below.put(b"model")


def test_a_folder_is_a_manifest_and_blobs_and_comes_back_as_it_was(store: Store, tmp_path: Path) -> None:
    folder, got = tmp_path / "checkpoint", tmp_path / "got"
    expected = {
        "inner/deep/same": (b"weights", 0o444),
        "run": (b"#!/bin/sh\n", 0o555),
        "weights": (b"weights", 0o444),
    }
    for name, (content, mode) in expected.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
        (folder / name).chmod(0o755 if mode == 0o555 else 0o644)
    reference = store.put(folder)
    assert (reference.media_type, reference.size_bytes) == (FOLDER_MEDIA_TYPE, 24)
    assert len(list(store.list_blobs())) == 3, "the manifest, and equal files once"
    seen: list[tuple[int, int]] = []
    store.get(reference, got, lambda done, total: seen.append((done, total)))
    assert {
        path.relative_to(got).as_posix(): (path.read_bytes(), path.stat().st_mode & 0o777)
        for path in files_of(got)
    } == expected
    assert seen[-1] == (24, 24) and sorted(seen) == seen
    assert store.verify(reference) == "ok"
    assert store.put(folder, give=True) == reference


def test_links_pipes_and_devices_are_no_files_and_nothing_is_replaced(store: Store, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/etc/hostname")
    os.mkfifo(tmp_path / "pipe")
    for path, kind, said in (
        (tmp_path / "link", errors.PathOutsideStore, "link is a link"),
        (tmp_path / "pipe", errors.BadArtifact, "a named pipe"),
        (tmp_path / "missing", errors.BadArtifact, "can't be read"),
        (Path("/dev/null"), errors.BadArtifact, "a device"),
    ):
        with pytest.raises(kind, match=said):
            store.put(path)
    (tmp_path / "there").write_bytes(b"mine")
    with pytest.raises(errors.BadArtifact, match="exists already"):
        store.get(store.put(b"model"), tmp_path / "there")
    assert (tmp_path / "there").read_bytes() == b"mine"


def test_a_folder_above_a_file_that_becomes_a_link_is_refused(store: Store, tmp_path: Path) -> None:
    (tmp_path / "outputs").mkdir()
    (tmp_path / "outputs" / "etc").symlink_to("/etc")
    with pytest.raises(errors.PathOutsideStore, match="a link, or below one"):
        store.put_files([SourceFile(Path("etc/hostname"), below=tmp_path / "outputs")])


def test_a_file_that_is_not_what_was_given_has_changed(store: Store, root: Path, tmp_path: Path) -> None:
    source = tmp_path / "model"
    source.write_bytes(b"model")
    with pytest.raises(errors.ArtifactChanged, match="expected"):
        store.put(source, digest=hashlib.sha256(b"other").hexdigest(), give=True)
    assert files_of(root) == [] and source.read_bytes() == b"model"


@pytest.mark.parametrize("size", [4096, 8 * 2**20])
def test_a_file_that_changes_while_it_is_saved_is_refused(
    store: Store, root: Path, tmp_path: Path, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "model"
    source.write_bytes(bytes(size))
    hash_file = hashlib.file_digest

    def hash_and_change(*given):  # type: ignore[no-untyped-def]
        found = hash_file(*given)
        with source.open("r+b") as file:
            file.write(b"changed")
        return found

    monkeypatch.setattr(hashlib, "file_digest", hash_and_change)
    with pytest.raises(errors.ArtifactChanged, match="changed while it was saved"):
        store.put(source)
    assert files_of(root) == []


def test_a_blob_is_deleted_unless_it_was_saved_since(store: Store, root: Path) -> None:
    reference = store.put(b"model")
    (found,) = store.list_blobs()
    assert (found.sha256, found.size_bytes) == (reference.sha256, 5)
    assert not store.delete(found.sha256, saved_before_ms=found.saved_ms)
    assert store.verify(reference) == "ok"
    assert store.delete(found.sha256, saved_before_ms=found.saved_ms + 1)
    assert not store.delete(found.sha256, saved_before_ms=found.saved_ms + 1)
    assert files_of(root) == []


def test_what_a_killed_writer_left_is_listed_and_deleted(store: Store, root: Path) -> None:
    store.put(b"model")
    (root / "tmp" / "1-left").write_bytes(b"half")
    (left,) = store.list_unfinished()
    assert (left.name, left.size_bytes) == ("1-left", 4)
    store.delete_unfinished("../blobs")
    store.delete_unfinished(left.name)
    assert list(store.list_unfinished()) == [] and len(list(store.list_blobs())) == 1
