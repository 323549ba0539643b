"""What a dispatcher writes into the log of a command for a stream that was forgotten."""

from tests.unit.dispatcher.test_intake import entry, took
from tests.unit.domain.test_forgetting import decided, ended_search, forget
from trackside.domain.forgetting import FORGET

BODY = b'{"reason": "canary"}'


def test_a_command_for_a_forgotten_stream_is_received_without_its_content() -> None:
    told = ended_search()
    forget(told)
    told.tell(*decided(told))
    ((stream, event, _),) = took(entry(50, BODY)).unrecorded(told.streams)
    assert stream == told.stream.stream_id
    assert (event.body, event.publisher) == (None, "")
    assert event.problem is not None
    assert event.problem.code == "stream_forgotten"
    assert "canary" not in event.model_dump_json()


def test_a_command_that_asks_for_it_again_is_received_as_it_is() -> None:
    told = ended_search()
    forget(told)
    told.tell(*decided(told))
    ((_, event, _),) = took(entry(50, BODY, ce_type=FORGET.encode())).unrecorded(told.streams)
    assert event.body == {"reason": "canary"}


def test_a_command_is_dropped_once_it_is_in_the_forgotten_stream() -> None:
    told = ended_search()
    forget(told)
    told.tell(*decided(told))
    intake = took(entry(50, BODY))
    ((_, event, _),) = intake.unrecorded(told.streams)
    intake.recorded(event)
    assert (intake.unrecorded(told.streams), len(intake)) == ([], 0)
