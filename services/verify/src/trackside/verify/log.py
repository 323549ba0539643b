"""Verifies a recorded log by its topics alone: what must hold of every history. INV-1 to INV-15.

The ends of what leads to events (commands, commands to devices) are fetched first, then those of the events,
then that of the fleet: so nothing that was read can rest on something that was not.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from trackside.contracts.codec import CODEC, UndecodableError
from trackside.contracts.commands import RecordDeadLettered, Source
from trackside.contracts.ingress import read_command
from trackside.contracts.message import Record
from trackside.contracts.tasks import RunTask
from trackside.contracts.topics import HOST, Topic, Topics, partition_of
from trackside.domain.outcome import Outcome
from trackside.domain.stream import Stream
from trackside.eventlog.clock import monotonic_s, now_ms
from trackside.eventlog.decode import decode
from trackside.eventlog.errors import PreflightError, TransientError
from trackside.eventlog.log import Entry, Log, TopicPartition
from trackside.replay.history.errors import SILENCE_LIMIT_S
from trackside.verify.findings import NEEDS_POSTGRES, NOT_YET, Finding, Where
from trackside.verify.secrets import secret_field
from trackside.verify.streams import Fold, Verifier

QUIET_S = 3.0
"""How long a topic of others may be quiet before its end: what a publisher has aborted is never read."""

Told = Callable[[int, int], None]
Seen = Callable[[Stream, Outcome, int], None]
Decoded = Callable[[Entry], Record | None]


@dataclass(slots=True)
class Verdict:
    """What a verification found; `checked` counts by invariant, `skipped` says why one was not looked at.

    `passed_over` are the places of records among the events that no service can read, and so none folds.
    """

    findings: list[Finding] = field(default_factory=list)
    checked: dict[str, int] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    events: int = 0
    streams: int = 0
    passed_over: list[str] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        """Says whether nothing was found."""
        return not self.findings


def _say_nothing(read: int, total: int) -> None:
    """Takes the place of a progress bar."""


def _see_nothing(stream: Stream, outcome: Outcome, offset: int) -> None:
    """Takes the place of who compares snapshots."""


async def verify(log: Log, topics: Topics, fold: Fold | None = None) -> list[Finding]:
    """Verifies a whole log as it is now, without Postgres; an empty list is a clean log.

    Raises TransientError, and what reading a log of another release raises.
    """
    return (await examine(log, topics, fold=fold)).findings


async def examine(
    log: Log,
    topics: Topics,
    *,
    stream: str = "",
    fold: Fold | None = None,
    told: Told = _say_nothing,
    seen: Seen = _see_nothing,
    decoded: Decoded = decode,
) -> Verdict:
    """Verifies a log as it is now, or one stream of it; tells how far it is, and what each record did.

    Of one stream alone it can't be said what others had on its devices. `decoded` reads an entry of ours.
    Raises as `verify` does.
    """
    reading = _Reading(log, topics, stream, Verifier(fold), told, seen, decoded)
    await reading.run()
    verifier, verdict = reading.verifier, reading.verdict
    verdict.findings = verifier.finish(now_ms())
    verdict.checked = dict(verifier.findings.checked)
    verdict.skipped = {**NOT_YET, **NEEDS_POSTGRES}
    verdict.streams = len(verifier.books)
    return verdict


@dataclass(slots=True)
class _Reading:
    """One pass over the topics."""

    log: Log
    topics: Topics
    stream: str
    verifier: Verifier
    told: Told
    seen: Seen
    decoded: Decoded
    verdict: Verdict = field(default_factory=Verdict)
    _lasts: dict[TopicPartition, int] = field(default_factory=dict)

    async def run(self) -> None:
        """Reads everything, in the order that the docstring of this module gives."""
        fleet = self.topics.fleet.name
        fleet_ends = await self._ends(fleet)
        await self._read(fleet_ends, {}, self._fleet, quiet_s=SILENCE_LIMIT_S)
        await self._devices()
        commands = await self._ends(self.topics.commands.name)
        starts = await self._starts(commands)
        await self._read(commands, starts, self._command, QUIET_S)
        letters = await self._ends(self.topics.dead_letters.name)
        await self._read(letters, await self._starts(letters), self._letter, QUIET_S)
        events = await self._ends(self.topics.events.name)
        more = await self._ends(fleet)
        await self._read(more, fleet_ends, self._fleet, quiet_s=SILENCE_LIMIT_S)
        if self.stream:
            partition = partition_of(self.stream, self.topics.event_partitions)
            events = {place: end for place, end in events.items() if place[1] == partition}
        self._lasts = dict.fromkeys(events, 0)
        await self._read(events, {}, self._event, quiet_s=SILENCE_LIMIT_S, settles=True)

    async def _ends(self, topic: str) -> dict[TopicPartition, int]:
        return {(topic, partition): end for partition, end in (await self.log.ends(topic)).items() if end}

    async def _starts(self, ends: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        kept = {topic: await self.log.beginnings(topic) for topic in {topic for topic, _ in ends}}
        return {place: kept[place[0]].get(place[1], 0) for place in ends}

    async def _devices(self) -> None:
        """Reads the commands to devices that are kept; the topic of one long gone may be gone too."""
        lives = self.verifier.lives.by_name.values()
        names = {(life.worker_id, name) for life in lives for name in (*life.devices, HOST)}
        ends: dict[TopicPartition, int] = {}
        starts: dict[TopicPartition, int] = {}
        for topic in await self._there([self.topics.device(*name) for name in sorted(names)]):
            found = await self._ends(topic.name)
            starts |= await self._starts(found)
            ends |= found
        await self._read(ends, starts, self._device_command, QUIET_S)

    async def _there(self, topics: list[Topic]) -> list[Topic]:
        """Gives the topics that exist. To ask for one that doesn't takes 5 s, so halves are asked for."""
        try:
            await self.log.preflight(topics)
        except PreflightError:
            half = len(topics) // 2
            return [*await self._there(topics[:half]), *await self._there(topics[half:])] if half else []
        return topics

    async def _read(
        self,
        ends: Mapping[TopicPartition, int],
        starts: Mapping[TopicPartition, int],
        take: Callable[[Entry], None],
        quiet_s: float,
        settles: bool = False,
    ) -> None:
        missing = {place: end for place, end in ends.items() if end > starts.get(place, 0)}
        total = sum(end - starts.get(place, 0) for place, end in missing.items())
        read, heard_s = 0, monotonic_s()
        reader = self.log.reader({place: starts.get(place, 0) for place in missing})
        try:
            while missing:
                entries = await reader.read(1.0)
                if not entries and monotonic_s() - heard_s > quiet_s:
                    self._silent(missing, quiet_s)
                    return
                heard_s = monotonic_s() if entries else heard_s
                for entry in entries:
                    place = (entry.topic, entry.partition)
                    if entry.offset < missing.get(place, 0):
                        take(entry)
                        read += 1
                    if entry.offset + 1 >= missing.get(place, entry.offset + 2):
                        del missing[place]
                        self._lasts.pop(place, None)
                if settles:
                    self.verifier.settle(min(self._lasts.values(), default=float("inf")))
                    self.told(read, total)
        finally:
            await reader.close()

    def _silent(self, missing: Mapping[TopicPartition, int], quiet_s: float) -> None:
        if quiet_s == SILENCE_LIMIT_S:
            places = ", ".join(f"{topic}-{partition}" for topic, partition in sorted(missing))
            raise TransientError(f"nothing more came from {places} for {quiet_s:.0f} s")

    def _fleet(self, entry: Entry) -> None:
        self._scan(entry, "")
        record = self.decoded(entry)
        if record is not None:
            self.verifier.lives.take(record)

    def _device_command(self, entry: Entry) -> None:
        record = self.decoded(entry)
        if record is None or not isinstance(record.message, RunTask):
            return
        command = record.message
        if self.stream in ("", command.stream):
            self._scan(entry, command.stream)
            place = Where(entry.topic, entry.partition, entry.offset, command.stream)
            self.verifier.sent.note(command, place)

    def _command(self, entry: Entry) -> None:
        source = Source(topic=entry.topic, partition=entry.partition, offset=entry.offset)
        stream = ""
        with suppress(UndecodableError):
            stream = read_command(CODEC.envelope(entry.headers).headers, entry.key, entry.value).stream
        if self.stream in ("", stream):
            self.verifier.findings.checked["INV-8"] += 1
            place = Where(*_place(entry), stream)
            self.verifier.commands.published[source] = (place, entry.append_time_ms)

    def _letter(self, entry: Entry) -> None:
        record = self.decoded(entry)
        if record is not None and isinstance(record.message, RecordDeadLettered):
            self.verifier.commands.published.pop(record.message.source, None)

    def _event(self, entry: Entry) -> None:
        place = (entry.topic, entry.partition)
        if place in self._lasts:
            self._lasts[place] = entry.append_time_ms
        record = self.decoded(entry)
        if record is None:
            self.verdict.passed_over.append(f"{entry.topic}-{entry.partition}@{entry.offset}")
            return
        if self.stream not in ("", record.envelope.stream):
            return
        self.verdict.events += 1
        self._scan(entry, record.envelope.stream)
        stream, outcome = self.verifier.take(record)
        self.seen(stream, outcome, record.offset)

    def _scan(self, entry: Entry, stream: str) -> None:
        self.verifier.findings.checked["INV-14"] += 1
        path = secret_field(entry)
        if path is not None:
            place = Where(*_place(entry), stream)
            self.verifier.findings.add("INV-14", place, f"{path} looks like a secret")


def _place(entry: Entry) -> tuple[str, int, int]:
    return entry.topic, entry.partition, entry.offset
