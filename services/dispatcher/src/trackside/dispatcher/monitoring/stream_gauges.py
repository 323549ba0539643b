"""Sets the gauges of streams whose aggregates have numbers for monitoring, until they are over."""

from typing import cast

from trackside.domain.folding.aggregate import Aggregates
from trackside.domain.folding.signals import GaugeReading
from trackside.domain.streams.stream import Stream
from trackside.telemetry.metrics import gauge
from trackside.telemetry.names import GaugeName

MAX_STREAMS = 1_000
"""Of how many streams a process has gauges; those that come later have none."""
_Series = tuple[str, tuple[str, ...]]


class StreamGauges:
    """The gauges of streams that are not over."""

    def __init__(self, aggregates: Aggregates) -> None:
        self._aggregates = aggregates
        self._shown: dict[str, dict[_Series, GaugeReading]] = {}

    def update(self, stream: Stream) -> None:
        """Sets the gauges of a stream to its state; removes those that it has no more."""
        aggregate = self._aggregates.of(stream)
        found = () if aggregate is None else aggregate.gauges(stream.root)
        readings = {(each.name, each.labels): each for each in found}
        before = self._shown.pop(stream.stream_id, {})
        if readings and (before or len(self._shown) < MAX_STREAMS):
            kept = {series: each for series, each in before.items() if each.lasting}
            self._shown[stream.stream_id] = shown = kept | readings
        else:
            shown = {}
        for series, each in shown.items():
            if before.get(series) != each:
                gauge(cast("GaugeName", each.name)).labels(*each.labels).set(each.value)
        for name, labels in before.keys() - shown.keys():
            gauge(cast("GaugeName", name)).remove(*labels)
