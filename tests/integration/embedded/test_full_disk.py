"""The disk under a stack gets full: new work waits, what can't write is stopped, and all of it goes on."""

import os
import signal
from pathlib import Path

import pytest

from tests.full_disk import SEARCH_ID, SearchOnSmallDisk, is_running, public_folder
from tests.polling import poll_until_sync
from tests.small_disk import small_disk
from trackside.embedded.folder import DISK_LOW
from trackside.embedded.live_status import current_status

pytestmark = pytest.mark.timeout(600)

MIB = 2**20
LOW = {"TRACKSIDE_DISK_LOW_FREE": "100MiB", "TRACKSIDE_DISK_LOW_PERCENT": "100"}


def test_a_stack_survives_a_full_disk_and_finishes_its_searches_when_there_is_room(leash: Path) -> None:
    with public_folder() as public, small_disk(public, "600m") as disk:
        search = SearchOnSmallDisk(disk.folder, leash, **LOW)
        with search.running(trials=150):
            supervisor = search.status.supervisor_pid
            disk.fill(leave_bytes=80 * MIB)
            poll_until_sync(lambda: DISK_LOW in search.status.problems)
            search.submit("second", trials=3)  # commands are accepted, their tasks wait
            code, shown = search.shown_status()
            assert (code, shown["ready"], shown["disk_low"]) == (1, False, True)
            assert sum(row["tasks"] for row in shown["queue"]) >= 3
            ended = search.ended(SEARCH_ID)
            assert search.ended("second") == 0

            disk.fill()
            poll_until_sync(lambda: search.status.processes["kafka"].state == "blocked")
            os.kill(search.status.processes["scheduler"].pid or 0, signal.SIGKILL)
            poll_until_sync(lambda: search.status.processes["scheduler"].state == "blocked")
            code, shown = search.shown_status()
            assert code == 1
            assert any("No space left on device" in problem for problem in shown["problems"])
            assert "running" in (search.folder / "stack.json").read_text(), "the file is out of date"
            assert is_running(supervisor)

            disk.empty()
            search.await_ready()
            search.assert_nothing_is_lost(SEARCH_ID, "second")
            assert current_status(search.folder).supervisor_pid == supervisor
            assert ended < 150
