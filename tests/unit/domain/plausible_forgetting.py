"""Encrypted histories in which the stream is forgotten now and then, rightly or not."""

from dataclasses import dataclass, replace

from tests.unit.domain.given import Told, accepted, record_of
from tests.unit.domain.plausible import Chance
from trackside.contracts.envelope.message import Envelope, Record
from trackside.contracts.streams.forgetting import StreamForgotten
from trackside.contracts.trust.encryption import PUBLIC_KEY, EncryptedRecord
from trackside.domain.outcome import Outcome
from trackside.domain.streams.stream import Stream


def encrypted(record: Record) -> Record:
    return replace(record, envelope=Envelope({**record.envelope.headers, PUBLIC_KEY: b"a2V5"}))


def without_key(record: Record) -> Record:
    if PUBLIC_KEY not in record.envelope.headers:
        return record
    return replace(record, message=EncryptedRecord(encrypted_type=record.message.wire_type()))


class EncryptedTold(Told):
    """A log of an encrypted stream: all but `StreamForgotten`, and what follows it, is encrypted."""

    def fold(self, record: Record) -> Outcome:
        known = self.streams.by_id.get(record.envelope.stream)
        is_clear = known is not None and not known.public_key
        if type(record.message) is not StreamForgotten and not is_clear:
            record = encrypted(record)
        return super().fold(record)


@dataclass
class ForgettingChance(Chance):
    """Draws encrypted histories that are forgotten, and some that a reader without the key has folded."""

    def __post_init__(self) -> None:
        self.told = EncryptedTold if self.random.random() < 0.7 else Told

    def _stray(self, told: Told, stream: Stream | None) -> None:
        drawn = self.random.random()
        if stream is None:  # what it begins with can't be read, and is no command
            Told.fold(told, without_key(encrypted(record_of(accepted(), 0))))
        elif drawn < 0.1:
            at = stream.commands_at
            role = self.random.choice(["", "", "worker"])
            told.tell(forgotten(at + self.random.choice([0, 0, 1])), role=role)
        elif drawn < 0.2 and told.records:
            late = self.random.choice(told.records)
            Told.fold(told, without_key(encrypted(late)) if self.random.random() < 0.3 else encrypted(late))
        else:
            super()._stray(told, stream)


def forgotten(follows: int) -> StreamForgotten:
    """Returns the event that has a stream forgotten after the last event about its commands."""
    was = {"kind": "search", "status": "DONE", "unit": "trials", "ended": 0, "ends": {}, "total": None}
    when = {"started_ms": 0, "ended_ms": 0, "first_offset": 0, "follows": follows, "rules": 1}
    return StreamForgotten.model_validate({**was, **when, "commands": [], "reason": "a person has asked"})
