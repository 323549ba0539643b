"""What is said of an exception of a user's code names the place in that code."""

from pathlib import Path
from typing import Any

import pytest

from trackside.aggregates.search.advice_messages import MESSAGE_MAX
from trackside.dispatcher.plugins.user_errors import describe

TUNER = """
def best(history):
    return history[0]

class Mine:
    def suggest(self, history):
        import json
        return json.loads(best(history))
"""


def described(tmp_path: Path, history: list[str]) -> dict[str, str]:
    file = tmp_path / "tuners.py"
    found: dict[str, Any] = {}
    exec(compile(TUNER, str(file), "exec"), found)  # noqa: S102  (a user's module, as an import runs it)
    with pytest.raises(Exception) as raised:  # noqa: PT011  (whatever a user's code raises)
        found["Mine"]().suggest(history)
    traceback = raised.value.__traceback__
    assert traceback is not None
    return describe(raised.value.with_traceback(traceback.tb_next))  # without this test's own frame


def test_the_message_ends_with_the_line_of_the_users_own_code(tmp_path: Path) -> None:
    file = tmp_path / "tuners.py"
    assert described(tmp_path, [])["message"] == f"list index out of range (in best, {file}:3)"
    in_library = described(tmp_path, ["{"])["message"]
    assert in_library.endswith(f" (in suggest, {file}:8)"), "not the line of the library that raised"


def test_the_place_is_there_at_the_end_of_a_long_message_too() -> None:
    try:
        raise ValueError("x" * 9_000)
    except ValueError as error:
        message = describe(error)["message"]
    assert len(message) == MESSAGE_MAX
    assert message.endswith(")")
