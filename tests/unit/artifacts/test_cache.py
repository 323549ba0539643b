import multiprocessing
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from trackside.artifacts.blobs.file_blobs import FileBlobs
from trackside.artifacts.cache import Cache, release_all
from trackside.artifacts.errors import ArtifactDamaged, ArtifactMissing
from trackside.artifacts.store import Store
from trackside.contracts.tasks.artifacts import ArtifactReference

MIB = 2**20


class CountingBlobs(FileBlobs):
    """Blobs in a folder, and a line in a file for each that is read, by all processes together."""

    def read(self, sha256: str):  # type: ignore[no-untyped-def]
        with (self.root / "read").open("a") as out:
            out.write(f"{sha256}\n")
        yield from super().read(sha256)

    def times_read(self, reference: ArtifactReference) -> int:
        lines = (self.root / "read").read_text().split() if (self.root / "read").exists() else []
        return lines.count(reference.sha256)


@pytest.fixture(name="blobs")
def _blobs(tmp_path: Path) -> CountingBlobs:
    (tmp_path / "store").mkdir()
    return CountingBlobs(tmp_path / "store")


@pytest.fixture(name="store")
def _store(blobs: CountingBlobs) -> Store:
    return Store(blobs)


@pytest.fixture(name="cache")
def _cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "cache", 3 * MIB)


def cached(cache: Cache) -> int:
    return len(list((cache.folder / "entries").iterdir()))


def saved(store: Store, number: int) -> ArtifactReference:
    return store.put(bytes([number]) * MIB)


def test_a_second_task_reads_what_the_first_fetched(store: Store, blobs: CountingBlobs, cache: Cache) -> None:
    reference = saved(store, 1)
    seen: list[tuple[int, int]] = []
    with cache.lease(reference, store, lambda *each: seen.append(each)) as first:
        assert first.read_bytes() == b"\1" * MIB
        assert first.stat().st_mode & 0o777 == 0o444
    with cache.lease(reference, store) as second:
        assert second == first
    assert blobs.times_read(reference) == 1
    assert seen[-1] == (MIB, MIB)


def test_a_folder_is_cached_whole(store: Store, blobs: CountingBlobs, cache: Cache, tmp_path: Path) -> None:
    (tmp_path / "model" / "inner").mkdir(parents=True)
    (tmp_path / "model" / "inner" / "weights").write_bytes(b"weights")
    reference = store.put(tmp_path / "model")
    for _ in range(2):
        with cache.lease(reference, store) as path:
            assert (path / "inner" / "weights").read_bytes() == b"weights"
            assert (path / "inner").stat().st_mode & 0o777 == 0o555
    assert blobs.times_read(reference) == 1
    Cache(cache.folder, 0).evict()
    assert cached(cache) == 0


def test_a_cache_keeps_only_so_many_artifacts_however_small(store: Store, tmp_path: Path) -> None:
    small = Cache(tmp_path / "cache", 3 * MIB, max_entries=3)
    references = [store.put(bytes([number])) for number in range(5)]
    held = small.lease(references[0], store)
    for reference in references[1:]:
        small.lease(reference, store).release()
        assert cached(small) <= 3
    assert small.hold(references[1]) is None
    assert [path.name for path in (small.folder / "locks").iterdir() if path.name == references[0].sha256]
    held.release()
    assert len(list((small.folder / "locks").iterdir())) == cached(small) == 3


def test_the_least_recently_used_goes_first(store: Store, blobs: CountingBlobs, cache: Cache) -> None:
    references = [saved(store, number) for number in range(4)]
    for number in (0, 1, 2, 0, 3):
        cache.lease(references[number], store).release()
    assert cached(cache) == 3
    cache.lease(references[0], store).release()
    assert [blobs.times_read(each) for each in references] == [1, 1, 1, 1]
    cache.lease(references[1], store).release()
    assert blobs.times_read(references[1]) == 2


def test_what_is_in_use_stays_and_is_released_at_once(store: Store, cache: Cache) -> None:
    """A service that was given a thousand models ends as soon as one that was given two."""
    looks: list[int] = []

    class CountedCache(Cache):
        def evict(self, room_bytes: int = 0) -> None:
            looks.append(room_bytes)
            super().evict(room_bytes)

    counted = CountedCache(cache.folder, cache.max_bytes)
    leases = [counted.lease(saved(store, number), store) for number in range(5)]
    assert all(lease.path.exists() for lease in leases) and cached(cache) == 5
    looks.clear()
    release_all(leases)
    assert looks == [0] and cached(cache) == 3
    release_all([])
    assert looks == [0]


def test_tasks_that_want_it_at_once_fetch_it_once(store: Store, blobs: CountingBlobs, cache: Cache) -> None:
    reference = saved(store, 1)
    begin = threading.Barrier(8)

    def use() -> bytes:
        begin.wait()
        with cache.lease(reference, store) as path:
            return path.read_bytes()

    with ThreadPoolExecutor(8) as threads:
        found = [each.result() for each in [threads.submit(use) for _ in range(8)]]
    assert found == [b"\1" * MIB] * 8
    assert blobs.times_read(reference) == 1


def _use(root: Path, folder: Path, reference: ArtifactReference) -> int:
    with Cache(folder, 3 * MIB).lease(reference, Store(CountingBlobs(root))) as path:
        return path.stat().st_size


@pytest.mark.thorough
def test_processes_share_a_cache(store: Store, blobs: CountingBlobs, cache: Cache) -> None:
    references = [saved(store, number) for number in range(2)]
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        jobs = [(blobs.root, cache.folder, references[number % 2]) for number in range(6)]
        assert pool.starmap(_use, jobs) == [MIB] * 6
    assert [blobs.times_read(each) for each in references] == [1, 1]


def test_what_a_task_has_changed_is_fetched_again_and_damaged_while_others_use_it(
    store: Store, blobs: CountingBlobs, cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trackside.artifacts.cache.RETRY_S", 0.0)
    reference = saved(store, 1)
    with cache.lease(reference, store) as path:
        path.chmod(0o644)
        with path.open("r+b") as file:
            file.write(b"changed")
        with pytest.raises(ArtifactDamaged, match="changed by a task"):
            cache.lease(reference, store)
    with cache.lease(reference, store) as path:
        assert path.read_bytes() == b"\1" * MIB
    assert blobs.times_read(reference) == 2


def test_an_entry_that_can_not_be_fetched_leaves_nothing(store: Store, cache: Cache, tmp_path: Path) -> None:
    reference = saved(store, 1)
    (found,) = store.list_blobs()
    store.delete(found.sha256, found.saved_ms + 1)
    with pytest.raises(ArtifactMissing):
        cache.lease(reference, store)
    cache.evict()
    assert [path for path in cache.folder.rglob("*") if path.is_file()] == []


def test_what_a_killed_process_had_fetched_in_part_is_removed(store: Store, cache: Cache) -> None:
    reference = saved(store, 1)
    rest = cache.folder / "tmp" / reference.sha256
    rest.mkdir(parents=True)
    (rest / "part").write_bytes(b"half")
    (cache.folder / "locks").mkdir()
    (cache.folder / "locks" / reference.sha256).touch()
    with cache.lease(saved(store, 2), store):
        assert not rest.exists()
    with cache.lease(reference, store) as path:
        assert path.read_bytes() == b"\1" * MIB and os.access(path, os.R_OK)
