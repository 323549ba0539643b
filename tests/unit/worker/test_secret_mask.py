"""Values of secrets are masked in texts of messages, however they are written there, and nothing else is."""

import json
from typing import Any

import pytest

from tests.unit.worker.test_outcome import FINISHED
from trackside.worker.messages.process_messages import ServiceReady
from trackside.worker.messages.report_messages import ArtifactReady, MetricPoint, PointBatch
from trackside.worker.secret_mask import MIN_CHARACTERS, SecretMask

VALUE = 'a"b\\c\td/é-0123'
LINES = "-----BEGIN-----\nfirst-line\n  second-line\nend\n"


@pytest.mark.parametrize("write", [str, json.dumps, repr, lambda text: json.dumps(text, ensure_ascii=False)])
def test_a_value_is_masked_as_it_is_and_as_json_and_repr_write_it(write: object) -> None:
    assert callable(write)
    masked = SecretMask([VALUE]).text(f"key: {write(VALUE)}, again {write(VALUE)}!")
    assert masked.count("[redacted]") == 2
    assert "0123" not in masked


def test_each_line_of_a_value_is_masked_and_the_longest_value_first_but_no_short_one() -> None:
    mask = SecretMask([LINES, "first-line-of-more"])
    assert mask.text("first-line") == mask.text("first-line-of-more") == "[redacted]"
    assert mask.text("> second-line <") == "> [redacted] <"
    assert mask.text(LINES) == "[redacted]"
    assert mask.text("end") == "end"
    assert mask.longest >= len(LINES)
    assert SecretMask(["a" * (MIN_CHARACTERS - 1)]).text("a" * 99) == "a" * 99


def test_messages_keep_what_the_worker_needs_and_lose_values_in_what_the_task_has_chosen() -> None:
    mask = SecretMask(["finished", "hunter2"])
    said: Any = {"result": {"hunter2": ["x hunter2", 2, None]}, "error": {"message": "hunter2"}}
    found = mask.message(FINISHED._replace(**said))
    assert found.end == "finished"
    assert found.result == {"[redacted]": ["x [redacted]", 2, None]}
    assert found.error == {"message": "[redacted]"}
    point = MetricPoint("hunter2", 0, 1, "nan")
    assert mask.message(PointBatch([point])).points == [MetricPoint("[redacted]", 0, 1, "nan")]
    assert mask.message(ServiceReady({"url": "hunter2"})).detail == {"url": "[redacted]"}
    ready = ArtifactReady(1, "hunter2", 1, "file", "finished", 1, "text/plain", None, {"a": "hunter2"}, 0)
    assert mask.message(ready) == ready._replace(metadata={"a": "[redacted]"})
    message = PointBatch([])
    assert SecretMask().message(message) is message
