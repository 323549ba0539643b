"""Describes exceptions of users' code in a bounded number of characters."""

import traceback
from itertools import dropwhile
from pathlib import Path

from trackside.aggregates.search.advice.advice_messages import MESSAGE_MAX, TRACEBACK_MAX
from trackside.contracts.envelope.redaction import redact

_DISPATCHER = Path(__file__).parents[1]
"""Frames of these files at the start of a traceback are left out: they are not the user's code."""


class NonsenseError(ValueError):
    """The answer of a tuner or an assessor is not valid; the message says which answer and why."""


def describe(error: BaseException) -> dict[str, str]:
    """Returns the type of an exception, its message, and the end of its traceback, without secrets."""
    try:
        message = redact(str(error))
    except Exception:  # noqa: BLE001  (a user's exception class: its __str__ may raise too)
        message = "(its __str__ raised)"
    frames = traceback.extract_tb(error.__traceback__)
    users = list(dropwhile(lambda frame: Path(frame.filename).is_relative_to(_DISPATCHER), frames))
    text = redact("".join(traceback.format_list(users))) + f"{type(error).__name__}: {message}"
    return {
        "type": type(error).__name__[:200],
        "message": message[: MESSAGE_MAX - len(place := _place_of(users))] + place,
        "traceback": text[-TRACEBACK_MAX:],
    }


def _place_of(users: list[traceback.FrameSummary]) -> str:
    """Returns the innermost line of the user's own files, as ` (in suggest, mine/tuners.py:7)`."""
    own = [frame for frame in users if Path(frame.filename).parent == Path(users[0].filename).parent]
    return f" (in {own[-1].name}, {own[-1].filename[-300:]}:{own[-1].lineno})" if own else ""
