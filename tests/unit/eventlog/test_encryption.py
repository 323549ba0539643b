import asyncio
import base64
from collections.abc import Collection, Mapping

import pytest

from trackside.aggregates import documents
from trackside.contracts.envelope.message import Message
from trackside.contracts.streams.commands import CommandReceived
from trackside.contracts.trust.encryption import DATA_KEY, PUBLIC_KEY, EncryptedRecord
from trackside.eventlog.errors import TransientError
from trackside.eventlog.keys import encryption
from trackside.eventlog.keys.decision_signer import new_signer
from trackside.eventlog.keys.decode import decode
from trackside.eventlog.keys.encryption import Decryption, new_key_pair
from trackside.eventlog.keys.record_writer import RecordWriter
from trackside.eventlog.log import Entry, Outgoing

EVENT = documents.examples()[CommandReceived.wire_type()]
WRITER = RecordWriter("dispatcher", "1")


class Keys:
    """The keys of streams in a dict; each load is noted."""

    def __init__(self, *pairs: tuple[bytes, bytes]) -> None:
        self.private = {public: private for private, public in pairs}
        self.loads: list[set[bytes]] = []
        self.failing = False

    async def load(self, public_keys: Collection[bytes]) -> Mapping[bytes, bytes]:
        self.loads.append(set(public_keys))
        if self.failing:
            raise TransientError("Postgres is away")
        return {key: self.private[key] for key in public_keys if key in self.private}

    def close(self) -> None:
        self.private.clear()


def entry_of(record: Outgoing, offset: int = 0) -> Entry:
    return Entry("trackside.events", 0, offset, 1, record.key, record.value, tuple(record.headers))


def encrypted(public: bytes, writer: RecordWriter = WRITER) -> Entry:
    key = base64.b64encode(public).decode()
    return entry_of(writer.encrypted(writer.single("digits-1", EVENT), key))


def read(keys: Keys, *entries: Entry) -> list[Message | None]:
    asyncio.run(Decryption(keys).decrypt(entries))
    return [message_of(entry) for entry in entries]


def message_of(entry: Entry) -> Message | None:
    record = decode(entry)
    return None if record is None else record.message


def test_who_has_the_key_reads_what_was_written_and_others_its_type() -> None:
    pair = new_key_pair()
    entry = encrypted(pair[1])
    stored = entry.value
    assert stored is not None
    assert b"digits" not in stored
    assert read(Keys(pair), entry) == [EVENT]
    record = decode(entry)
    assert record is not None and record.value == stored  # which a signature covers
    unknown, other = encrypted(pair[1]), encrypted(pair[1])
    other.headers = ((PUBLIC_KEY, b"no key"), *other.headers[1:])
    unread = EncryptedRecord(encrypted_type=EVENT.wire_type())
    assert read(Keys(new_key_pair()), unknown, other) == [unread] * 2
    record = decode(unknown)
    assert record is not None and record.envelope.stream == "digits-1"
    keys = Keys()
    assert read(keys, entry_of(WRITER.single("digits-1", EVENT))) == [EVENT]
    assert keys.loads == [], "other streams need no key"


@pytest.mark.parametrize(
    "change",
    [
        lambda value, headers: (value[:-1] + bytes([value[-1] ^ 1]), headers),
        lambda value, headers: (b"", headers),
        lambda value, headers: (value, {**headers, "ce_type": b"trackside.task-held.v1"}),
        lambda value, headers: (value, {**headers, "ce_id": b"another"}),
        lambda value, headers: (value, {**headers, "ce_partitionkey": b"another"}),
        lambda value, headers: (value, {**headers, DATA_KEY: b"%%%"}),
        lambda value, headers: (value, {**headers, DATA_KEY: base64.b64encode(b"x" * 80)}),
    ],
    ids=["value", "no value", "type", "id", "stream", "no base64", "another data key"],
)
def test_a_changed_record_is_read_by_nobody(change) -> None:  # type: ignore[no-untyped-def]
    pair = new_key_pair()
    entry = encrypted(pair[1])
    entry.value, headers = change(entry.value, dict(entry.headers))
    entry.headers = tuple(headers.items())
    assert read(Keys(pair), entry) == [None]


def test_a_signature_covers_the_encrypted_value() -> None:
    pair, writer = new_key_pair(), RecordWriter("dispatcher", "1", new_signer())
    key = base64.b64encode(pair[1]).decode()
    records = writer.decision("digits-1", [EVENT, EVENT], topic="trackside.events", public_key=key)
    entries = [entry_of(record, at) for at, record in enumerate(records)]
    assert read(Keys(pair), *entries) == [EVENT, EVENT]
    found = [decode(entry) for entry in entries]
    assert [record is not None and record.value for record in found] == [each.value for each in records]
    assert b"digits" not in b"".join(each.value or b"" for each in records)


def test_a_writer_draws_one_data_key_for_a_stream_and_no_nonce_twice() -> None:
    public = new_key_pair()[1]
    writers = (WRITER, WRITER, RecordWriter("worker", "w"))
    first, second, by_other = (encrypted(public, writer) for writer in writers)
    data_keys = [dict(entry.headers)[DATA_KEY] for entry in (first, second, by_other)]
    assert data_keys[0] == data_keys[1] != data_keys[2]
    assert (first.value or b"")[:12] != (second.value or b"")[:12]


def test_keys_are_read_once_and_again_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    pair, now_s = new_key_pair(), [0.0]
    monkeypatch.setattr(encryption, "monotonic_s", lambda: now_s[0])
    keys = Keys(pair)
    decryption = Decryption(keys)
    for _ in range(3):
        asyncio.run(decryption.decrypt([encrypted(pair[1])]))
    assert keys.loads == [{pair[1]}]
    keys.private.clear()  # the stream is forgotten
    now_s[0] = encryption.KEPT_S + 1
    entry = encrypted(pair[1])
    asyncio.run(decryption.decrypt([entry]))
    assert isinstance(message_of(entry), EncryptedRecord)


def test_a_key_that_is_needed_is_not_dropped_to_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encryption, "MAX_STREAMS", 2)
    pairs = [new_key_pair() for _ in range(4)]
    decryption = Decryption(Keys(*pairs))
    for batch in ((0, 1), (0, 2), (0, 3), (1, 2, 3), (0, 1, 2, 3)):
        entries = [encrypted(pairs[at][1]) for at in batch]
        asyncio.run(decryption.decrypt(entries))
        assert [message_of(entry) for entry in entries] == [EVENT] * len(entries)


def test_a_record_is_not_taken_for_a_forgotten_one_while_keys_cannot_be_read() -> None:
    pair = new_key_pair()
    keys, entry = Keys(pair), encrypted(pair[1])
    keys.failing = True
    decryption = Decryption(keys)
    with pytest.raises(TransientError):
        asyncio.run(decryption.decrypt([entry]))
    keys.failing = False
    asyncio.run(decryption.decrypt([entry]))
    assert message_of(entry) == EVENT
