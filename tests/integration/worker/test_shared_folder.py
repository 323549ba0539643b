"""The folder in which the workers of a host say what they have given away."""

import os
from pathlib import Path

import pytest

from tests.nvml.standin import GIB
from trackside.worker.host.neighbours import Neighbour, Neighbourhood, NeighbourTask
from trackside.worker.host.shared_folder import SharedFolder, SharedFolderError


def uses_gpu(task_id: str) -> Neighbour:
    task = NeighbourTask(task_id=task_id, stage="runs", uuids=("GPU-7",), cuda_memory_bytes=14 * GIB)
    return Neighbour(worker_id=task_id, incarnation=task_id, tasks=(task,))


def neighbourhoods(tmp_path: Path) -> list[Neighbourhood]:
    made = []
    for name in ("w1", "w2"):
        (tmp_path / name).mkdir(exist_ok=True)
        made.append(Neighbourhood(SharedFolder(tmp_path / "host"), tmp_path / name))
    return made


def assert_others(worker: Neighbourhood, *others: Neighbour) -> None:
    with worker.deciding():
        assert worker.others == others


def publish(worker: Neighbourhood, task: Neighbour) -> None:
    with worker.deciding():
        worker.publish(task)


def test_what_a_worker_has_counts_until_it_is_gone(tmp_path: Path) -> None:
    first, second = neighbourhoods(tmp_path)
    with first.deciding() as decides:
        assert decides
        first.publish(uses_gpu("a"))
        with second.deciding() as decides_too:
            assert not decides_too
    assert_others(second, uses_gpu("a"))
    first.close()
    assert_others(second)
    second.close()


def test_the_file_of_a_worker_that_was_killed_counts_for_nothing_and_is_removed(tmp_path: Path) -> None:
    first, second = neighbourhoods(tmp_path)
    publish(first, uses_gpu("a"))
    left = next((tmp_path / "host").glob("worker-*.json"))
    content = left.read_bytes()
    first.close()
    left.write_bytes(content)
    assert_others(second)
    assert not left.exists()
    first, _ = neighbourhoods(tmp_path)
    publish(first, uses_gpu("a"))
    assert_others(second, uses_gpu("a"))
    first.close()
    second.close()


@pytest.mark.parametrize("content", ["{", "[]", '{"worker_id": "w", "incarnation": "i", "tasks": -1}', "\0"])
def test_a_file_that_is_not_a_worker_s_is_left_out(tmp_path: Path, content: str) -> None:
    [worker, _] = neighbourhoods(tmp_path)
    folder = SharedFolder(tmp_path / "host")
    (tmp_path / "host" / "worker-1-2.json").write_text(content)
    lock = folder.lock("worker-1-2.json")
    assert lock is not None
    with worker.deciding() as decides:
        assert decides
        assert not worker.others
    os.close(lock)
    worker.close()


def test_a_file_that_was_removed_is_written_again(tmp_path: Path) -> None:
    first, second = neighbourhoods(tmp_path)
    publish(first, uses_gpu("a"))
    for path in (tmp_path / "host").iterdir():
        path.unlink()
    publish(first, uses_gpu("a"))
    assert_others(second, uses_gpu("a"))
    first.close()
    second.close()


def test_the_shared_folder_is_open_for_all_users_and_follows_no_links(tmp_path: Path) -> None:
    folder = SharedFolder(tmp_path / "host")
    assert (tmp_path / "host").stat().st_mode & 0o7777 == 0o1777
    lock = folder.lock("GPU-7.lock")
    assert lock is not None and folder.lock("GPU-7.lock") is None
    os.close(lock)
    assert (tmp_path / "host" / "GPU-7.lock").stat().st_mode & 0o777 == 0o666
    (tmp_path / "host" / "link.lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="link"):
        folder.lock("link.lock")
    (tmp_path / "there").symlink_to(tmp_path / "host")
    with pytest.raises(SharedFolderError, match=r"not a folder.*TRACKSIDE_WORKER_HOST_DIR"):
        SharedFolder(tmp_path / "there")
