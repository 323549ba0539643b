"""Says once that a lane is backlogged, and once that it has cleared, whatever becomes of the saying."""

from collections.abc import Iterator, Sequence

from trackside.contracts.advice import LaneBacklogged, LaneCleared
from trackside.dispatcher.advice.advisor_process import BACKLOG_LIMIT, AdvisorProcess
from trackside.domain.fleet import Fleet
from trackside.telemetry.metrics import gauge


class Backlog:
    """The lanes of one dispatcher, and what the log has of them.

    A process that was killed while a lane was backlogged can't say that it has cleared: the next one of its
    instance does, when it begins.
    """

    def __init__(self, instance: str, incarnation: str, lanes: Sequence[AdvisorProcess]) -> None:
        self.instance = instance
        self._incarnation = incarnation
        self._lanes = lanes
        self._left: set[tuple[str, str, str]] | None = None

    def lacking(self, fleet: Fleet) -> Iterator[LaneBacklogged | LaneCleared]:
        """Gives what the log doesn't have yet."""
        if self._left is None:
            self._left = {
                known
                for known in fleet.backlogged
                if known[0] == self.instance and known[1] != self._incarnation
            }
        for instance, incarnation, lane in sorted(self._left & fleet.backlogged):
            yield LaneCleared(instance=instance, incarnation=incarnation, lane=lane, waiting=0)
        for each in self._lanes:
            is_known = (self.instance, self._incarnation, each.name) in fleet.backlogged
            if each.backlogged and not is_known:
                yield LaneBacklogged(**self._names(each), waiting=each.backlog, limit=BACKLOG_LIMIT)
            elif is_known and not each.backlogged:
                yield LaneCleared(**self._names(each), waiting=each.backlog)

    def _names(self, lane: AdvisorProcess) -> dict[str, str]:
        return {"instance": self.instance, "incarnation": self._incarnation, "lane": lane.name}


def measure(lane: AdvisorProcess) -> None:
    """Shows how much waits in a lane."""
    gauge("trackside.dispatcher.lane_backlog.requests").labels(lane.name).set(lane.backlog)
