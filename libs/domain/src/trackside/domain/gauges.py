"""Numbers of an aggregate that monitoring follows, such as how many samples wait for the next round."""

from typing import NamedTuple


class GaugeReading(NamedTuple):
    """One number as it is now."""

    name: str
    """The name of a gauge of `trackside.telemetry.names`."""
    labels: tuple[str, ...]
    """The values of its labels, the first of which is the id of the stream."""
    value: float
    lasting: bool = False
    """Whether it stays when it is no longer read, until its stream is over: the result of something."""
