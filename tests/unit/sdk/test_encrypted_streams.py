"""What a client says of an encrypted stream whose key it does not have, instead of waiting without an end."""

from dataclasses import replace

import pytest

from tests.unit.domain.given import STREAM, Told
from tests.unit.domain.plausible_forgetting import without_key
from tests.unit.domain.test_forgetting import ended_search, forget
from trackside.aggregates.registry import AGGREGATES
from trackside.contracts.commands import CommandAccepted
from trackside.contracts.message import Record
from trackside.domain.streams import Streams
from trackside.sdk.errors import EncryptedStreamError
from trackside.sdk.publication import Accepted, PublishedCommand, answer_to
from trackside.sdk.records import readable


def answered(told: Told) -> tuple[PublishedCommand, Record]:
    """Returns a command as it was published, and the record of its answer."""
    record = next(each for each in told.records if isinstance(each.message, CommandAccepted))
    assert isinstance(record.message, CommandAccepted)
    source = record.message.source
    place = source.topic, source.partition, source.offset
    return PublishedCommand(*place, record.message.command_id, STREAM), record


def test_an_answer_is_read_with_the_key_and_named_as_encrypted_without_it() -> None:
    publication, record = answered(ended_search())
    assert isinstance(answer_to(publication, record), Accepted)
    with pytest.raises(EncryptedStreamError, match="was opened without `keys`"):
        answer_to(publication, without_key(record))
    other = replace(publication, stream_id="other")
    assert answer_to(other, without_key(record)) is None


def test_a_stream_is_not_followed_without_its_key_or_beyond_where_it_is_forgotten() -> None:
    streams, (first, *_) = Streams(AGGREGATES), ended_search().records
    with pytest.raises(EncryptedStreamError, match=STREAM):
        list(readable(streams.fold_all(without_key(first))))
    told, streams = ended_search(), Streams(AGGREGATES)
    forget(told)
    for record in told.records[:-1]:
        assert list(readable(streams.fold_all(record)))
    with pytest.raises(EncryptedStreamError, match="was forgotten"):
        list(readable(streams.fold_all(told.records[-1])))
