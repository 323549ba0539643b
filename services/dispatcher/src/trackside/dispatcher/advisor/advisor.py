"""The child process that runs tuners and assessors: requests on stdin and answers on stdout are JSON lines.

Run as `python -m trackside.dispatcher.advisor.advisor --parent PID`. It is a process of its own because a
sampler can be slow, can hang, and may import torch. It can be killed at any moment: all of its state can be
sent again.

    request  {"id": 7, "search": "s-1", "ops": [{"op": "tell", ...}, {"op": "ask", "number": 4}]}
    answer   {"id": 7, "result": <the result of the last op>}
          or {"id": 7, "waits": true}, if a tuner needs the end of another trial before it answers
          or {"id": 7, "error": {"type": "ValueError", "message": "...", "traceback": "...", "op": 1}}

Ops of a search: `open` (kind tuner: space, tuner, seed, direction, and `directions` of several objectives;
kind assessor: assessor, direction, seed) and `close`. A tuner has the ops `restore` (number, parameters),
`ask` (number), `tell` (number, state, value, intermediates) and `add_result` (parameters, value). An assessor
has the op `take` (rows), whose result has the trials to stop and the failures of the rule. A single op may be
in the request itself, without `ops`. An error closes the search, as its state is undefined: open it again.
"""

import argparse
import ctypes
import json
import os
import signal
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import IO, Any

from trackside.aggregates.search.messages import Direction
from trackside.aggregates.search.space.axes import SpaceJson
from trackside.aggregates.search.space.builtin_tuners import TUNERS
from trackside.aggregates.search.space.promoting_options import PROMOTING
from trackside.dispatcher.advisor.search_assessor import SearchAssessor
from trackside.dispatcher.plugins.tuner_plugins import PluginTuner
from trackside.dispatcher.plugins.user_errors import describe
from trackside.dispatcher.tuners.list_tuner import batch_tuner, grid_tuner
from trackside.dispatcher.tuners.optuna_tuner import OptunaTuner
from trackside.dispatcher.tuners.promotion.factory import promoting_tuner
from trackside.dispatcher.tuners.tuner import AskTellTuner, TunerWaits

_Op = Mapping[str, Any]
_PR_SET_PDEATHSIG = 1


class Advisor:
    """The tuners and assessors of many searches, each changed only by the ops of its search."""

    def __init__(self) -> None:
        self._open: dict[str, AskTellTuner | SearchAssessor] = {}

    def answer(self, line: bytes | str) -> dict[str, Any]:
        """Performs the request of one line and returns the reply to it; never raises."""
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
        except Exception as error:  # noqa: BLE001  (a tuner may raise anything; it is the reply)
            self._open.pop(str(request.get("search")), None)
            return {"id": request.get("id"), "error": {**describe(error), "op": done}}

    def _do(self, search: str, op: _Op) -> Any:
        match op["op"]:
            case "open":
                self._open[search] = _new(op)
            case "close":
                self._open.pop(search, None)
            case name:
                advisor = self._open.get(search)
                if advisor is None:
                    raise LookupError(f"search {search!r} is not open here; send open and its history first")
                if isinstance(advisor, SearchAssessor):
                    return _assess(advisor, name, op)
                return _tune(advisor, name, op)
        return None


def _request(line: bytes | str) -> dict[str, Any]:
    request = json.loads(line)
    if not isinstance(request, dict):
        raise TypeError(f"a request is a JSON object, got {type(request).__name__}")
    return request


def _new(op: _Op) -> AskTellTuner | SearchAssessor:
    if op["kind"] == "tuner":
        return make_tuner(op["space"], op["tuner"], op["seed"], op["direction"], op.get("directions") or ())
    if op["kind"] == "assessor":
        return SearchAssessor(op["assessor"], op["direction"], op["seed"])
    raise ValueError(f"unknown kind {op['kind']!r}; expected tuner or assessor")


def _tune(tuner: AskTellTuner, name: str, op: _Op) -> dict[str, Any] | None:
    match name:
        case "restore":
            tuner.restore(op["number"], op["parameters"])
        case "tell":
            tuner.tell(op["number"], op["state"], op.get("value"), _pairs(op.get("intermediates")))
        case "add_result":
            tuner.add_result(op["parameters"], op["value"])
        case "ask":
            return tuner.ask(op["number"])
        case _:
            raise ValueError(f"unknown op {name!r} for a tuner; expected restore, tell, add_result or ask")
    return None


def _assess(assessor: SearchAssessor, name: str, op: _Op) -> dict[str, Any]:
    if name != "take":
        raise ValueError(f"unknown op {name!r} for an assessor; expected take")
    stopped = assessor.take(op["rows"])
    return {"hopeless": stopped, "failed": [asdict(failure) for failure in assessor.failures]}


def _pairs(intermediates: Iterable[tuple[int, float]] | None) -> list[tuple[int, float]]:
    return [(int(step), float(value)) for step, value in intermediates or ()]


def _die_with(parent: int) -> None:
    """Makes the kernel kill this process when its parent ends; exits if the parent has ended already."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if parent and os.getppid() != parent:
        raise SystemExit(f"advisor: parent process {parent} is gone")


def _take_stdout() -> IO[bytes]:
    """Returns the real stdout, for replies, and redirects all other prints to stderr."""
    replies = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    return replies


def _take_stdin() -> IO[bytes]:
    """Returns the real stdin, for requests: processes that a user's code starts must not read them."""
    requests = os.fdopen(os.dup(0), "rb")
    devnull = os.open(os.devnull, os.O_RDONLY)
    os.dup2(devnull, 0)
    os.close(devnull)
    return requests


def main() -> None:
    """Serves requests from stdin until it closes; the first line on stdout reports that it is ready."""
    parser = argparse.ArgumentParser(prog="python -m trackside.dispatcher.advisor.advisor")
    parser.add_argument("--parent", type=int, default=0, help="pid of the process to die with")
    arguments = parser.parse_args()
    # Ctrl-C reaches all processes of the terminal; the parent decides when this one ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _die_with(arguments.parent)
    replies, requests = _take_stdout(), _take_stdin()
    import optuna  # noqa: F401  (here, so that a process that is ready answers in milliseconds)

    advisor = Advisor()
    _write(replies, {"ready": os.getpid()})
    for line in requests:
        _write(replies, advisor.answer(line))


def _write(replies: IO[bytes], reply: Mapping[str, Any]) -> None:
    rest = memoryview(json.dumps(reply, separators=(",", ":")).encode() + b"\n")
    while rest:
        rest = rest[replies.write(rest) :]


def make_tuner(
    space: SpaceJson,
    tuner: Mapping[str, Any],
    seed: int,
    direction: Direction,
    directions: Sequence[Direction] = (),
) -> AskTellTuner:
    """Creates the tuner of a search, without any trials: a built-in one, else an installed one.

    `directions` are those of several objectives, which only built-in tuners can have.

    Raises ValueError for an unknown tuner, and any exception of a user's tuner.
    """
    name, options = tuner["name"], tuner.get("options") or {}
    if name == "grid":
        return grid_tuner(space, seed)
    if name == "batch":
        return batch_tuner(space, options)
    if name in PROMOTING:
        return promoting_tuner(space, tuner, seed, direction)
    if name not in TUNERS:
        return PluginTuner(space, tuner, seed, direction)
    return OptunaTuner(space, tuner, seed, directions or (direction,))


if __name__ == "__main__":
    main()
