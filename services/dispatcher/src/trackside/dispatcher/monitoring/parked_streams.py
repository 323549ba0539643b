"""The streams that nothing is decided about, as health and metrics say them."""

from trackside.contracts.envelope.refusals import Problem
from trackside.domain.folding.streams import Streams
from trackside.domain.streams.stream import Stream, told
from trackside.eventlog.reactor.stuck_decisions import GIVEN_UP_AFTER, StuckDecisions
from trackside.telemetry.health import Health
from trackside.telemetry.metrics import counter, gauge

MOST_NAMED = 5


class ParkedStreams:
    """Which streams are parked, or given up, with why; the service stays ready: all other streams go on."""

    def __init__(self, streams: Streams, health: Health, stuck: StuckDecisions) -> None:
        self._health = health
        self._stuck = stuck
        self._told: dict[str, str] = {}
        for stream in streams.by_id.values():
            if stream.waits:
                self._told[stream.stream_id] = told(stream)
        if stuck.ended_for is not None:
            counter("trackside.dispatcher.stuck.decisions").inc()
        self._tell()

    def __contains__(self, stream_id: str) -> bool:
        return stream_id in self._told

    def update(self, stream: Stream) -> None:
        """Takes in that a stream may have been parked or given up, or may go on."""
        before = self._told.pop(stream.stream_id, "")
        if stream.waits:
            self._told[stream.stream_id] = told(stream)
        if before != self._told.get(stream.stream_id, ""):
            self._tell()

    def give_up(self, stream_id: str) -> None:
        """Takes in that a stream was given up: deciding about it ended the service."""
        if stream_id not in self._told:
            self._told[stream_id] = (
                f"needs a newer release: the dispatcher ended {GIVEN_UP_AFTER} times while it decided"
            )
            self._tell()

    def _tell(self) -> None:
        named = [f"{name} {why}" for name, why in list(self._told.items())[:MOST_NAMED]]
        self._health.set_parked(len(self._told), named)
        gauge("trackside.dispatcher.parked.streams").set(len(self._told))


def given_up_problem(stuck: StuckDecisions, stream_id: str) -> Problem:
    """Returns why a command is refused without being decided: that ended the service."""
    message = (
        f"the dispatcher ended itself {stuck.by_stream[stream_id].times} times because deciding this command "
        "took too long, so it is not decided again: publish a smaller one"
    )
    return Problem(code="too_costly", path="$", message=message)
