"""A process under the supervisor: its spec, its status, and how long it waits before it is started again."""

import subprocess
from dataclasses import dataclass, field

from trackside.embedded.folder import ProcessStatus
from trackside.embedded.processes import ProcessSpec

FIRST_BACKOFF_S = 0.2
LONGEST_BACKOFF_S = 5.0
LONGEST_OPTIONAL_BACKOFF_S = 60.0
"""Of Prometheus and Grafana, which are optional: a start of Grafana takes seconds of a processor."""
STEADY_AFTER_S = 10.0
STARTS_BEFORE_FAILED = 3


def next_backoff(backoff_s: float, alive_s: float, longest_s: float = LONGEST_BACKOFF_S) -> float:
    """Returns the pause in seconds before the next start: doubled up to the longest; 0.2 after 10 s alive."""
    if alive_s >= STEADY_AFTER_S or backoff_s == 0.0:
        return FIRST_BACKOFF_S
    return min(2 * backoff_s, longest_s)


@dataclass
class SupervisedProcess:
    """A process spec, its status, and the process that runs now, if any."""

    spec: ProcessSpec
    status: ProcessStatus = field(init=False)
    process: subprocess.Popen[bytes] | None = None
    started: float = 0.0
    due: float = 0.0
    backoff_s: float = 0.0
    was_ready: bool = False
    failed_starts: int = 0

    def __post_init__(self) -> None:
        spec = self.spec
        self.status = ProcessStatus(
            spec.name,
            health_port=spec.health_port,
            log=spec.log,
            port=spec.port or spec.health_port,
            optional=spec.optional,
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

    @property
    def has_failed(self) -> bool:
        """Returns whether it was started often enough, and was never ready."""
        return not self.was_ready and self.failed_starts >= STARTS_BEFORE_FAILED

    @property
    def port(self) -> int | None:
        """The port that its readiness check asks."""
        return self.spec.health_port or self.spec.port
