"""Waits until a stack is ready, and reports the progress of its processes."""

import contextlib
import time
from pathlib import Path

from trackside.embedded.errors import StackError, StackMissing
from trackside.embedded.files import last_lines
from trackside.embedded.folder import ProcessStatus, StackStatus, is_locked
from trackside.embedded.kafka.jars import ReportProgress
from trackside.embedded.supervision.live_status import current_status
from trackside.embedded.supervision.start_progress import StartProgress
from trackside.embedded.supervision.supervised import STARTS_BEFORE_FAILED

LOOK_EVERY_S = 0.02
LOOK_AT_PROGRESS_S = 0.5
SAY_EVERY_S = 10.0
"""How long a start may show nothing before it says what it waits for."""
OPTIONAL_S = 60.0
"""How long a start waits for Prometheus and Grafana; they continue to start after that."""


def await_ready(folder: Path, timeout_s: float, progress: ReportProgress) -> StackStatus:
    """Waits until all that a stack needs is ready; returns its status.

    StackError if it makes no progress for `timeout_s` seconds, see `StartProgress`.
    """
    start = StartProgress(time.monotonic(), timeout_s)
    is_over, look_due_s, say_due_s = False, 0.0, start.began_s + SAY_EVERY_S
    shown: set[tuple[str, str]] = set()
    while True:
        alive, now_s = is_locked(folder), time.monotonic()
        with contextlib.suppress(StackMissing):
            status = current_status(folder)
            needed = [each for each in status.processes.values() if not each.optional]
            for each in needed:
                if each.state == "blocked":
                    raise StackError(f"{each.name} can't start: {each.obstacle}")
                if _show(each, shown, progress):
                    say_due_s = now_s + SAY_EVERY_S
            if status.reason:
                raise StackError(status.reason)
            if status.state == "running":
                return status
            if now_s >= look_due_s:
                is_over, look_due_s = start.look(needed, now_s), now_s + LOOK_AT_PROGRESS_S
            if now_s >= say_due_s:
                say_due_s = now_s + SAY_EVERY_S
                progress(_waiting(needed, now_s - start.began_s))
        if not (folder / "lock").exists():
            raise StackError(f"{folder} was removed while its stack started: start it again")
        if not alive:
            raise StackError(f"the supervisor ended:\n{last_lines(folder / 'logs' / 'supervisor.log')}")
        if is_over:
            raise StackError(_why_late(folder, now_s - start.last_s))
        time.sleep(LOOK_EVERY_S)


def await_added(folder: Path, names: set[str], timeout_s: float = OPTIONAL_S) -> None:
    """Waits until the supervisor has processes of these names. StackError if that takes too long."""
    deadline = time.monotonic() + timeout_s
    while not names <= current_status(folder).processes.keys():
        if time.monotonic() > deadline or not is_locked(folder):
            raise StackError(f"the supervisor of {folder} did not start {', '.join(sorted(names))}")
        time.sleep(LOOK_EVERY_S)


def await_optional(folder: Path, progress: ReportProgress, timeout_s: float = OPTIONAL_S) -> StackStatus:
    """Waits until the optional processes of a stack are ready, or can't start; returns its status."""
    deadline = time.monotonic() + timeout_s
    shown: set[tuple[str, str]] = set()
    while True:
        status = current_status(folder)
        optional = [each for each in status.processes.values() if each.optional and not each.once]
        for each in optional:
            _show(each, shown, progress)
        if all(_is_settled(each) for each in optional) or time.monotonic() > deadline or status.reason:
            return status
        time.sleep(LOOK_EVERY_S)


def _show(each: ProcessStatus, shown: set[tuple[str, str]], progress: ReportProgress) -> bool:
    if each.state not in ("starting", "ready", "ended") or (each.name, each.state) in shown:
        return False
    shown.add((each.name, each.state))
    progress(f"{each.name}: {each.state}")
    return True


def _is_settled(each: ProcessStatus) -> bool:
    return each.state in ("ready", "blocked") or each.restarts >= STARTS_BEFORE_FAILED


def _waiting(needed: list[ProcessStatus], since_s: float) -> str:
    """Returns what a start waits for, and for how long it has."""
    late = [each.name for each in needed if each.state not in ("ready", "ended", "waiting")]
    return f"still waiting for {', '.join(late) or 'the next process'}, {since_s:.0f} s after the begin"


def _why_late(folder: Path, silent_s: float) -> str:
    try:
        needed = [each for each in current_status(folder).processes.values() if not each.optional]
    except StackMissing:
        needed = []
    tails = [
        f"{each.name} is {each.state}; the end of {each.log}:\n{last_lines(Path(each.log))}"
        for each in needed
        if each.state not in ("ready", "ended")
    ]
    return (
        f"the stack in {folder} did not get ready, and made no progress for {silent_s:.0f} s\n"
        + "\n".join(tails)
    )
