"""Reads who holds which artifacts from the log: its events, new commands, imported streams, and summaries."""

from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass, field

from trackside.aggregates.registry import CODEC
from trackside.contracts.envelope.topics import Topic, Topics
from trackside.contracts.tasks.artifacts import ForgetArtifacts
from trackside.contracts.tasks.summaries import SummaryItemsReported
from trackside.eventlog.errors import PreflightError
from trackside.eventlog.keys.decode import decode
from trackside.eventlog.log import Entry, Log, TopicPartition
from trackside.eventlog.released_streams import read_again
from trackside.replay.garbage.holders import Holders
from trackside.replay.history.errors import KeyMissingError
from trackside.replay.history.recorded_stream import read_entries

ScanProgress = Callable[[int, int], None]
_FORGETTING = ForgetArtifacts.wire_type().encode()
_ITEMS = SummaryItemsReported.wire_type().encode()


@dataclass(slots=True)
class HolderScan:
    """Reads the log up to its end, and further when it is called again.

    Commands hold what is in them while they are `since_ms` or younger: no service may have read them yet.
    """

    log: Log
    topics: Topics
    since_ms: int
    holders: Holders = field(default_factory=Holders)
    _positions: dict[TopicPartition, int] = field(default_factory=dict)

    async def catch_up(self, report: ScanProgress = lambda done, total: None) -> Holders:
        """Reads what is new.

        Raises TransientError, SilentLogError, KeyMissingError, and what decoding raises.
        """
        parts: list[tuple[TopicPartition, int, Callable[[Entry], None]]] = []
        # Commands first: what they hold moves into events, which are read later.
        takes: list[tuple[Topic, Callable[[Entry], None]]] = [
            (self.topics.commands, self._command),
            (self.topics.imports, self._import),
            (self.topics.metrics, self._summaries),
            (self.topics.events, self._event),
        ]
        for topic, take in takes:
            if not await self._exists(topic):
                continue
            beginnings = await self.log.beginnings(topic.name)
            for partition, end in (await self.log.ends(topic.name)).items():
                place = (topic.name, partition)
                self._positions.setdefault(place, beginnings.get(partition, 0))
                parts.append((place, end, take))
        total = sum(max(0, end - self._positions[place]) for place, end, _ in parts)
        done = 0
        for place, end, take in parts:
            async with aclosing(read_entries(self.log, place, self._positions[place], end)) as batches:
                async for batch in batches:
                    for entry in batch:
                        take(entry)
                    if self.holders.streams.released:
                        await read_again(self.log, place[0], self.holders.streams, self.holders.take_again)
                    done += len(batch)
                    report(done, total)
            self._positions[place] = max(end, self._positions[place])
        if unread := self.holders.unread():
            raise KeyMissingError(
                f"{', '.join(unread[:5])}: what these streams refer to is encrypted, and the keys of "
                f"{len(unread)} are missing: restore the schema trackside_keys of Postgres, or let this user "
                "read it"
            )
        return self.holders

    async def _exists(self, topic: Topic) -> bool:
        try:
            await self.log.preflight([topic])
        except PreflightError:
            if topic.name != self.topics.imports.name:
                raise
            return False  # nothing was imported yet
        return True

    def _event(self, entry: Entry) -> None:
        record = decode(entry)
        if record is not None and entry.value is not None:
            self.holders.take_event(record, entry.value)

    def _command(self, entry: Entry) -> None:
        is_new = entry.append_time_ms >= self.since_ms
        if is_new and entry.value is not None and ("ce_type", _FORGETTING) not in entry.headers:
            self.holders.hold(f"commands/{CODEC.envelope(entry.headers).stream}", entry.value)

    def _summaries(self, entry: Entry) -> None:
        """Holds the images and other large values of summaries, as long as their record is there."""
        if entry.value is not None and ("ce_type", _ITEMS) in entry.headers:
            self.holders.hold(f"summaries/{CODEC.envelope(entry.headers).stream}", entry.value)

    def _import(self, entry: Entry) -> None:
        if entry.value is not None:
            self.holders.hold_imported(CODEC.envelope(entry.headers).stream, entry.value)
