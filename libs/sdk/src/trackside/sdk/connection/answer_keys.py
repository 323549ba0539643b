"""The keys that answers to commands are checked with: a forged answer is none, where events are signed.

They are read from the fleet, which is short: a client waits at the end of a partition, whose keys may be a
million events before that. So they are those that are trusted now, not at the place of the answer.
"""

from collections import Counter
from contextlib import aclosing

from trackside.contracts.envelope.message import Record
from trackside.contracts.envelope.trusted_keys import Trust
from trackside.contracts.trust.trust import distrust_of
from trackside.domain.fleet.fleet import Fleet, evolve
from trackside.eventlog.clock import monotonic_s
from trackside.eventlog.keys.decode import decode
from trackside.eventlog.keys.noted_keys import is_about_keys
from trackside.sdk.connection.log_connection import LogConnection

READ_AGAIN_S = 10.0
"""For how long keys count as known, s: so long a key that was revoked may still be taken."""
DOUBTED_AGAIN_S = 1.0
"""How soon they are read again for an answer that does not count by them, s: its key may be new."""


class AnswerKeys:
    """Returns why an answer is not trusted."""

    def __init__(self, connection: LogConnection, fleet_topic: str) -> None:
        self._connection, self._topic = connection, fleet_topic
        self._fleet, self._now = Fleet(), Trust()
        self._read_s: float | None = None

    async def distrust(self, record: Record) -> str:
        """Returns why an answer does not count, empty if it does; an answer is the first of its decision."""
        await self._look(READ_AGAIN_S)
        reason = self._reason(record)
        if reason:
            await self._look(DOUBTED_AGAIN_S)
            reason = self._reason(record)
        return reason

    def _reason(self, record: Record) -> str:
        return distrust_of(self._now, record, b"") if self._now.mode == "require" else ""

    async def _look(self, after_s: float) -> None:
        """Reads on in the fleet what is about keys, if that was last done so long ago."""
        if self._read_s is not None and monotonic_s() - self._read_s < after_s:
            return
        what = "the keys that answers are signed with"
        ends = await self._connection.request(lambda log: log.ends(self._topic), what)
        place, end = (self._topic, 0), ends[0]
        first = self._fleet.position
        async with aclosing(self._connection.entries_of(place, end, False, first, what)) as entries:
            async for entry in entries:
                record = decode(entry) if is_about_keys(entry) else None
                if record is not None:
                    evolve(self._fleet, record)
        self._fleet.position, self._read_s = max(first, end), monotonic_s()
        self._now = self._fleet.trust.now()


class IgnoredAnswers:
    """The answers that did not count while a client waited, by why."""

    def __init__(self) -> None:
        self._reasons = Counter[str]()

    def note(self, reason: str) -> None:
        """Counts one."""
        self._reasons[reason] += 1

    def said(self) -> str:
        """Returns a part of a sentence about them, empty if there were none."""
        if not self._reasons:
            return ""
        reasons = ", ".join(f"{count} {reason}" for reason, count in sorted(self._reasons.items()))
        return f"; answers to it that did not count: {reasons}"
