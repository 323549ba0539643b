"""Checks who signed the events that have an effect, with a list of keys from outside the log."""

from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import dataclass, field

from trackside.cli.render import screen
from trackside.contracts.envelope.message import Record
from trackside.contracts.envelope.topics import Topics
from trackside.contracts.envelope.trusted_keys import Trust, TrustedKey
from trackside.contracts.trust.trust import UNSIGNED, distrust_of, next_digest
from trackside.domain.fleet.fleet import Fleet, evolve
from trackside.domain.outcome import Outcome
from trackside.eventlog.keys.decode import decode
from trackside.eventlog.log import Log
from trackside.replay.history.recorded_stream import read_entries

SHOWN = 20
"""How many findings are printed."""


@dataclass(slots=True)
class SignatureCheck:
    """Takes all records of the events and the fleet, in order within a partition.

    `findings` are lines to print. `older` counts the unsigned events from before signatures were required.
    """

    keys: Mapping[str, TrustedKey]
    checked: int = 0
    older: int = 0
    findings: list[str] = field(default_factory=list)
    _expected: dict[str, bytes] = field(default_factory=dict)
    _unsigned: dict[str, bytes] = field(default_factory=dict)
    """The unsigned decision that a stream is in."""
    _unlisted: set[str] = field(default_factory=set)

    async def read_fleet(self, log: Log, topics: Topics) -> None:
        """Takes all records of the fleet. Raises SilentLogError and TransientError."""
        fleet, topic = Fleet(), topics.fleet.name
        begins, ends = await log.beginnings(topic), await log.ends(topic)
        for partition, end in ends.items():
            async with aclosing(read_entries(log, (topic, partition), begins[partition], end)) as batches:
                async for batch in batches:
                    for record in filter(None, map(decode, batch)):
                        self.take(record, evolve(fleet, record))

    def take(self, record: Record, outcome: Outcome) -> None:
        """Checks the signature of a record, if it has an effect."""
        reason = self._reason(record)
        place = f"{record.topic}-{record.partition}@{record.offset} {record.envelope.stream}"
        for key_id in record.trust.keys if record.trust is not None else ():
            if key_id not in self.keys and key_id not in self._unlisted:
                self._unlisted.add(key_id)
                self.findings.append(f"{place}: the log trusts key {key_id}, which is not in the list")
        if outcome is not Outcome.APPLIED:
            return
        self.checked += 1
        if reason == UNSIGNED and (record.trust is None or not record.trust.requires(record.offset)):
            self.older += 1
        elif reason:
            name = type(record.message).__name__
            self.findings.append(f"{place}: {name} of {record.envelope.source}: {reason}")

    def _reason(self, record: Record) -> str:
        """Returns why a record is not signed with a listed key; of an unsigned decision all are unsigned."""
        envelope = record.envelope
        stream, decision = envelope.stream, envelope.decision_id
        if decision and envelope.index and self._unsigned.get(stream) == decision:
            return UNSIGNED
        reason = distrust_of(Trust(dict(self.keys)), record, self._expected.get(stream, b""))
        self._unsigned[stream] = decision if reason == UNSIGNED else b""
        if not reason:
            self._expected[stream] = next_digest(record)
        return reason

    def say(self, *, as_json: bool) -> None:
        """Prints the result; beside JSON on stderr."""
        write = screen.complain if as_json else screen.say
        for line in self.findings[:SHOWN]:
            write(line)
        if len(self.findings) > SHOWN:
            write(f"and {len(self.findings) - SHOWN} more")
        older = f", {self.older} are unsigned and from before that was required" if self.older else ""
        write(f"signatures: {self.checked} events have an effect, {len(self.findings)} findings{older}")
