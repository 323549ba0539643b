"""What a worker tells a task's process, and which of it makes sense when. Pure.

Lines of JSON on the process's channel: the assignment, then `{"do": "LOAD"}`, `{"do": "TRAIN", "device":
"cuda:0"}` and `{"do": "EXIT"}`. LOAD and TRAIN may come at once; each is obeyed in its turn. After a training
that ran out of memory the process waits for another TRAIN. Until its work is over it may ask for another
trial's parameters, and is answered with `{"do": "NEXT", "request": 1, "parameters": {...}}`: null where there
are none, with a `problem` where these won't do.

    new -LOAD-> loading -TRAIN-> training -ran out of memory-> loading
      any of these -EXIT-> leaving             training -ended-> over
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal

MAX_SHOWN = 200


@dataclass(frozen=True, slots=True)
class Word:
    """One thing that a process is told to do; `device` is torch's name of the one to train on.

    The last three are of NEXT: which request it answers, with what.
    """

    do: Literal["LOAD", "TRAIN", "EXIT", "NEXT"]
    device: str = ""
    request: int = 0
    parameters: Mapping[str, Any] | None = None
    problem: str = ""


class ControlState(StrEnum):
    """What a process was told last."""

    NEW = "has not been told to load"
    LOADING = "has been told to load, and waits for its device"
    TRAINING = "has been told to train"
    LEAVING = "has been told to exit"
    OVER = "has ended its work"


_NEXT = {
    (ControlState.NEW, "LOAD"): ControlState.LOADING,
    (ControlState.LOADING, "TRAIN"): ControlState.TRAINING,
}


class ControlGuard:
    """Lets words through that make sense after those before, and says of any other why it doesn't."""

    def __init__(self) -> None:
        self.state = ControlState.NEW

    def objection(self, word: Word) -> str | None:
        """Gives why a word is rejected; None if it shall be obeyed, which is noted."""
        if word.do == "NEXT" and self.state in (ControlState.LOADING, ControlState.TRAINING):
            return None
        following = _NEXT.get((self.state, word.do))
        if word.do == "EXIT" and self.state is not ControlState.OVER:
            following = ControlState.LEAVING
        if following is None:
            return f"{word.do} is rejected: the task {self.state}"
        self.state = following
        return None

    def interrupted(self) -> None:
        """Notes that the training ran out of memory and may be told to begin again."""
        if self.state is ControlState.TRAINING:
            self.state = ControlState.LOADING

    def over(self) -> None:
        """Notes that nothing is obeyed any more."""
        self.state = ControlState.OVER


def line(message: Mapping[str, Any]) -> bytes:
    """Writes an assignment or a word as a line."""
    return json.dumps(message).encode() + b"\n"


def spoken(word: Word) -> bytes:
    """Writes a word as a line."""
    if word.do == "NEXT":
        said = {"request": word.request, "parameters": word.parameters, "problem": word.problem}
        return line({"do": word.do, **said})
    return line({"do": word.do, "device": word.device} if word.device else {"do": word.do})


def read(octets: bytes) -> Word | str:
    """Reads a line as a word; gives a sentence where it is none."""
    try:
        match json.loads(octets):
            case {"do": "LOAD" | "TRAIN" | "EXIT" as do, **more}:
                return Word(do, str(more.get("device", "")))
            case {"do": "NEXT", "request": int(request), "parameters": parameters, **more}:
                return Word("NEXT", "", request, parameters, str(more.get("problem", "")))
    except ValueError:
        pass
    return f"expected LOAD, TRAIN, EXIT or NEXT, got {octets[:MAX_SHOWN]!r}"
