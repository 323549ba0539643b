"""The child process that asks tuners and assessors: JSON lines in, JSON lines out.

Run as `python -m trackside.dispatcher.advisor --parent PID`. It lives apart from its service because a
sampler can be slow, can hang, and may import torch. It can be killed at any moment: all it knows can be told
again.

    request  {"id": 7, "search": "s-1", "ops": [{"op": "tell", ...}, {"op": "ask", "number": 4}]}
    answer   {"id": 7, "result": <what the last op gave>}
          or {"id": 7, "waits": true}, if a tuner has to know the end of another trial before it answers
          or {"id": 7, "error": {"type": "ValueError", "message": "...", "traceback": "...", "op": 1}}

Ops of a search: `open` (kind tuner: space, tuner, seed, direction, and `directions` of several objectives;
kind assessor: assessor, direction, seed), `close`; of a tuner `recall` (number, parameters), `ask` (number),
`tell` (number, state, value, intermediates), `learn` (parameters, value); of an assessor `take` (rows), which
gives who is to be stopped. One op may stand in the request itself, without `ops`. After an error the search
is closed, since it is unknown how much of it was taken in: open it again.
"""

import argparse
import ctypes
import json
import os
import signal
import sys
import traceback
from collections.abc import Iterable, Mapping
from itertools import dropwhile
from typing import IO, Any

from trackside.contracts.advice import MESSAGE_MAX, TRACEBACK_MAX
from trackside.dispatcher import own_tuners
from trackside.dispatcher.assessment import Assessment
from trackside.dispatcher.memories import opened
from trackside.dispatcher.memory import Memory, TunerWaits

Op = Mapping[str, Any]
_PR_SET_PDEATHSIG = 1
_OURS = frozenset({__file__, own_tuners.__file__})
"""Where a traceback of a user's code begins; nobody wants to read of these."""


class Advisor:
    """Many searches' memories, each changed only by the ops that name it."""

    def __init__(self) -> None:
        self._open: dict[str, Memory | Assessment] = {}

    def answer(self, line: bytes | str) -> dict[str, Any]:
        """Does what one line asks and gives the reply to it; never raises."""
        request: dict[str, Any] = {}
        done = 0
        try:
            request = _request(line)
            result = None
            for op in request.get("ops", [request]):
                result = self._do(request["search"], op)
                done += 1
            return {"id": request.get("id"), "result": result}
        except TunerWaits:
            return {"id": request.get("id"), "waits": True}
        except Exception as error:  # noqa: BLE001  (a tuner may raise anything; the asker gets it as a reply)
            self._open.pop(str(request.get("search")), None)
            return {"id": request.get("id"), "error": {**described(error), "op": done}}

    def _do(self, search: str, op: Op) -> Any:
        match op["op"]:
            case "open":
                self._open[search] = _opened(op)
            case "close":
                self._open.pop(search, None)
            case name:
                memory = self._open.get(search)
                if memory is None:
                    raise LookupError(f"search {search!r} is not open here; send open and its history first")
                if isinstance(memory, Assessment):
                    return _assess(memory, name, op)
                return _tune(memory, name, op)
        return None


def described(error: BaseException) -> dict[str, str]:
    """Says what was raised, where: its type, its message, and the end of its traceback."""
    try:
        message = str(error)
    except Exception:  # noqa: BLE001  (a user's own exception: its text is a method of theirs)
        message = "(its text can't be had)"
    theirs = dropwhile(lambda frame: frame.filename in _OURS, traceback.extract_tb(error.__traceback__))
    told = "".join(traceback.format_list(list(theirs))) + f"{type(error).__name__}: {message}"
    return {
        "type": type(error).__name__[:200],
        "message": message[:MESSAGE_MAX],
        "traceback": told[-TRACEBACK_MAX:],
    }


def _request(line: bytes | str) -> dict[str, Any]:
    request = json.loads(line)
    if not isinstance(request, dict):
        raise TypeError(f"a request is a JSON object, got {type(request).__name__}")
    return request


def _opened(op: Op) -> Memory | Assessment:
    if op["kind"] == "tuner":
        return opened(op["space"], op["tuner"], op["seed"], op["direction"], op.get("directions") or ())
    if op["kind"] == "assessor":
        return Assessment(op["assessor"], op["direction"], op["seed"])
    raise ValueError(f"unknown kind {op['kind']!r}; expected tuner or assessor")


def _tune(memory: Memory, name: str, op: Op) -> dict[str, Any] | None:
    match name:
        case "recall":
            memory.recall(op["number"], op["parameters"])
        case "tell":
            memory.tell(op["number"], op["state"], op.get("value"), _pairs(op.get("intermediates")))
        case "learn":
            memory.learn(op["parameters"], op["value"])
        case "ask":
            return memory.ask(op["number"])
        case _:
            raise ValueError(f"unknown op {name!r} for a tuner; expected recall, tell, learn or ask")
    return None


def _assess(memory: Assessment, name: str, op: Op) -> list[tuple[int, int]]:
    if name != "take":
        raise ValueError(f"unknown op {name!r} for an assessor; expected take")
    return memory.take(op["rows"])


def _pairs(intermediates: Iterable[tuple[int, float]] | None) -> list[tuple[int, float]]:
    return [(int(step), float(value)) for step, value in intermediates or ()]


def _die_with(parent: int) -> None:
    """Makes the kernel kill this process with its parent, and ends it if the parent is gone already."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if parent and os.getppid() != parent:
        raise SystemExit(f"advisor: parent process {parent} is gone")


def _take_stdout() -> IO[bytes]:
    """Keeps the real stdout for replies and sends everything else that prints to stderr."""
    replies = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    return replies


def main() -> None:
    """Serves requests from stdin until it closes; the first line out says that the process is ready."""
    parser = argparse.ArgumentParser(prog="python -m trackside.dispatcher.advisor")
    parser.add_argument("--parent", type=int, default=0, help="pid of the process to die with")
    arguments = parser.parse_args()
    # Ctrl-C reaches the whole terminal; the parent decides when to stop asking.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _die_with(arguments.parent)
    replies = _take_stdout()
    import optuna  # noqa: F401  (here, so that being ready means that an answer takes milliseconds)

    advisor = Advisor()
    _write(replies, {"ready": os.getpid()})
    for line in sys.stdin.buffer:
        _write(replies, advisor.answer(line))


def _write(replies: IO[bytes], reply: Mapping[str, Any]) -> None:
    rest = memoryview(json.dumps(reply, separators=(",", ":")).encode() + b"\n")
    while rest:
        rest = rest[replies.write(rest) :]


if __name__ == "__main__":
    main()
