"""Whether a stack that starts makes progress: a start limit counts from the last of it, not from the begin.

On a busy machine or a slow disk a start takes minutes, and nothing is wrong.
"""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from trackside.embedded.folder import ProcessStatus
from trackside.embedded.processes import children_of, processor_times_s

ACTIVE_SHARE = 0.2
"""What part of the time a process has to run, or to be ready to, to count as one that starts."""
LONGEST_TIMES = 10
"""How often the limit may begin anew: a process that runs and never gets ready ends the start, too."""


@dataclass(slots=True)
class StartProgress:
    """What is known of the processes of a stack since its start; times are monotonic, in seconds."""

    began_s: float
    limit_s: float
    last_s: float = field(init=False)
    """When progress was seen last."""
    _states: list[tuple[str, str]] = field(default_factory=list)
    _logs_bytes: int = 0
    _active_s: float = 0.0
    _ran_s: float = 0.0

    def __post_init__(self) -> None:
        self.last_s = self.began_s

    def look(self, processes: Iterable[ProcessStatus], now_s: float) -> bool:
        """Takes a look; returns whether the limit is over.

        Progress is that a process changes its state, that its log grows, or that it runs. One that has ended
        and was started again makes none.
        """
        fresh = [each for each in processes if not each.restarts]
        starting = [each for each in fresh if each.state == "starting"]
        states = [(each.name, each.state) for each in fresh]
        logs_bytes = sum(_size(each.log) for each in starting)
        active_s = sum(active_seconds(each.pid) for each in starting if each.pid is not None)
        self._ran_s += max(0.0, active_s - self._active_s)
        runs = self._ran_s > max(0.1, ACTIVE_SHARE * (now_s - self.last_s))
        if states != self._states or logs_bytes > self._logs_bytes or runs:
            self.last_s, self._ran_s = now_s, 0.0
        self._states, self._logs_bytes, self._active_s = states, logs_bytes, active_s
        return now_s - self.last_s > self.limit_s or now_s - self.began_s > LONGEST_TIMES * self.limit_s


def active_seconds(pid: int) -> float:
    """Returns for how many seconds the threads of a process and its children have run, or were ready to."""
    total_s = 0.0
    for each in (pid, *children_of(pid)):
        with suppress(OSError):  # it has just ended
            for thread in Path(f"/proc/{each}/task").iterdir():
                total_s += sum(processor_times_s(thread))
    return total_s


def _size(log: str) -> int:
    try:
        return Path(log).stat().st_size
    except OSError:
        return 0
