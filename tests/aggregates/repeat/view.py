"""What people see of a repeat: how many of its runs have ended."""

from tests.aggregates.repeat.listing import RepeatListing
from tests.aggregates.repeat.state import Repeat
from trackside.domain.display.view import Progress, View
from trackside.domain.streams.stream import Stream


class RepeatView(RepeatListing, View[Repeat]):
    """What people see of a repeat."""

    def progress(self, stream: Stream[Repeat]) -> Progress:
        repeat = stream.root
        ended_ms = repeat.ended_ms if repeat.over else 0
        return Progress(repeat.status.value, repeat.started_ms, ended_ms, repeat.ended, repeat.times, "runs")


VIEW = RepeatView()
