"""Verifies a log from its topics alone: INV-1 to INV-21, without those that need Postgres.

The ends of topics that lead to events (commands, commands to devices) are fetched first, then those of the
events, then those of the fleet and the commands again: so whatever an event that was read depends on was read
too.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from trackside.aggregates.registry import CODEC
from trackside.contracts.envelope.message import Record
from trackside.contracts.envelope.topics import HOST, Topic, Topics, partition_of
from trackside.contracts.streams.commands import RecordDeadLettered
from trackside.contracts.tasks.device_commands import GiveInstruction, RunTask
from trackside.contracts.wire.codec import UndecodableError
from trackside.contracts.wire.ingress import read_command
from trackside.domain.checks.findings import Finding, RecordPosition, in_order
from trackside.domain.outcome import Outcome
from trackside.domain.streams.stream import Stream, told
from trackside.eventlog.clock import monotonic_s
from trackside.eventlog.errors import PreflightError, TransientError
from trackside.eventlog.keys.dead_letters import position_of
from trackside.eventlog.keys.decode import decode
from trackside.eventlog.keys.noted_keys import NotedKeys
from trackside.eventlog.log import Entry, Log, TopicPartition
from trackside.eventlog.released_streams import read_again
from trackside.replay.history.errors import SILENCE_LIMIT_S
from trackside.verify.checks.publications import UNREADABLE, command_record
from trackside.verify.checks.secrets import secret_field
from trackside.verify.invariants import NEEDS_POSTGRES, NEEDS_STORE
from trackside.verify.verifier import Fold, Verifier

QUIET_S = 3.0
"""How long a topic with foreign publishers may be silent, s: records of aborted transactions are skipped."""

STILL_READABLE = "; rotate it: it can be read there until the retention of the topic removes it"

VerifyProgress = Callable[[int, int], None]
RecordObserver = Callable[[Stream, Outcome, Record, bytes], None]
EntryDecoder = Callable[[Entry], Record | None]


@dataclass(slots=True)
class VerificationReport:
    """The result of a verification; `checked` counts by invariant, `skipped` has reasons by invariant.

    `open` has what a longer log may still set right. `uncompared_uses` counts uses of devices and hosts whose
    worker's log has gaps before them, or no numbers; `uncompared_commands` counts commands whose record the
    commands topic does not keep any more. `undecodable` lists the positions of undecodable records among the
    events, which no service folds.
    """

    findings: list[Finding] = field(default_factory=list)
    checked: dict[str, int] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    events: int = 0
    streams: int = 0
    undecodable: list[str] = field(default_factory=list)
    parked: list[str] = field(default_factory=list)
    """The streams that wait for a newer release, each with the record that does."""
    open: list[Finding] = field(default_factory=list)
    uncompared_uses: int = 0
    uncompared_commands: int = 0

    @property
    def holds(self) -> bool:
        """Returns whether there are no findings."""
        return not self.findings

    def complete(self) -> "VerificationReport":
        """Makes what is open a finding: nothing more will be appended to the log. Returns the report."""
        self.findings, self.open = in_order([*self.findings, *self.open]), []
        return self


def _ignore_progress(read: int, total: int) -> None:
    """Does nothing: the default without a progress bar."""


def ignore_record(stream: Stream, outcome: Outcome, record: Record, value: bytes) -> None:
    """Does nothing: the default where nothing else is compared with the log."""


async def verify(log: Log, topics: Topics, fold: Fold | None = None) -> list[Finding]:
    """Verifies a whole log that is complete, without Postgres, and returns the findings.

    Raises TransientError, and what reading a log of another release raises.
    """
    return (await verify_topics(log, topics, fold=fold)).complete().findings


async def verify_topics(
    log: Log,
    topics: Topics,
    *,
    stream: str = "",
    fold: Fold | None = None,
    on_progress: VerifyProgress = _ignore_progress,
    on_record: RecordObserver = ignore_record,
    decoded: EntryDecoder = decode,
) -> VerificationReport:
    """Verifies a log as it is now, or one stream of it.

    Calls `on_progress` with the events read and their total, and `on_record` with each event's stream,
    outcome, record and bytes. Of one stream alone, overlaps with other streams on a device aren't found.
    `decoded` decodes an entry of Trackside. Raises as `verify` does.
    """
    verifier = Verifier(fold, whole=not stream, topics=topics)
    reading = _LogPass(log, topics, stream, verifier, on_progress, on_record, decoded)
    await reading.run()
    report = reading.report
    report.findings = verifier.finish()
    report.open, report.uncompared_uses = in_order(verifier.findings.open), verifier.uncompared_uses
    report.uncompared_commands = verifier.publications.expired
    report.checked = dict(verifier.findings.checked)
    report.skipped = {**NEEDS_POSTGRES, **NEEDS_STORE}
    report.streams = len(verifier.histories)
    return report


@dataclass(slots=True)
class _LogPass:
    """One pass over the topics."""

    log: Log
    topics: Topics
    stream: str
    verifier: Verifier
    on_progress: VerifyProgress
    on_record: RecordObserver
    decoded: EntryDecoder
    report: VerificationReport = field(default_factory=VerificationReport)
    parked: dict[str, Stream] = field(default_factory=dict)
    keys: NotedKeys = field(default_factory=NotedKeys)
    """The keys that one stream is checked with; a fold of all streams has them itself."""

    async def run(self) -> None:
        """Reads all topics, in the order that the docstring of this module gives."""
        fleet = self.topics.fleet.name
        fleet_ends = await self._ends(fleet)
        await self._read(fleet_ends, {}, self._fleet, quiet_s=SILENCE_LIMIT_S)
        await self._devices()
        commands = await self._ends(self.topics.commands.name)
        starts = await self._starts(commands)
        await self._read(commands, starts, self._command, QUIET_S)
        dead_letters = await self._ends(self.topics.dead_letters.name)
        await self._read(dead_letters, await self._starts(dead_letters), self._dead_letter, QUIET_S)
        events = await self._ends(self.topics.events.name)
        fleet_growth = await self._ends(fleet)
        command_growth = await self._ends(self.topics.commands.name)
        await self._read(command_growth, {**starts, **commands}, self._late_command, QUIET_S)
        await self._read(fleet_growth, fleet_ends, self._fleet, quiet_s=SILENCE_LIMIT_S)
        if self.stream:
            partition = partition_of(self.stream, self.topics.event_partitions)
            events = {place: end for place, end in events.items() if place[1] == partition}
        await self._read(events, {}, self._event, quiet_s=SILENCE_LIMIT_S, on_progress=self.on_progress)
        first = await self.log.beginnings(self.topics.commands.name)
        self.verifier.publications.first = first
        self.report.parked = [
            f"{name} {told(stream)}" for name, stream in sorted(self.parked.items()) if stream.waits
        ]

    async def _ends(self, topic: str) -> dict[TopicPartition, int]:
        return {(topic, partition): end for partition, end in (await self.log.ends(topic)).items() if end}

    async def _starts(self, ends: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        beginnings = {topic: await self.log.beginnings(topic) for topic in {topic for topic, _ in ends}}
        return {place: beginnings[place[0]].get(place[1], 0) for place in ends}

    async def _devices(self) -> None:
        """Reads the commands to devices that are retained; topics of removed devices may be deleted."""
        incarnations = self.verifier.incarnations.by_name.values()
        names = {
            (incarnation.worker_id, name)
            for incarnation in incarnations
            for name in (*incarnation.devices, HOST)
        }
        ends: dict[TopicPartition, int] = {}
        starts: dict[TopicPartition, int] = {}
        for topic in await self._existing_topics([self.topics.device(*name) for name in sorted(names)]):
            found = await self._ends(topic.name)
            starts |= await self._starts(found)
            ends |= found
        await self._read(ends, starts, self._device_command, QUIET_S)

    async def _existing_topics(self, topics: list[Topic]) -> list[Topic]:
        """Returns the topics that exist. A query with a missing one takes 5 s, so they are bisected."""
        try:
            await self.log.preflight(topics)
        except PreflightError:
            half = len(topics) // 2
            if not half:
                return []
            return [*await self._existing_topics(topics[:half]), *await self._existing_topics(topics[half:])]
        return topics

    async def _read(
        self,
        ends: Mapping[TopicPartition, int],
        starts: Mapping[TopicPartition, int],
        take: Callable[[Entry], object],
        quiet_s: float,
        on_progress: VerifyProgress = _ignore_progress,
    ) -> None:
        missing = {place: end for place, end in ends.items() if end > starts.get(place, 0)}
        total = sum(end - starts.get(place, 0) for place, end in missing.items())
        read, last_read_s = 0, monotonic_s()
        reader = self.log.reader({place: starts.get(place, 0) for place in missing})
        try:
            while missing:
                entries = await reader.read(1.0)
                if not entries and monotonic_s() - last_read_s > quiet_s:
                    self._silent(missing, quiet_s)
                    return
                last_read_s = monotonic_s() if entries else last_read_s
                for entry in entries:
                    place = (entry.topic, entry.partition)
                    if entry.offset < missing.get(place, 0):
                        take(entry)
                        read += 1
                        if self.verifier.streams.released:
                            await self._read_again(entry)
                    if entry.offset + 1 >= missing.get(place, entry.offset + 2):
                        del missing[place]
                on_progress(read, total)
        finally:
            await reader.close()

    async def _read_again(self, entry: Entry) -> None:
        """Takes in what a stream lacks that was parked and goes on with an entry.

        Its state after that entry is that after all of these: who compares states sees it once more.
        """
        keys = self.keys.checked if self.stream else _as_it_is
        verifier, topic = self.verifier, self.topics.events.name
        record = self.decoded(entry)
        for stream in await read_again(self.log, topic, verifier.streams, verifier.take_again, keys):
            if record is not None:
                self.on_record(stream, Outcome.PARKED, record, b"")

    def _silent(self, missing: Mapping[TopicPartition, int], quiet_s: float) -> None:
        if quiet_s == SILENCE_LIMIT_S:
            places = ", ".join(f"{topic}-{partition}" for topic, partition in sorted(missing))
            raise TransientError(f"nothing more came from {places} for {quiet_s:.0f} s")

    def _fleet(self, entry: Entry) -> None:
        self.verifier.offsets.take(entry.topic, entry.partition, entry.offset)
        self._scan(entry, "")
        record = self.decoded(entry)
        if record is not None:
            self.verifier.take_fleet(record)

    def _device_command(self, entry: Entry) -> None:
        record = self.decoded(entry)
        if record is not None and isinstance(record.message, GiveInstruction):
            self.verifier.device_commands.instructs(record.message)
        if record is None or not isinstance(record.message, RunTask):
            return
        command = record.message
        if self.stream in ("", command.stream):
            self._scan(entry, command.stream)
            place = RecordPosition(entry.topic, entry.partition, entry.offset, command.stream)
            self.verifier.device_commands.note(command, place)

    def _command(self, entry: Entry) -> None:
        stream = self._late_command(entry)
        if self.stream in ("", stream):
            self._scan(entry, stream)
            source = position_of(entry)
            self.verifier.findings.checked["INV-8"] += 1
            self.verifier.commands.published[source] = RecordPosition(*_place(entry), stream)

    def _late_command(self, entry: Entry) -> str:
        """Reads a command that may not be received yet; returns the stream that it names."""
        source = position_of(entry)
        headers = CODEC.envelope(entry.headers).headers
        try:
            arrival = read_command(headers, entry.key, entry.value)
        except UndecodableError:
            self.verifier.publications.note(source, UNREADABLE)
            return ""
        self.verifier.publications.note(source, command_record(arrival, source, headers))
        return arrival.stream

    def _dead_letter(self, entry: Entry) -> None:
        record = self.decoded(entry)
        if record is None or not isinstance(record.message, RecordDeadLettered):
            return
        source = record.message.source
        if source.topic == self.topics.commands.name:
            self.verifier.commands.published.pop(source, None)
            if not self.stream:
                self.verifier.publications.dead_letter(source, RecordPosition(*_place(entry), ""))

    def _event(self, entry: Entry) -> None:
        self.verifier.offsets.take(entry.topic, entry.partition, entry.offset)
        record = self.decoded(entry)
        if self.stream:
            self.keys.noted(entry, record)
        if record is None:
            self.report.undecodable.append(f"{entry.topic}-{entry.partition}@{entry.offset}")
            return
        if self.stream not in ("", record.envelope.stream):
            return
        self.report.events += 1
        self._scan(entry, record.envelope.stream)
        stream, outcome = self.verifier.take(record)
        if stream.parked is not None and stream.parked.offset == record.offset:
            self.parked[stream.stream_id] = stream
        self.on_record(stream, outcome, record, entry.value or b"")

    def _scan(self, entry: Entry, stream: str) -> None:
        self.verifier.findings.checked["INV-14"] += 1
        path = secret_field(entry)
        if path is not None:
            place = RecordPosition(*_place(entry), stream)
            hint = STILL_READABLE if entry.topic == self.topics.commands.name else ""
            self.verifier.findings.add("INV-14", place, f"{path} looks like a secret{hint}")


def _as_it_is(record: Record) -> Record:
    return record


def _place(entry: Entry) -> tuple[str, int, int]:
    return entry.topic, entry.partition, entry.offset
