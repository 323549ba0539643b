"""Each process of a stack is the first to meet a full disk.

Each has a small disk of its own, so that the others can write. No limit stops new tasks before one is full.
"""

import os
import signal
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.full_disk import SEARCH_ID, SearchOnSmallDisk, is_running, public_folder
from tests.polling import poll_until_sync
from tests.small_disk import SmallDisk, small_disk

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(900),
]

NO_LIMITS = {"TRACKSIDE_DISK_LOW_FREE": "0", "TRACKSIDE_DISK_LOW_PERCENT": "100"}
TRIALS = 400
SIZES = {
    ".trackside": "100m",
    ".trackside/logs": "100m",
    ".trackside/kafka": "400m",
    ".trackside/postgres": "400m",
    ".trackside/services/worker": "100m",
    "spilled": "100m",
}
"""Folders with a disk of their own; the services spill to the last one."""


def is_blocked(search: SearchOnSmallDisk, name: str) -> bool:
    """Returns whether a process waits until it can write."""
    return search.status.processes[name].state == "blocked"


def kafka_is_blocked(search: SearchOnSmallDisk) -> None:
    """Waits until the broker has ended and is kept from starting."""
    poll_until_sync(lambda: is_blocked(search, "kafka"))


def postgres_takes_nothing(search: SearchOnSmallDisk) -> None:
    """Waits until the database has ended, or `trackside status` says that rows wait for it."""

    def is_waited_for() -> bool:
        rows = search.shown_status()[1]["processes"]
        waiting = {row["name"] for row in rows if "Postgres" in row["waiting"]}
        return is_blocked(search, "postgres") or {"dispatcher", "scheduler"} <= waiting

    poll_until_sync(is_waited_for)


def worker_gets_no_task(search: SearchOnSmallDisk) -> None:
    """Waits until the worker says that it can't write."""

    def is_told() -> bool:
        rows = search.shown_status()[1]["processes"]
        return any(row["name"] == "worker" and "room on its disk" in row["waiting"] for row in rows)

    poll_until_sync(is_told)


def status_is_in_memory(search: SearchOnSmallDisk) -> None:
    """Kills a service, which the supervisor can't write down."""
    victim = search.status.processes["summary-indexer"].pid
    assert victim is not None
    os.kill(victim, signal.SIGKILL)
    poll_until_sync(lambda: "status_file" in search.status.problems)


def trials_continue(search: SearchOnSmallDisk) -> None:
    """Waits for trials that end without that disk."""
    search.await_trials(search.ended(SEARCH_ID) + 20)


FIRST: dict[str, tuple[str, Callable[[SearchOnSmallDisk], None]]] = {
    "kafka": (".trackside/kafka", kafka_is_blocked),
    "postgres": (".trackside/postgres", postgres_takes_nothing),
    "worker": (".trackside/services/worker", worker_gets_no_task),
    "supervisor": (".trackside", status_is_in_memory),
    "logs": (".trackside/logs", trials_continue),
    "dispatcher, scheduler, summary-indexer": ("spilled", trials_continue),
}


@pytest.mark.parametrize("first", FIRST)
def test_a_search_survives_that_one_process_meets_a_full_disk_first(first: str, leash: Path) -> None:
    filled, meets = FIRST[first]
    with ExitStack() as mounts:
        public = mounts.enter_context(public_folder())
        disks: dict[str, SmallDisk] = {
            name: mounts.enter_context(small_disk(public / name, size)) for name, size in SIZES.items()
        }
        temporary = {"TMPDIR": str(public / "spilled"), "SQLITE_TMPDIR": str(public / "spilled")}
        search = SearchOnSmallDisk(public, leash, **NO_LIMITS, **temporary)
        with search.running(TRIALS):
            supervisor = search.status.supervisor_pid
            with disks[filled].kept_full():
                meets(search)
                assert is_running(supervisor)
            search.await_ready()
            search.assert_nothing_is_lost(SEARCH_ID)
            assert search.status.supervisor_pid == supervisor
