"""The traces of trials: each has its own, which follows from the trace of its search. Pure."""

from trackside.aggregates.search.state import Search
from trackside.contracts.envelope.trace_context import derive_trace
from trackside.domain.streams.stream import Stream


def trial_trace(stream: Stream[Search], number: int) -> str:
    """Returns the `traceparent` of the span of a trial; it is sampled if the trace of its search is."""
    return derive_trace(stream.traceparent, stream.stream_id, str(number))
