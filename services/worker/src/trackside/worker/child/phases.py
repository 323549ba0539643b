"""The phases of an attempt inside its process: start, load, train, report.

Each begins when the worker says so. How the attempt ended is written to a file and renamed before anybody
is told; so a worker that is killed in between finds it when it comes back. A training that runs out of
memory is no end while the attempt may be interrupted: what was loaded stays, and it trains again.
"""

import importlib
import sys
import traceback
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from trackside.contracts.tasks import AttemptEnd, TaskStatus
from trackside.eventlog.clock import monotonic_s
from trackside.sdk import trial
from trackside.sdk.channel import WorkerChannel
from trackside.worker.child import orphans as leftovers
from trackside.worker.child.control_channel import ControlChannel
from trackside.worker.child.control_states import Word
from trackside.worker.child.out_of_memory import chain, out_of_memory
from trackside.worker.child.process_memory import ProcessMemory, release_memory
from trackside.worker.child.program import ProgramTask, ending_of
from trackside.worker.child.serialise import error_fields, to_plain_json
from trackside.worker.durable_files import write_atomically

_ENDS = {"host": AttemptEnd.OOM_HOST, "device": AttemptEnd.OOM_DEVICE, None: AttemptEnd.FAILED}


class _Failure(Exception):
    def __init__(self, stage: str, cause: BaseException) -> None:
        super().__init__(stage)
        self.stage = stage
        self.cause = cause


def run(
    assignment: Mapping[str, Any], channel: WorkerChannel, orders: ControlChannel, memory: ProcessMemory
) -> bool:
    """Runs the task to its end and leaves its ending in the assignment's `ending` file.

    A process that is told to exit before it has trained leaves none. Says whether all went well: then the
    process may run another one. Raises WorkerGoneError.
    """
    attempt = _Attempt(assignment, channel, orders, memory)
    channel.answer = partial(_answer, orders)
    try:
        result = attempt.result()
    except _Failure as failure:
        ending = _failed(failure.stage, failure.cause)
        sys.stderr.write(ending["error"]["traceback"])
    else:
        if result is None:
            return False
        ending = {"end": AttemptEnd.FINISHED, "result": result}
    channel.flush()
    orders.over()
    ending["leftovers"] = leftovers.end_descendants()
    ending |= attempt.times | memory.peaks() | {"interrupts": attempt.interrupts}
    left = _leave(assignment, ending, channel)
    return left and ending["end"] == AttemptEnd.FINISHED and not attempt.was_interrupted


def _answer(orders: ControlChannel, request: int) -> dict[str, Any] | None:
    """Waits for another trial's parameters; raises ValueError for such as the task's type won't take."""
    word = orders.answer(request)
    if word is not None and word.problem:
        raise ValueError(word.problem)
    return None if word is None or word.parameters is None else dict(word.parameters)


def _leave(assignment: Mapping[str, Any], ending: dict[str, Any], channel: WorkerChannel) -> bool:
    """Writes the ending down and says so; where the disk has no room, the channel carries it.

    A death of the worker can't take what was renamed. A power cut can, until the worker syncs it, which it
    does when the log is slow to take the end. Says whether it could be written.
    """
    path = Path(assignment["ending"])
    try:
        write_atomically(path, ending | channel.said_of_this())
    except OSError as error:
        sys.stderr.write(f"trackside: the ending can't be written: {error}\n")
        channel.tell({"ended": True, "ending": ending})
        return False
    channel.tell({"ended": True})
    return True


class _Attempt:
    def __init__(
        self,
        assignment: Mapping[str, Any],
        channel: WorkerChannel,
        orders: ControlChannel,
        memory: ProcessMemory,
    ) -> None:
        self._memory = memory
        self.was_interrupted = False
        self._assignment = assignment
        self._channel = channel
        self._orders = orders
        self._left = int(assignment["interrupts"])
        self.interrupts = int(assignment["interrupted"])
        self.times = {"load_time_ms": -1, "train_time_ms": -1}

    def result(self) -> dict[str, Any] | None:
        """Goes through the phases; None if the process is told to exit first. Raises _Failure."""
        self._channel.status(TaskStatus.AVAILABLE)
        task = _staged("START", lambda: _task(self._assignment, self._channel))
        if self._orders.next().do == "EXIT":
            return None
        self._channel.status(TaskStatus.LOADING)
        began = monotonic_s()
        _staged("LOAD", task.load)
        self.times["load_time_ms"] = _ms_since(began)
        self._channel.status(TaskStatus.WAITING)
        while (word := self._orders.next()).do == "TRAIN":
            trained = self._trained(task, word)
            if trained is not None:
                return trained
        return None

    def _trained(self, task: Any, word: Word) -> dict[str, Any] | None:
        """Trains once; gives the result, or None if it ran out of memory and may try again."""
        self._channel.status(TaskStatus.TRAINING)
        began = monotonic_s()
        try:
            returned = task.train(word.device)
        except BaseException as error:  # SystemExit too: a task that leaves has not finished
            found = out_of_memory(error)
            if found is None or self._left == 0:
                raise _Failure("TRAIN", error) from error
            said = {"resource": found, "error": error_fields("TRAIN", error)} | self._memory.peaks()
            for each in chain(error):  # what the training had is in the frames that the exceptions remember
                traceback.clear_frames(each.__traceback__)
                each.__traceback__ = None
        else:
            self.times["train_time_ms"] = _ms_since(began)
            result: dict[str, Any] = _staged("REPORT", lambda: to_plain_json(returned))
            return result
        self._interrupted(said)
        return None

    def _interrupted(self, said: dict[str, Any]) -> None:
        """Gives back the memory of a training that failed, and what it reported; then says so."""
        self.was_interrupted = True
        self._left -= 1
        self.interrupts += 1
        release_memory()
        sys.stderr.write(f"{said['error']['traceback']}trackside: out of memory, to be trained again\n")
        self._channel.flush()
        self._channel.forget()
        trial.connect(self._channel)
        self._orders.interrupted()
        self._channel.tell({"interrupted": said})
        self._channel.status(TaskStatus.WAITING)


def _failed(stage: str, cause: BaseException) -> dict[str, Any]:
    of_program = ending_of(cause)
    ending = of_program or {"error": error_fields(stage, cause)}
    return {**ending, "end": _ENDS[out_of_memory(cause)]}


def _staged(stage: str, step: Callable[[], Any]) -> Any:
    try:
        return step()
    except BaseException as error:  # SystemExit too
        raise _Failure(stage, error) from error


def _task(assignment: Mapping[str, Any], channel: WorkerChannel) -> Any:
    return ProgramTask(assignment, channel) if assignment["program"] else _made(assignment["entry"])


def _made(entry: str) -> Any:
    module, _, name = entry.partition(":")
    kind = getattr(importlib.import_module(module), name)
    for method in ("load", "train"):
        if not callable(getattr(kind, method, None)):
            raise TypeError(f"{entry} has no method {method}; make it a subclass of trackside.sdk.Task")
    return kind()


def _ms_since(began_s: float) -> int:
    return round((monotonic_s() - began_s) * 1000)
