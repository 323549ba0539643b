"""A process under the supervisor: its spec, its status, and how long it waits before it is started again."""

import math
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from trackside.embedded import processes
from trackside.embedded.folder import ProcessStatus
from trackside.embedded.processes import ProcessSpec
from trackside.embedded.service_health import DUMP_S, STUCK_S, HealthWatch
from trackside.embedded.supervision.live_status import json_answer
from trackside.embedded.supervision.spares import Spare
from trackside.eventlog.clock import now_ms
from trackside.telemetry.process_start import describe_exit

FIRST_BACKOFF_S = 0.2
LONGEST_BACKOFF_S = 5.0
LONGEST_OPTIONAL_BACKOFF_S = 60.0
"""Of Prometheus and Grafana, which are optional: a start of Grafana takes seconds of a processor."""
STEADY_AFTER_S = 10.0
STARTS_BEFORE_FAILED = 3
LATE_EVERY_S = 1.0
LATE_AFTER_S = 10.0
"""For how long a service folds the log at its start before the others no longer wait for it."""
STUCK = "it was stuck: no turn of its event loop for {seconds:g} s; its log has the stack traces"


def next_backoff(backoff_s: float, alive_s: float, longest_s: float = LONGEST_BACKOFF_S) -> float:
    """Returns the pause in s before the next start: none after 10 s alive, else 0.2, doubled each time."""
    if alive_s >= STEADY_AFTER_S:
        return 0.0
    return min(max(FIRST_BACKOFF_S, 2 * backoff_s), longest_s)


@dataclass
class SupervisedProcess:
    """A process spec, its status, and the process that runs now, if any."""

    spec: ProcessSpec
    stuck_s: float = STUCK_S
    spare_after_s: float | None = None
    status: ProcessStatus = field(init=False)
    spare: Spare = field(init=False)
    process: subprocess.Popen[bytes] | None = None
    started: float = 0.0
    due: float = 0.0
    backoff_s: float = 0.0
    was_ready: bool = False
    failed_starts: int = 0
    health: HealthWatch | None = None
    """What asks a service whether it works; None before it is ready."""
    kill_due_s: float = math.inf
    """When it is killed, as it was stuck; math.inf if it is not."""
    late_since_s: float = math.inf
    """Since when it runs and folds the log, and is not ready; math.inf if it does not."""
    late_due_s: float = 0.0

    def __post_init__(self) -> None:
        spec = self.spec
        self.spare = Spare(spec, self.spare_after_s)
        self.status = ProcessStatus(
            spec.name,
            health_port=spec.health_port,
            log=spec.log,
            port=spec.port or spec.health_port,
            optional=spec.optional,
            once=self.is_once,
        )

    @property
    def is_once(self) -> bool:
        """Returns whether the process is a command that runs once."""
        return self.spec.check == "exit"

    def wait_longer(self, now: float) -> None:
        """Sets when the process, which has ended, is started again."""
        longest_s = LONGEST_OPTIONAL_BACKOFF_S if self.spec.optional else LONGEST_BACKOFF_S
        self.backoff_s = next_backoff(self.backoff_s, now - self.started, longest_s)
        self.due = now + self.backoff_s
        self.status.state = "restarting"
        self.failed_starts += not self.was_ready

    def stop_waiting(self) -> None:
        """Gets it started at once if it waits to be: what it has ended for is there again."""
        if self.status.state == "restarting":
            self.due = self.backoff_s = 0.0

    @property
    def pids(self) -> list[int]:
        """The processes that it has now: its own, and that of its spare."""
        return [each.pid for each in (self.process, self.spare.process) if each is not None]

    def spawn(self, log: int) -> None:
        """Starts the process, or lets its spare become it; OSError if it can't be started."""
        self.process = self.spare.take() or processes.spawn(self.spec, log)
        self.status.pid = self.process.pid

    def keep_spare(self, now_s: float) -> bool:
        """Starts a spare if the process lacks one and has been ready for a while; returns whether it did."""
        return self.status.state == "ready" and self.spare.keep(now_s, now_s - self.started)

    def judge(self, now_s: float, has_log: Callable[[], bool]) -> bool:
        """Returns whether the process is to write its stack traces and end: it is stuck, and Kafka is not."""
        if self.process is None or self.status.state != "ready" or self.spec.health_port is None:
            return False
        if self.health is None:
            self.health = HealthWatch(self.spec.health_port, self.process.pid, self.stuck_s)
        if self.kill_due_s < math.inf or not self.health.look(now_s) or not has_log():
            return False
        self.kill_due_s = now_s + DUMP_S
        return True

    def look_late(self, now_s: float) -> None:
        """Asks a service that is not ready, once a second, how many records it has yet to fold."""
        if self.spec.health_port is None or now_s < self.late_due_s:
            return
        self.late_due_s = now_s + LATE_EVERY_S
        answer = json_answer(self.spec.health_port, "/ready", LATE_EVERY_S)
        self.status.behind = int((answer or {}).get("behind", 0))
        self.late_since_s = min(now_s, self.late_since_s) if self.status.behind else math.inf

    @property
    def has_begun(self) -> bool:
        """Whether it was ready, or works and is late: nothing else waits for what it has to catch up with."""
        return self.was_ready or time.monotonic() - self.late_since_s >= LATE_AFTER_S

    def note_end(self, code: int) -> None:
        """Records how the process ended, and that there is none any more."""
        was_stuck = self.kill_due_s < math.inf
        self.status.last_end = (
            STUCK.format(seconds=self.stuck_s) if was_stuck else f"it {describe_exit(code)}"
        )
        self.status.last_end_ms = now_ms()
        if code == 0:  # it may have been told to start anew, with the code of another release
            self.spare.discard()
        if self.health is not None:
            self.health.close()
        self.process = self.status.pid = self.health = None
        self.late_since_s, self.status.behind = math.inf, 0
        self.kill_due_s = math.inf

    @property
    def has_failed(self) -> bool:
        """Returns whether it was started often enough, and was never ready."""
        return not self.was_ready and self.failed_starts >= STARTS_BEFORE_FAILED

    @property
    def port(self) -> int | None:
        """The port that its readiness check asks."""
        return self.spec.health_port or self.spec.port
