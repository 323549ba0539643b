"""What a receipt says, where reading begins again for it, and which topics may be named at all."""

import pytest
from pydantic import ValidationError

from tests.unit.dispatcher.test_refused_streams import Loop, codes
from trackside.contracts.commands import CommandRefused, Source
from trackside.contracts.topics import Topics
from trackside.dispatcher.intake.receipt_positions import earliest
from trackside.dispatcher.intake.receipts import ReceiptRequest, Receipts, find_answer
from trackside.dispatcher.settings import DispatcherSettings, topics_of
from trackside.eventlog.background import Background
from trackside.eventlog.memory import MemoryLog
from trackside.eventlog.record_writer import RecordWriter

COMMANDS = Topics().commands.name


def wanted(offset: int, command_id: str = "c-1") -> ReceiptRequest:
    source = Source(topic=COMMANDS, partition=0, offset=offset)
    return ReceiptRequest("inbox", "s-1", command_id, source)


def test_a_receipt_after_a_start_says_what_the_log_says() -> None:
    loop = Loop()
    said = []
    for max_trials in (1, 1, 2):
        loop.say("s-1", "c-1", max_trials)
        said += [event for event in loop.turn() if isinstance(event, CommandRefused)]
    assert codes(said) == ["unknown_task_type", "unknown_task_type", "idempotency_conflict"]
    assert [find_answer(loop.streams, wanted(offset)) for offset in range(3)] == said
    assert find_answer(loop.streams, wanted(3)) is None
    assert find_answer(loop.streams, wanted(0, "c-2")) is None


def test_reading_begins_again_at_the_first_receipt_that_is_lacking() -> None:
    receipts = Receipts(MemoryLog(), RecordWriter("dispatcher", "1"), Background(), {"inbox"})
    receipts.read(0, 4)
    assert receipts.positions() == {0: 5}
    receipts.request(wanted(7))
    receipts.request(wanted(5))
    receipts.read(0, 7)
    assert receipts.positions() == {0: 5}
    place = (COMMANDS, 0)
    assert earliest(place, 9, 2, None) == 2
    assert earliest(place, 9, 2, {}) == 9
    assert earliest(place, 9, 2, {place: 5}) == 5
    assert earliest(place, 9, 2, {place: 1}) == 2, "what is gone can't be read"
    assert earliest(place, 9, 2, {place: 12}) == 9


@pytest.mark.parametrize("named", ["trackside.events", "t1.trackside.logs", "a/b", "x" * 250, "..", "a,*"])
def test_an_operator_can_not_allow_a_topic_of_ours_or_what_is_none(named: str) -> None:
    with pytest.raises(ValidationError, match="not Trackside's own"):
        DispatcherSettings(receipt_topics=f"fine, {named}")
    assert topics_of(" a.b ,c,") == {"a.b", "c"}
