"""What a user's code raised, told in a bounded number of characters."""

import traceback
from itertools import dropwhile
from pathlib import Path

from trackside.contracts.advice import MESSAGE_MAX, TRACEBACK_MAX

_OURS = Path(__file__).parent
"""Where a traceback of a user's code begins; nobody wants to read of these files."""


class NonsenseError(ValueError):
    """A tuner or an assessor said what can't be meant; the message says what and why."""


def described(error: BaseException) -> dict[str, str]:
    """Says what was raised, where: its type, its message, and the end of its traceback."""
    try:
        message = str(error)
    except Exception:  # noqa: BLE001  (a user's own exception: its text is a method of theirs)
        message = "(its text can't be had)"
    frames = traceback.extract_tb(error.__traceback__)
    theirs = dropwhile(lambda frame: Path(frame.filename).parent == _OURS, frames)
    told = "".join(traceback.format_list(list(theirs))) + f"{type(error).__name__}: {message}"
    return {
        "type": type(error).__name__[:200],
        "message": message[:MESSAGE_MAX],
        "traceback": told[-TRACEBACK_MAX:],
    }
