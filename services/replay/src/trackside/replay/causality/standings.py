"""Which events of a stream had no effect, for pages that show a part of it.

Only a fold says so. It begins at the newest stored state before the part, and what it has folded is kept, so
that the next page of a stream that grows goes on there.
"""

import asyncio
from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import dataclass, field, replace

from trackside.aggregates.registry import AGGREGATES
from trackside.contracts.envelope.message import Record
from trackside.contracts.envelope.topics import Topics
from trackside.domain.folding.fold import fold
from trackside.domain.outcome import Outcome, no_effect, standing_of
from trackside.domain.streams.stream import Stream
from trackside.eventlog.log import Log
from trackside.projections.past.reader import PastReader
from trackside.replay.history.point_in_time import PointInTime
from trackside.replay.history.recorded_stream import RecordedStream, find_live, stored_state

MOST_ENTRIES = 50_000
"""How many entries of its partition are read for one page at most; the next page goes on."""
MOST_STREAMS = 4
"""Of how many streams it is kept how far they are folded: the last ones that were asked for."""
MOST_WITHOUT_EFFECT = 20_000
"""How many events without effect are kept of a stream, the last ones: a forger may have written many."""


@dataclass(slots=True)
class FoldedPart:
    """A part of a stream that was folded: the events from the offset `since` on, up to before `until`.

    `without_effect` says why each of them that had none had none; those before `forgotten_to` are forgotten.
    """

    recorded: RecordedStream | None
    stream: Stream
    since: int
    until: int
    without_effect: dict[int, str] = field(default_factory=dict)
    forgotten_to: int = 0

    async def fold_to(self, end: int) -> None:
        """Folds on up to an offset, as far as one page may."""
        if self.recorded is None or self.until >= end:
            return
        end = min(end, self.until + MOST_ENTRIES)
        async with aclosing(replace(self.recorded, begin=self.until, end=end).records()) as records:
            async for record, entry in records:
                self._note(record, fold(self.stream, record, AGGREGATES))
                async for again, outcome, _ in self.recorded.read_again(self.stream, entry.offset + 1):
                    self._note(again, outcome)
                self.until = record.offset + 1
        self.until = end

    def _note(self, record: Record, outcome: Outcome) -> None:
        self.without_effect.pop(record.offset, None)  # it came while the stream was parked, and counts now
        why = no_effect(standing_of(record, outcome), record.distrust)
        if why:
            self.without_effect[record.offset] = why
        if len(self.without_effect) > MOST_WITHOUT_EFFECT:
            oldest = next(iter(self.without_effect))
            del self.without_effect[oldest]
            self.forgotten_to = max(self.forgotten_to, oldest + 1)


@dataclass(frozen=True, slots=True)
class KnownStandings:
    """What is known of the events of a stream from `since` on, up to before `until`."""

    without_effect: Mapping[int, str]
    since: int
    until: int


class Standings:
    """Keeps how far streams are folded, for one process and one log."""

    def __init__(self) -> None:
        self.folded: dict[str, FoldedPart] = {}
        self._turn = asyncio.Lock()

    async def of(
        self, log: Log, topics: Topics, stream_id: str, past: PastReader | None, first: int, last: int
    ) -> KnownStandings:
        """Returns what is known of the events between two of a stream, both included, which the log has.

        Of a long part not all may be known: ask again. Raises SilentLogError.
        """
        async with self._turn:
            part = self.folded.pop(stream_id, None)
            if part is None or part.since > first:
                part = await _begun(log, topics, stream_id, past, first)
            await part.fold_to(last + 1)
            self.folded[stream_id] = part
            while len(self.folded) > MOST_STREAMS:
                del self.folded[next(iter(self.folded))]
            return KnownStandings(part.without_effect, max(part.since, part.forgotten_to), part.until)


async def _begun(log: Log, topics: Topics, stream_id: str, past: PastReader | None, first: int) -> FoldedPart:
    """Returns a stream folded to before an offset, at its newest stored state, or at its beginning."""
    recorded = await find_live(log, topics, stream_id, past)
    if recorded is None:
        return FoldedPart(None, Stream(stream_id, 0), 0, 0)
    stored = await stored_state(recorded, PointInTime(offset=first - 1))
    if stored is None:
        return FoldedPart(recorded, Stream(stream_id, recorded.partition), 0, recorded.begin)
    state, at = stored
    return FoldedPart(recorded, state.stream, at, at)
