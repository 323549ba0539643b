"""A store and a cache in folders: full disks, killed writers, writers at the same time."""

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.polling import poll_until_sync
from tests.small_disk import small_disk
from trackside.artifacts.blobs.file_blobs import FileBlobs
from trackside.artifacts.cache import Cache
from trackside.artifacts.errors import CacheUnusable, StoreFull, StoreUnreachable
from trackside.artifacts.store import Store

MIB = 2**20
PUT = """
import sys
from pathlib import Path
from trackside.artifacts.blobs.file_blobs import FileBlobs
from trackside.artifacts.store import Store
Store(FileBlobs(Path(sys.argv[1]))).put(Path(sys.argv[2]))
"""


def new_store(root: Path) -> Store:
    """Makes the folder of a store, and opens it."""
    root.mkdir()
    return Store(FileBlobs(root))


def files_of(root: Path) -> list[Path]:
    return [path for path in root.rglob("*") if path.is_file()]


def test_a_full_disk_is_named_and_has_nothing_of_the_file(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "16m") as disk:
        store = new_store(disk.folder / "store")
        kept = store.put(bytes(MIB))
        (tmp_path / "model").write_bytes(os.urandom(4 * MIB))
        disk.fill(leave_bytes=2 * MIB)
        with pytest.raises(StoreFull, match=r"is full.*make room"):
            store.put(tmp_path / "model")
        assert list(store.list_unfinished()) == [] and store.verify(kept) == "ok"
        disk.empty()
        assert store.verify(store.put(tmp_path / "model")) == "ok"


def test_a_store_that_may_not_be_written_is_unreachable(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "4m") as disk:
        store = new_store(disk.folder / "store")
        kept = store.put(b"model")
        disk.make_writable(writable=False)
        with pytest.raises(StoreUnreachable, match="Read-only file system"):
            store.put(b"another model")
        assert store.verify(kept) == "ok"


def test_a_cache_on_a_full_disk_removes_what_is_not_in_use(tmp_path: Path) -> None:
    store = new_store(tmp_path / "store")
    references = [store.put(bytes([number]) * 5 * MIB) for number in range(3)]
    with small_disk(tmp_path / "disk", "12m") as disk:
        cache = Cache(disk.folder / "cache", 100 * MIB)
        cache.lease(references[0], store).release()
        used = cache.lease(references[1], store)
        third = cache.lease(references[2], store)
        assert third.path.stat().st_size == 5 * MIB and used.path.exists()
        with pytest.raises(CacheUnusable, match=r"has no room.*make room on its disk"):
            cache.lease(references[0], store)
        third.release()
        cache.lease(references[0], store).release()
        used.release()


def test_a_killed_writer_leaves_a_temporary_file_or_a_whole_blob(tmp_path: Path) -> None:
    root, model = tmp_path / "store", tmp_path / "model"
    root.mkdir()
    with model.open("wb") as file:
        file.truncate(256 * MIB)
    writer = subprocess.Popen([sys.executable, "-P", "-c", PUT, str(root), str(model)])
    poll_until_sync(lambda: bool(files_of(root)))
    writer.send_signal(signal.SIGKILL)
    writer.wait()
    store = Store(FileBlobs(root))
    blobs, left = list(store.list_blobs()), list(store.list_unfinished())
    assert len(blobs) + len(left) == 1
    assert all(each.size_bytes == 256 * MIB for each in blobs)
    reference = store.put(model)
    assert store.verify(reference) == "ok"
    for each in left:
        store.delete_unfinished(each.name)
    assert len(files_of(root)) == 1


def test_writers_at_the_same_time_save_equal_bytes_once(tmp_path: Path) -> None:
    content = os.urandom(3 * MIB)
    paths = [tmp_path / f"model-{number}" for number in range(8)]
    for path in paths:
        path.write_bytes(content)
    store = new_store(tmp_path / "store")
    with ThreadPoolExecutor(8) as threads:
        found = set(threads.map(lambda path: store.put(path, give=path.name.endswith(("0", "1"))), paths))
    assert len(found) == 1 and len(files_of(tmp_path / "store")) == 1
    assert store.verify(found.pop()) == "ok"
