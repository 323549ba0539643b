"""The child process that asks tuners and assessors: JSON lines in, JSON lines out.

Run as `python -m trackside.dispatcher.advisor.advisor --parent PID`. It lives apart from its service because
a sampler can be slow, can hang, and may import torch. It can be killed at any moment: all it knows can be
sent again.

    request  {"id": 7, "search": "s-1", "ops": [{"op": "tell", ...}, {"op": "ask", "number": 4}]}
    answer   {"id": 7, "result": <what the last op gave>}
          or {"id": 7, "waits": true}, if a tuner has to know the end of another trial before it answers
          or {"id": 7, "error": {"type": "ValueError", "message": "...", "traceback": "...", "op": 1}}

Ops of a search: `open` (kind tuner: space, tuner, seed, direction, and `directions` of several objectives;
kind assessor: assessor, direction, seed), `close`; of a tuner `recall` (number, parameters), `ask` (number),
`tell` (number, state, value, intermediates), `learn` (parameters, value); of an assessor `take` (rows), which
gives who is to be stopped, and where it failed. One op may stand in the request itself, without `ops`. After
an error the search is closed, since it is unknown how much of it was taken in: open it again.
"""

import argparse
import ctypes
import json
import os
import signal
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import IO, Any

from trackside.dispatcher.advisor.search_assessor import SearchAssessor
from trackside.dispatcher.advisor.tuner_factory import make_tuner
from trackside.dispatcher.plugins.user_errors import described
from trackside.dispatcher.tuners.tuner import AskTellTuner, TunerWaits

_Op = Mapping[str, Any]
_PR_SET_PDEATHSIG = 1


class Advisor:
    """Many searches' memories, each changed only by the ops that name it."""

    def __init__(self) -> None:
        self._open: dict[str, AskTellTuner | SearchAssessor] = {}

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

    def _do(self, search: str, op: _Op) -> Any:
        match op["op"]:
            case "open":
                self._open[search] = _opened(op)
            case "close":
                self._open.pop(search, None)
            case name:
                memory = self._open.get(search)
                if memory is None:
                    raise LookupError(f"search {search!r} is not open here; send open and its history first")
                if isinstance(memory, SearchAssessor):
                    return _assess(memory, name, op)
                return _tune(memory, name, op)
        return None


def _request(line: bytes | str) -> dict[str, Any]:
    request = json.loads(line)
    if not isinstance(request, dict):
        raise TypeError(f"a request is a JSON object, got {type(request).__name__}")
    return request


def _opened(op: _Op) -> AskTellTuner | SearchAssessor:
    if op["kind"] == "tuner":
        return make_tuner(op["space"], op["tuner"], op["seed"], op["direction"], op.get("directions") or ())
    if op["kind"] == "assessor":
        return SearchAssessor(op["assessor"], op["direction"], op["seed"])
    raise ValueError(f"unknown kind {op['kind']!r}; expected tuner or assessor")


def _tune(memory: AskTellTuner, name: str, op: _Op) -> dict[str, Any] | None:
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


def _assess(memory: SearchAssessor, name: str, op: _Op) -> dict[str, Any]:
    if name != "take":
        raise ValueError(f"unknown op {name!r} for an assessor; expected take")
    hopeless = memory.take(op["rows"])
    return {"hopeless": hopeless, "failed": [asdict(failure) for failure in memory.failures]}


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


def _take_stdin() -> IO[bytes]:
    """Keeps the real stdin for requests: what a user's code starts must not read them."""
    requests = os.fdopen(os.dup(0), "rb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    return requests


def main() -> None:
    """Serves requests from stdin until it closes; the first line out says that the process is ready."""
    parser = argparse.ArgumentParser(prog="python -m trackside.dispatcher.advisor.advisor")
    parser.add_argument("--parent", type=int, default=0, help="pid of the process to die with")
    arguments = parser.parse_args()
    # Ctrl-C reaches the whole terminal; the parent decides when to stop asking.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _die_with(arguments.parent)
    replies, requests = _take_stdout(), _take_stdin()
    import optuna  # noqa: F401  (here, so that being ready means that an answer takes milliseconds)

    advisor = Advisor()
    _write(replies, {"ready": os.getpid()})
    for line in requests:
        _write(replies, advisor.answer(line))


def _write(replies: IO[bytes], reply: Mapping[str, Any]) -> None:
    rest = memoryview(json.dumps(reply, separators=(",", ":")).encode() + b"\n")
    while rest:
        rest = rest[replies.write(rest) :]


if __name__ == "__main__":
    main()
