"""What is said of errors that say nothing themselves."""

from aiokafka.errors import KafkaConnectionError

from trackside.eventlog.errors import said


def test_an_error_without_a_text_is_still_told() -> None:
    assert said(TimeoutError()) == "no answer in time"
    assert said(OSError()) == "OSError"
    assert said(KafkaConnectionError("no broker")) == "KafkaConnectionError: no broker"
