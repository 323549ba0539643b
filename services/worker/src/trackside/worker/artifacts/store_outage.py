"""How long the store of a worker has failed, and when it is asked again. Pure."""

from dataclasses import dataclass, field

from trackside.contracts.envelope.message import Json
from trackside.worker.artifacts.store_messages import FIRST_RETRY_S, LAST_RETRY_S


@dataclass(slots=True)
class StoreOutage:
    """The failures of a store since it last did all that it was asked; times are monotonic seconds.

    After `limit_s` seconds it is given up: what waits is left out, and each pause one request looks whether
    it is there again.
    """

    limit_s: float
    pause_s: float = FIRST_RETRY_S
    retry_at_s: float = 0.0
    problem: Json = field(default_factory=dict)
    """Code and message of the last failure; empty while there is none."""
    _began_s: float = 0.0

    def note(self, problem: Json, now_s: float) -> bool:
        """Notes a failure; returns whether it is the first one."""
        is_first = not self.problem
        if is_first:
            self._began_s = now_s
        self.pause_s = FIRST_RETRY_S if is_first else min(2 * self.pause_s, LAST_RETRY_S)
        self.retry_at_s = now_s + self.pause_s
        self.problem = problem
        return is_first

    def end(self) -> None:
        """Notes that the store has done all that it was asked."""
        self.problem = {}

    def is_given_up(self, now_s: float) -> bool:
        """Whether it has failed for too long."""
        return bool(self.problem) and now_s - self._began_s >= self.limit_s
