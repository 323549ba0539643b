"""Instructions from outside: which task is meant."""

import pytest

from trackside.sdk.instruct import whole_task_id


@pytest.mark.parametrize("text", ["server.1.digits", "1.digits", ".1.digits"])
def test_a_task_may_be_named_without_its_stream(text: str) -> None:
    assert whole_task_id("server", text) == "server.1.digits"
