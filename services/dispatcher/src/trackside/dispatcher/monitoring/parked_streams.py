"""The parked streams, as health and metrics say them."""

from trackside.domain.parking import told
from trackside.domain.stream import Stream
from trackside.domain.streams import Streams
from trackside.telemetry.health import Health
from trackside.telemetry.metrics import gauge

MOST_NAMED = 5


class ParkedStreams:
    """Which streams are parked, with why; the service stays ready: all other streams go on."""

    def __init__(self, streams: Streams, health: Health) -> None:
        self._health = health
        self._told: dict[str, str] = {}
        for stream in streams.by_id.values():
            if stream.parked is not None:
                self._told[stream.stream_id] = told(stream.parked, stream.partition)
        self._tell()

    def __contains__(self, stream_id: str) -> bool:
        return stream_id in self._told

    def update(self, stream: Stream) -> None:
        """Takes in that a record of a stream was folded that may have parked it, or made it go on."""
        before = self._told.pop(stream.stream_id, "")
        if stream.parked is not None:
            self._told[stream.stream_id] = told(stream.parked, stream.partition)
        if before != self._told.get(stream.stream_id, ""):
            self._tell()

    def _tell(self) -> None:
        named = [f"{name} {why}" for name, why in list(self._told.items())[:MOST_NAMED]]
        self._health.set_parked(len(self._told), named)
        gauge("trackside.dispatcher.parked.streams").set(len(self._told))
