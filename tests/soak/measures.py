"""What the processes and folders of a stack take, as the system says it."""

import os
from collections import defaultdict
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.chaos.harness import worker_folder
from tests.chaos.processes import forkservers, processes_in
from trackside.cli.commands.status import readiness
from trackside.embedded.folder import ProcessStatus
from trackside.embedded.processes import children_of
from trackside.embedded.stack import Stack, load
from trackside.worker.own_memory import KIB, numbers

BLOCK_BYTES = 512
TASKS = "tasks"
"""All processes of tasks together: they come and end."""
POSTGRES = "postgres"
LOG, ROWS, WAL, ARTIFACTS, PAST = "topics", "rows", "wal", "store", "past"
"""What grows with the log: Kafka's topics, Postgres' tables and write-ahead log, artifacts, past states."""
KAFKA = "kafka"
"""What Kafka writes besides its topics, such as the log of its controller."""


def sample(running: Stack, own_pid: int) -> dict[str, Any]:
    """Returns the memory and the open files of each process, the bytes of each folder, lag and readiness."""
    status = load(running.folder).status
    named = {name: each.pid for name, each in status.processes.items() if not each.once}
    found = {name: [pid] for name, pid in named.items() if pid is not None}
    found |= {"supervisor": [status.supervisor_pid], "soak": [own_pid]}
    if POSTGRES in found:
        found[POSTGRES] += children_of(found[POSTGRES][0])
    if keepers := forkservers(running):
        found["forkserver"] = keepers[-1:]
    found[TASKS] = processes_in(worker_folder(running.folder) / "tasks")
    answers = answers_of(status.processes)
    lags = {name: (answer or {}).get("lag_s") or {} for name, answer in answers.items()}
    return {
        "processes": {
            name: {"pid": pids[0], "pss": sum(map(pss_bytes, pids)), "files": sum(map(open_files, pids))}
            for name, pids in found.items()
            if pids
        },
        "disk": dict(folder_bytes(running.folder)),
        "lag_s": max((lag for each in lags.values() for lag in each.values()), default=0.0),
        "ready": is_ready(status.processes.values(), answers),
    }


def is_ready(processes: Any, answers: dict[str, dict[str, Any] | None]) -> bool:
    """Returns whether all processes are ready, and each service says so itself."""
    return all(each.state in ("ready", "ended") for each in processes) and all(
        answer is not None and bool(answer.get("ready")) for answer in answers.values()
    )


def everything_is_ready(running: Stack) -> bool:
    """Asks the supervisor and each service whether it is ready."""
    processes = load(running.folder).status.processes
    return is_ready(processes.values(), answers_of(processes))


def answers_of(processes: Mapping[str, ProcessStatus]) -> dict[str, dict[str, Any] | None]:
    """Asks all services at once about their readiness; None for one that does not answer."""
    ports = {name: each.health_port for name, each in processes.items() if each.health_port}
    with ThreadPoolExecutor(len(ports) + 1) as threads:
        return dict(zip(ports, threads.map(readiness, ports.values()), strict=True))


def pss_bytes(pid: int) -> int:
    """Returns the memory of a process, with its share of what it shares with others; 0 if it has ended."""
    return numbers(Path(f"/proc/{pid}/smaps_rollup"), KIB).get("Pss", 0)


def open_files(pid: int) -> int:
    """Returns how many descriptors a process has open; 0 if it has ended."""
    try:
        return len(os.listdir(f"/proc/{pid}/fd"))  # noqa: PTH208 - a path for each takes ten times as long
    except OSError:
        return 0


def folder_bytes(folder: Path) -> dict[str, int]:
    """Returns the bytes on the disk by what they are for."""
    found: defaultdict[str, int] = defaultdict(int)
    for path, size in _files(str(folder)):
        found[_purpose(path[len(str(folder)) + 1 :].split("/"))] += size
    return found


def _purpose(parts: list[str]) -> str:
    match parts:
        case ["kafka", "data", topic, *_] if topic.startswith("trackside."):
            return LOG
        case ["postgres", *rest] if "pg_wal" in rest:
            return WAL
        case ["postgres", *_]:
            return ROWS
        case [first, _, *_]:
            return first
        case _:
            return "others"


def _files(folder: str) -> Iterator[tuple[str, int]]:
    """Yields the files below a folder with what they take; those that are removed meanwhile take nothing."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with suppress(OSError):
                if entry.is_dir(follow_symlinks=False):
                    yield from _files(entry.path)
                else:
                    yield entry.path, entry.stat(follow_symlinks=False).st_blocks * BLOCK_BYTES
