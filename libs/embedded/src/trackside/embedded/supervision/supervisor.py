"""One process that keeps the stack's processes running; `stack.start` begins it.

It has one thread, because its children die with the thread that spawned them. It adopts and kills the
orphans of a dead child, so a killed Postgres or worker leaves no process in the way of its successor.

No error of the disk ends it. A process that ended where it can't write is blocked: it starts when it can.
"""

import argparse
import contextlib
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from trackside.embedded import processes
from trackside.embedded.checks import is_responding
from trackside.embedded.files import last_lines
from trackside.embedded.folder import (
    DISK_LOW,
    PLAN_CHANGED,
    Plan,
    StackStatus,
    change_of_place,
    is_cut,
    open_leash,
    read_plan,
    write_status,
)
from trackside.embedded.postgres import server as postgres
from trackside.embedded.supervision import live_status
from trackside.embedded.supervision.problems import ProblemLog
from trackside.embedded.supervision.supervised import STARTS_BEFORE_FAILED, SupervisedProcess
from trackside.telemetry.disk_space import DiskWatch, write_obstacle
from trackside.telemetry.process_start import end_core_dumps

CHECK_EVERY_S = 0.05
DISKS_EVERY_S = 1.0
"""How often the disks are read, and how often a blocked process is tried."""
HEALTH_EVERY_S = 1.0
STATUS_FILE = "status_file"
SERVERS = ("kafka", "kafka-tls", "postgres")
"""Checks of processes without which no other can run."""
DUE = ("restarting", "blocked")
"""States of processes that are started when they are due."""


@dataclass
class Supervisor:
    """Starts, checks, restarts and stops the processes of one folder."""

    folder: Path
    plan: Plan
    lock: int | None = None
    supervised: list[SupervisedProcess] = field(default_factory=list)
    status: StackStatus = field(init=False)
    stop_requests: int = 0
    plan_changed: bool = False
    published: str = ""
    disks_due: float = 0.0
    health_due: float = 0.0
    listening: socket.socket | None = None

    def __post_init__(self) -> None:
        self.supervised += map(self._supervise, self.plan.processes)
        self.status = StackStatus(
            state="starting",
            supervisor_pid=os.getpid(),
            bootstrap_servers=self.plan.bootstrap_servers,
            postgres_dsn=self.plan.postgres_dsn,
            reader_dsn=self.plan.reader_dsn,
            processes={each.spec.name: each.status for each in self.supervised},
            health_port=self.plan.health_port,
            store=self.plan.store,
            secure=self.plan.secure,
        )
        self.problems = ProblemLog(self.status.problems)
        data = [Path(each.data) for each in self.plan.processes if each.data is not None]
        self.disks = DiskWatch([self.folder, *data], self.plan.disk)

    def _supervise(self, spec: processes.ProcessSpec) -> SupervisedProcess:
        return SupervisedProcess(spec, self.plan.stuck_s, self.plan.spares_after_s)

    def run(self) -> int:
        """Keeps the processes running until told to stop; returns 0, or 1 if the stack could not start."""
        awake, wakeup = socket.socketpair()
        awake.setblocking(False)
        wakeup.setblocking(False)
        signal.set_wakeup_fd(wakeup.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._on_stop)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(PLAN_CHANGED, self._on_plan_changed)
        processes.adopt_orphans()
        leash = open_leash(self.plan.leash)
        self._listen()
        sources = [awake.fileno(), *([leash] if leash is not None else [])]
        sources += [self.listening.fileno()] if self.listening is not None else []
        write_status(self.folder, self.status)  # without it nobody finds the stack, so this may fail
        while not (self.stop_requests or self.status.reason or is_cut(leash)):
            for step in (
                self._reap,
                self._check_disks,
                self._add_processes,
                self._start_due,
                self._check,
                self._check_health,
                self._publish,
            ):
                self._take(step)
            select.select(sources, [], [], self._pause_s())
            with contextlib.suppress(BlockingIOError):
                awake.recv(4096)
            self._answer()
        self._stop_all()
        return 1 if self.status.reason else 0

    def _take(self, step: Callable[[], None]) -> None:
        """Takes a step; an error of the system is shown as a problem, and the step is taken again later."""
        try:
            step()
        except OSError as error:
            self.problems.set(step.__name__, f"the supervisor can't go on: {error}")
        else:
            self.problems.set(step.__name__, "")

    def _listen(self) -> None:
        if self.plan.health_port is None:
            return
        try:
            self.listening = live_status.listen(self.plan.health_port)
        except OSError as error:
            port = self.plan.health_port
            self.problems.set("port", f"the supervisor can't listen on port {port}: {error.strerror}")

    def _answer(self) -> None:
        if self.listening is not None:
            live_status.answer_requests(self.listening, self.status)

    def _check_disks(self) -> None:
        """Notes which disks are nearly full, rotates logs; a folder moved or removed ends the stack."""
        now = time.monotonic()
        if now < self.disks_due:
            return
        self.disks_due = now + DISKS_EVERY_S
        self.problems.set(DISK_LOW, self.disks.check())
        self.problems.flush()
        rotate_logs(self.folder / "logs")
        if self.lock is not None and (change := change_of_place(self.folder, self.lock)):
            self.status.reason = f"{self.folder} was {change} while its stack ran"

    def _on_stop(self, *_: object) -> None:
        self.stop_requests += 1

    def _on_plan_changed(self, *_: object) -> None:
        self.plan_changed = True

    def _add_processes(self) -> None:
        """Adds the processes that plan.json has now and had not before; the others stay as they are."""
        if not self.plan_changed:
            return
        self.plan_changed = False
        self.plan = read_plan(self.folder)
        for spec in self.plan.processes:
            if spec.name not in self.status.processes:
                self.supervised.append(added := self._supervise(spec))
                self.status.processes[spec.name] = added.status

    def _pause_s(self) -> float:
        """Returns how long to wait for a signal before something is due, in seconds."""
        open_tier, now = self._open_tier(), time.monotonic()
        if any(each.status.state == "waiting" and each.spec.tier <= open_tier for each in self.supervised):
            return 0.0  # a tier opened just now
        pauses = [
            CHECK_EVERY_S for each in self.supervised if each.status.state == "starting" and not each.is_once
        ]
        pauses += [max(0.0, each.due - now) for each in self.supervised if each.status.state in DUE]
        return min([*pauses, max(0.0, self.disks_due - now)])

    def _open_tier(self) -> int:
        """Returns the lowest tier that was not ready yet; processes above it wait."""
        return min((each.spec.tier for each in self.supervised if not each.has_begun), default=sys.maxsize)

    def _start_due(self) -> None:
        open_tier, now = self._open_tier(), time.monotonic()
        for each in self.supervised:
            waits = each.status.state == "waiting" and each.spec.tier <= open_tier
            if waits or (each.status.state in DUE and now >= each.due):
                self._start(each)

    def _start(self, each: SupervisedProcess) -> None:
        each.started = time.monotonic()
        if each.status.state == "blocked" and self._is_blocked(each):
            return
        log = self._open_log(each)
        try:
            if each.spec.data is not None and each.spec.check == "postgres":
                postgres.clear_stale_pid(Path(each.spec.data))
            each.spawn(log)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.write(log, f"could not start {each.spec.argv[0]}: {error}\n".encode())
            self._ended(each, 127)
            return
        finally:
            os.close(log)
        each.status.state = "starting"

    def _open_log(self, each: SupervisedProcess) -> int:
        """Opens the log of a process; one that can't be opened doesn't keep it from running."""
        subject, name = f"{each.spec.name}_log", each.spec.name
        try:
            log = processes.open_log(each.spec.log)
        except OSError as error:
            sentence = f"{each.spec.log} can't be written: {error.strerror}; what {name} writes there is lost"
            self.problems.set(subject, sentence)
            return os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        self.problems.set(subject, "")
        return log

    def _is_blocked(self, each: SupervisedProcess) -> bool:
        """Returns whether a process can't write where it has to; it is tried again after a second then."""
        folder = self.folder if each.spec.data is None else Path(each.spec.data)
        each.status.obstacle = write_obstacle(folder)
        self.problems.set(f"{each.spec.name}_blocked", each.status.obstacle)
        if not each.status.obstacle:
            return False
        each.status.state = "blocked"
        each.due = time.monotonic() + DISKS_EVERY_S
        return True

    def _check(self) -> None:
        for each in self.supervised:
            if each.status.state != "starting" or each.is_once:
                continue
            if not is_responding(each.spec.check, each.port, path=each.spec.ready_path):
                each.look_late(time.monotonic())
            else:
                each.status.state, each.status.behind = "ready", 0
                each.was_ready = True
                self.problems.set(f"{each.spec.name}_failed", "")
                if each.spec.check in SERVERS:
                    for other in self.supervised:
                        if other.spec.tier > each.spec.tier:
                            other.stop_waiting()
        required = [each for each in self.supervised if not each.spec.optional]
        if self.status.state == "starting" and all(each.has_begun for each in required):
            self.status.state = "running"

    def _check_health(self) -> None:
        """Ends services that are stuck: they are started again as if they had ended. Keeps spares."""
        now = time.monotonic()
        if now < self.health_due:
            return
        self.health_due = now + HEALTH_EVERY_S
        for each in self.supervised:
            if each.process is None:
                continue
            if each.judge(now, self._has_log):
                # Its faulthandler writes the stack traces of all threads; one that is stopped has to go on.
                each.process.send_signal(signal.SIGABRT)
                each.process.send_signal(signal.SIGCONT)
            elif now >= each.kill_due_s:
                processes.signal_group(each.process.pid, signal.SIGKILL)
        any(each.keep_spare(now) for each in self.supervised)  # at most one: each imports for a second

    def _has_log(self) -> bool:
        """Returns whether the stack's Kafka answers; one elsewhere is not asked."""
        servers = (each for each in self.supervised if each.spec.name == "kafka")
        return all(is_responding(each.spec.check, each.port) for each in servers)

    def _reap(self) -> None:
        for each in self.supervised:
            if each.process is not None and (code := each.process.poll()) is not None:
                processes.signal_group(each.process.pid, signal.SIGKILL)
                self._ended(each, code)
        self._kill_orphans()

    def _ended(self, each: SupervisedProcess, code: int) -> None:
        """Records that a process ended: it is done, restarted, blocked, or the stack has failed."""
        now = time.monotonic()
        each.note_end(code)
        if each.is_once and code == 0:
            each.status.state = "ended"
            each.was_ready = True
            return
        each.status.restarts += 1
        if self._is_blocked(each):  # an end for lack of room says nothing about the next start
            return
        each.wait_longer(now)
        if not each.has_failed:
            return
        name, log = each.spec.name, each.spec.log
        failed = f"{name} ended with {code} {STARTS_BEFORE_FAILED} times before it was ready"
        if (each.is_once and not each.spec.optional) or each.spec.check in SERVERS:
            self.status.reason = f"{failed}; the end of {log}:\n{last_lines(Path(log))}"
        elif each.spec.optional:
            self.problems.set(f"{name}_failed", f"{failed}, and is tried again; its output is in {log}")

    def _kill_orphans(self) -> None:
        """Kills orphans of dead children, but for those that keep the tasks of a worker for the next one."""
        known = {pid for each in self.supervised for pid in each.pids}
        for pid in processes.children_of(os.getpid()):
            if pid in known or processes.outlives_parent(pid):
                continue
            with contextlib.suppress(ProcessLookupError, ChildProcessError):
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, os.WNOHANG)

    def _publish(self) -> None:
        """Writes the status if it has changed; while it can't be written, it is in memory only."""
        if (text := repr(self.status)) == self.published:
            return
        try:
            write_status(self.folder, self.status)
        except OSError as error:
            sentence = f"{self.folder}/stack.json can't be written and is out of date: {error.strerror}"
            self.problems.set(STATUS_FILE, sentence)
            return
        self.published = text
        if STATUS_FILE in self.status.problems:
            self.problems.set(STATUS_FILE, "")
            self._publish()

    def _stop_all(self) -> None:
        """Ends the processes, the last tier first: each gets its signal, a grace period, then SIGKILL."""
        self.status.state = "stopping"
        self._publish()
        for tier in sorted({each.spec.tier for each in self.supervised}, reverse=True):
            self._stop_tier([each for each in self.supervised if each.spec.tier == tier])
        processes.end_all_children()
        self.status.state = "failed" if self.status.reason else "stopped"
        self._publish()

    def _stop_tier(self, tier: list[SupervisedProcess]) -> None:
        running = [(each, each.process) for each in tier if each.process is not None]
        for each, process in running:
            process.send_signal(signal.Signals[each.spec.stop_signal])
        deadline = time.monotonic() + self.plan.grace_s
        for each, process in running:
            # a second request to stop means at once
            while process.poll() is None and time.monotonic() < deadline and self.stop_requests < 2:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(timeout=CHECK_EVERY_S)
                self._answer()
            processes.signal_group(process.pid, signal.SIGKILL)
            process.wait()
            each.process = each.status.pid = None
            each.status.state = "ended"


def _detach() -> None:
    """Detaches from the starting process: a child continues in a session of its own."""
    if os.fork() > 0:
        os._exit(0)
    os.setsid()


def _remove(folder: Path) -> None:
    postgres.remove_data(folder / "postgres")
    shutil.rmtree(folder, ignore_errors=True)


def main() -> int:
    """Runs the supervisor of one folder in the background; exit 0 stopped, 1 the stack could not start."""
    parser = argparse.ArgumentParser(prog="trackside.embedded.supervision.supervisor")
    parser.add_argument("folder", type=Path)
    parser.add_argument(
        "locks",
        type=int,
        nargs="+",
        help="descriptors of locks, held until the end: the folder's, and others",
    )
    given = parser.parse_args()
    _detach()
    for lock in given.locks:
        os.set_inheritable(lock, False)
    end_core_dumps()  # one of a service that is ended with SIGABRT would fill the disk, and has secrets
    plan = read_plan(given.folder)
    try:
        code = Supervisor(given.folder, plan, given.locks[0]).run()
    except OSError as error:
        ProblemLog({}).line(f"the stack can't be started in {given.folder}: {error.strerror}")
        return 1
    if plan.ephemeral and code == 0:
        _remove(given.folder)
    return code


ROTATED_BYTES = 10_000_000
"""How long a log gets: as long again is what was before it, in `NAME.log.1`."""


def rotate_logs(folder: Path) -> None:
    """Moves what is in long logs to `NAME.log.1`, in place of what was there.

    A process that runs has its log open: so the file is copied and emptied, and the process appends to its
    new end. What is written between both is lost. Without room for the copy the log stays as it is.
    """
    for log in folder.glob("*.log"):
        with suppress(OSError):  # it can't be read or written now: a later call does it
            if log.stat().st_size > ROTATED_BYTES:
                before = log.with_suffix(".log.1")
                before.unlink(missing_ok=True)
                shutil.copy(log, before)
                os.truncate(log, 0)


if __name__ == "__main__":
    sys.exit(main())
