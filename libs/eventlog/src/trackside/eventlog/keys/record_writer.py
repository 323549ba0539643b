"""Encodes messages as records with their envelope: writer, stream and cause."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache

from trackside.contracts.envelope.ids import new_id
from trackside.contracts.envelope.message import Message
from trackside.contracts.envelope.topics import Topic
from trackside.contracts.wire.codec import Draft, encode
from trackside.eventlog.clock import now_ms, rfc3339
from trackside.eventlog.keys.decision_signer import DecisionSigner
from trackside.eventlog.keys.encryption import Encryption
from trackside.eventlog.log import Outgoing

BRIEF_ID = 16
"""Digits of the id of a brief record: 64 bits, unique for its writer for as long as its topic keeps it."""
SUBJECTS = ("task_id", "trial", "worker_id", "command_id")


@dataclass(frozen=True, slots=True)
class RecordWriter:
    """Encodes the messages of one service instance; its role decides which events it may write.

    With a `signer` it signs what is written to a `topic` that is named. What it is given the public key of a
    stream for is encrypted.
    """

    role: str
    instance: str
    signer: DecisionSigner | None = None
    encryption: Encryption = field(default_factory=Encryption, compare=False)

    @property
    def source(self) -> str:
        """The CloudEvents source: `trackside/<role>/<instance>`."""
        return f"trackside/{self.role}/{self.instance}"

    def decision(
        self,
        stream: str,
        messages: Sequence[Message],
        *,
        cause: str = "",
        traceparent: str = "",
        topic: str = "",
        public_key: str = "",
    ) -> list[Outgoing]:
        """Returns the records of one decision: readers apply all of them or none.

        `topic` is that of the events or of the fleet, where readers check signatures. `public_key` is that of
        the stream, if it is encrypted.
        """
        decision, time, count = new_id(), rfc3339(now_ms()), len(messages)
        drafts = (
            Draft(
                message=message,
                id=f"{decision}.{index}",
                source=self.source,
                stream=stream,
                time=time,
                subject=_subject(message),
                causation_id=cause,
                correlation_id=stream,
                decision_id=decision if count > 1 else "",
                index=index,
                count=count,
                traceparent=traceparent,
            )
            for index, message in enumerate(messages)
        )
        records = [
            self.encrypted(Outgoing(*encode(draft)), public_key if draft.message.encryptable else "")
            for draft in drafts
        ]
        return records if self.signer is None or not topic else self.signer.sign(topic, records)

    def single(
        self,
        stream: str,
        message: Message,
        *,
        cause: str = "",
        traceparent: str = "",
        message_id: str = "",
        sequence: int = 0,
        brief: bool = False,
    ) -> Outgoing:
        """Returns the record of a message on its own; `message_id` is generated if it isn't given.

        `sequence` is the number of an event of a worker, see `Draft`. `brief` leaves out the time, which the
        log has too, and subject and correlation id, which repeat the stream, and makes a shorter id: for
        messages of which there are very many.
        """
        draft = Draft(
            message=message,
            id=message_id or (new_id()[:BRIEF_ID] if brief else new_id()),
            source=self.source,
            stream=stream,
            time="" if brief else rfc3339(now_ms()),
            subject="" if brief else _subject(message),
            causation_id=cause,
            correlation_id="" if brief else stream,
            traceparent=traceparent,
            sequence=sequence,
        )
        return Outgoing(*encode(draft))

    def encrypted(self, record: Outgoing, public_key: str) -> Outgoing:
        """Returns the record of a message for a stream with this key; unchanged if it is empty."""
        return self.encryption.encrypt(record, public_key) if public_key else record

    def signed(self, topic: Topic, record: Outgoing) -> Outgoing:
        """Returns the record of a message on its own, signed for a topic if the writer has a key."""
        return record if self.signer is None else self.signer.sign(topic.name, [record])[0]


def _subject(message: Message) -> str:
    for name in _subjects(type(message)):
        value = getattr(message, name)
        if value is not None:
            return str(value)
    return ""


@cache
def _subjects(kind: type[Message]) -> tuple[str, ...]:
    """Returns the fields that may name a message's subject; looking up a missing attribute is slow."""
    return tuple(name for name in SUBJECTS if name in kind.model_fields)
