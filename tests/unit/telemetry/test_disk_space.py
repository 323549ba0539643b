import os
from pathlib import Path

import pytest

from tests.small_disk import small_disk
from trackside.telemetry.disk_limits import DiskLimits
from trackside.telemetry.disk_space import DiskWatch, write_obstacle

MIB = 2**20


def test_a_disk_with_less_room_than_its_limit_is_reported_once_with_folder_and_sizes(tmp_path: Path) -> None:
    assert DiskWatch([tmp_path], DiskLimits(100.0, 0)).check() == ""
    assert write_obstacle(tmp_path / "not" / "there") == "", "the folder above decides"
    (tmp_path / "below").mkdir()
    folders = [tmp_path / "missing", tmp_path, tmp_path / "below"]
    disk = os.statvfs(tmp_path)
    watch = DiskWatch(folders, DiskLimits(100.0, disk.f_bavail * disk.f_frsize + 2**40))
    sentence = watch.check()
    assert sentence.startswith(f"the disk of {tmp_path} is nearly full: ")
    assert " are free, " in sentence and sentence.endswith(" needed")
    assert list(watch.low) == [str(tmp_path)]


def test_new_work_goes_on_only_with_a_tenth_more_room_than_stopped_it(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "100m") as disk:
        watch = DiskWatch([disk.folder], DiskLimits(100.0, 50 * MIB))
        assert watch.check() == ""
        disk.fill(leave_bytes=49 * MIB)
        assert "49 MiB of 100 MiB are free, 55 MiB needed" in watch.check()
        os.truncate(disk.filler, 48 * MIB)  # 52 MiB are free
        assert watch.check(), "the limit is passed, but hardly"
        disk.empty()
        assert watch.check() == ""


def test_a_disk_is_low_by_its_percentage_too(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "100m") as disk:
        watch = DiskWatch([disk.folder], DiskLimits(95.0, 0))
        disk.fill(leave_bytes=6 * MIB)
        assert watch.check() == ""
        disk.fill(leave_bytes=4 * MIB)
        assert "4 MiB of 100 MiB are free" in watch.check()


def test_a_disk_without_inodes_is_low_and_can_not_be_written(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "100m", inodes=300) as disk:
        watch = DiskWatch([disk.folder], DiskLimits(95.0, 0))
        assert (watch.check(), write_obstacle(disk.folder)) == ("", "")
        for path in disk.take_inodes()[:3]:
            path.unlink()
        assert "3 of 300 inodes (files) free" in watch.check()
        said = f"{disk.folder} has no room: 3 inodes (files) free, 100 needed"
        assert write_obstacle(disk.folder) == said


def test_a_full_disk_can_not_be_written_and_a_nearly_full_one_can_not_hold_a_server(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "100m") as disk:
        assert write_obstacle(disk.folder) == ""
        disk.fill(leave_bytes=20 * MIB)
        assert write_obstacle(disk.folder) == f"{disk.folder} has no room: 20 MiB free, 64 MiB needed"
        disk.fill()
        assert write_obstacle(disk.folder) == f"{disk.folder} can't be written: No space left on device"
        disk.empty()
        assert (write_obstacle(disk.folder), list(disk.folder.iterdir())) == ("", [])


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission_can_not_be_written(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    assert write_obstacle(tmp_path) == f"{tmp_path} can't be written: Permission denied"
