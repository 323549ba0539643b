from aiokafka.errors import KafkaConnectionError

from trackside.eventlog.errors import error_text


def test_an_error_without_a_text_is_still_told() -> None:
    assert error_text(TimeoutError()) == "no answer in time"
    assert error_text(OSError()) == "OSError"
    assert error_text(KafkaConnectionError("no broker")) == "KafkaConnectionError: no broker"
