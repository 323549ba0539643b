"""The disk under a stack gets full: new work waits, what can't write is stopped, and all of it goes on."""

import json
import os
import shutil
import signal
import sys
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.full_disk import SEARCH_ID, SearchOnSmallDisk, is_running, public_folder
from tests.integration.embedded.test_stack import WITHOUT_SERVERS, kill, service
from tests.polling import poll_until_sync
from tests.small_disk import SmallDisk, small_disk
from trackside.embedded import stack
from trackside.embedded.errors import StackError
from trackside.embedded.folder import DISK_LOW, ProcessStatus
from trackside.embedded.options import ServiceSpec, StackOptions
from trackside.embedded.supervision.live_status import current_status
from trackside.telemetry.disk_limits import DiskLimits

pytestmark = pytest.mark.timeout(600)

MIB = 2**20
LOW = {"TRACKSIDE_DISK_LOW_FREE": "100MiB", "TRACKSIDE_DISK_LOW_PERCENT": "100"}


@pytest.mark.long
def test_a_stack_survives_a_full_disk_and_continues_its_searches_when_there_is_room(leash: Path) -> None:
    with public_folder() as public, small_disk(public, "600m") as disk:
        search = SearchOnSmallDisk(disk.folder, leash, **LOW)
        with search.running(trials=100_000):  # it must not be over before the disk is full, on any machine
            supervisor = search.status.supervisor_pid
            disk.fill(leave_bytes=80 * MIB)
            poll_until_sync(lambda: DISK_LOW in search.status.problems)
            search.submit("second", trials=3)  # commands are accepted, their tasks wait
            code, shown = search.shown_status()
            assert (code, shown["ready"], shown["disk_low"]) == (1, False, True)
            poll_until_sync(lambda: search.queued() >= 3)
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
            search.await_trials(ended + 5)
            search.home.run_ok("stop", SEARCH_ID)
            search.assert_nothing_is_lost(SEARCH_ID, "second")
            assert current_status(search.folder).supervisor_pid == supervisor


NO_LIMITS = DiskLimits(100.0, 0)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    """Yields a small disk for a stack without servers, which is stopped at the end."""
    with small_disk(tmp_path / "disk", "200m", inodes=400) as mounted:
        yield mounted
        stack.stop(mounted.folder / ".trackside")


def start(disk: SmallDisk, *names: str) -> stack.Stack:
    """Starts a stack of services that answer only."""
    services = [service(name) for name in names]
    options = StackOptions(services, disk=NO_LIMITS, **WITHOUT_SERVERS)
    return stack.start(disk.folder / ".trackside", options)


def assert_blocked_until(running: stack.Stack, name: str, reason: str, mended: Callable[[], None]) -> None:
    """Kills a service, which is blocked for that reason, and ready again once it is mended."""
    supervisor = running.status.supervisor_pid
    victim = kill(running, name)

    def found() -> ProcessStatus:
        return stack.load(running.folder).status.processes[name]

    poll_until_sync(lambda: found().state == "blocked")
    assert reason in found().obstacle
    mended()
    poll_until_sync(lambda: found().state == "ready" and found().pid != victim)
    poll_until_sync(lambda: not stack.load(running.folder).status.problems)
    assert stack.load(running.folder).status.supervisor_pid == supervisor
    assert json.loads((running.folder / "stack.json").read_text())["processes"][name]["state"] == "ready"


def remove(files: list[Path]) -> None:
    """Removes files."""
    for file in files:
        file.unlink()


def test_without_inodes_a_service_is_blocked_until_there_are_some(disk: SmallDisk) -> None:
    running = start(disk, "echo")
    taken = disk.take_inodes()
    assert_blocked_until(running, "echo", "No space left", lambda: remove(taken))


@pytest.mark.long
def test_on_a_read_only_disk_a_service_is_blocked_until_it_can_be_written(disk: SmallDisk) -> None:
    # Only a file system on which no file is open for writing can be made read-only: the logs are, so this
    # one has the services' data.
    data = disk.folder.parent / "data"
    with small_disk(data, "100m") as read_only:
        spec = service("echo")
        env = {"TRACKSIDE_WORKER_DATA_DIR": str(data)}
        options = StackOptions([replace(spec, env=env)], disk=NO_LIMITS, **WITHOUT_SERVERS)
        running = stack.start(disk.folder / ".trackside", options)
        read_only.make_writable(writable=False)
        assert_blocked_until(
            running, "echo", "Read-only file system", lambda: read_only.make_writable(writable=True)
        )


def test_a_blocked_service_does_not_keep_the_others_from_running_and_starts_are_not_counted_as_failed(
    disk: SmallDisk,
) -> None:
    running = start(disk, "echo", "other")
    disk.fill()
    kill(running, "echo")
    poll_until_sync(lambda: stack.load(running.folder).status.processes["echo"].state == "blocked")
    status = stack.load(running.folder).status
    assert (status.state, status.reason, status.processes["other"].state) == ("running", None, "ready")
    assert status.processes["echo"].restarts == 1


def test_a_stack_is_not_started_on_a_full_disk_and_one_sentence_says_why(disk: SmallDisk) -> None:
    disk.fill(leave_bytes=2 * MIB)
    exits = ServiceSpec("exits", argv=[sys.executable, "-c", "raise SystemExit(1)"])
    with pytest.raises(StackError, match=r"exits can't start: .* has no room: .* MiB free, 64 MiB needed"):
        stack.start(disk.folder / ".trackside", StackOptions([exits], disk=NO_LIMITS, **WITHOUT_SERVERS))


def test_the_answers_of_a_supervisor_have_no_password_and_it_ends_with_its_folder(disk: SmallDisk) -> None:
    running = start(disk, "echo")
    with urllib.request.urlopen(f"http://127.0.0.1:{running.status.health_port}/status") as answer:
        told = json.loads(answer.read())
    assert told["state"] == "running" and "postgres_dsn" not in told
    with urllib.request.urlopen(f"http://127.0.0.1:{running.status.health_port}/ready") as answer:
        assert json.loads(answer.read()) == {"service": "supervisor", "ready": True, "waiting": None}
    shutil.rmtree(running.folder)
    poll_until_sync(lambda: not is_running(running.status.supervisor_pid))
