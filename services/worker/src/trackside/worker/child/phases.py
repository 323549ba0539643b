"""The phases of an attempt inside its process: start, load, train, report.

Each begins when the worker tells so. The ending is written to a file before it is reported, so a worker that
is killed in between finds it at its next start. While the attempt may be interrupted, a training that runs
out of memory doesn't end it: what was loaded stays, and the training is repeated.
"""

import importlib
import json
import sys
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from trackside.contracts.tasks.tasks import MAX_RESULT_BYTES, AttemptEnd, TaskStatus
from trackside.eventlog.clock import monotonic_s
from trackside.sdk import trial
from trackside.sdk.in_task.checkpoints import CheckpointError
from trackside.sdk.in_task.saving import RESULT, SaveError
from trackside.worker.child.channel.control_channel import AnswerT, ControlChannel
from trackside.worker.child.channel.worker_channel import WorkerChannel
from trackside.worker.child.process import at_exit, masking, orphans
from trackside.worker.child.process.out_of_memory import exception_chain, out_of_memory
from trackside.worker.child.process.process_memory import ProcessMemory, release_memory
from trackside.worker.child.program.program import ProgramTask, program_failure
from trackside.worker.child.serialise import (
    MAX_MESSAGE_CHARACTERS,
    UnreportableError,
    error_fields,
    exit_failure,
    to_plain_json,
)
from trackside.worker.durable_files import write_atomically
from trackside.worker.messages.assignment import Assignment
from trackside.worker.messages.process_messages import (
    AnswerTaken,
    AttemptEnding,
    AttemptOver,
    CheckpointAnswer,
    ExitCommand,
    FetchAnswer,
    ParametersAnswer,
    TrainCommand,
    TrainingInterrupted,
    encode,
)
from trackside.worker.messages.report_messages import StoredAnswer

OUTPUTS = "TRACKSIDE_OUTPUTS"
"""The variable with the folder for what is saved when the task has finished."""
_ENDS = {"host": AttemptEnd.OOM_HOST, "device": AttemptEnd.OOM_DEVICE, None: AttemptEnd.FAILED}


class ServiceExitedError(Exception):
    """A service has returned without having been stopped; the error of its attempt is `service_exited`."""


class _Failure(Exception):
    def __init__(self, stage: str, cause: BaseException) -> None:
        super().__init__(stage)
        self.stage = stage
        self.cause = cause


def run(
    assignment: Assignment, channel: WorkerChannel, control: ControlChannel, memory: ProcessMemory
) -> bool:
    """Runs the task to its end and writes its ending to the assignment's `ending` file.

    A process that gets EXIT before it has trained writes none. Returns whether the task has finished
    without a failure or an interrupt: then the process may run another one. Raises WorkerGoneError.
    """
    attempt = _Attempt(assignment, channel, control, memory)
    _connect(channel, control, assignment)
    result, error, exit_code = None, None, None
    try:
        result = attempt.result()
    except _Failure as failure:
        end = _ENDS[out_of_memory(failure.cause)]
        error, exit_code = program_failure(failure.cause) or (
            error_fields(_stage_of(failure), failure.cause),
            None,
        )
        if isinstance(failure.cause, ServiceExitedError):
            error["type"] = "service_exited"
        if isinstance(failure.cause, SystemExit):
            error, exit_code = exit_failure(failure.stage, failure.cause)
        if end is AttemptEnd.FAILED and error["stage"] == "TRAIN":
            error["message"] = _with_checkpoint(error["message"], channel)
        sys.stderr.write(error["traceback"])
    else:
        if result is None:
            return False
        end = AttemptEnd.FINISHED
    if assignment.max_tasks is None:  # else when the process ends
        at_exit.run_functions()
    channel.flush()
    control.over()
    leftovers = orphans.end_descendants()
    if end is AttemptEnd.FINISHED:  # nothing of the task runs any more that could change its files
        try:
            channel.save_outputs(assignment.environment.get(OUTPUTS, ""))
        except SaveError as unsaved:
            end, result, error = AttemptEnd.FAILED, None, error_fields("SAVE", unsaved)
    ending = AttemptEnding(
        end=end,
        result=result,
        error=error,
        exit_code=exit_code,
        leftovers=leftovers,
        **attempt.times,
        **memory.peaks(),
        interrupts=attempt.interrupts,
        reports=channel.reports,
        final=channel.final_value,
        requests=channel.requests,
        resumed=channel.resumed_from,
    )
    written = _write_ending(Path(assignment.ending), masking.masked(ending), channel)
    return written and end is AttemptEnd.FINISHED and not attempt.was_interrupted


def _connect(channel: WorkerChannel, control: ControlChannel, assignment: Assignment) -> None:
    """Makes the channel take its answers from the control channel."""
    channel.answer = partial(_answer, control)
    channel.take_instruction = control.instruction
    channel.unresponsive_s = assignment.unresponsive_s
    channel.answer_checkpoint = partial(_take, control, channel, CheckpointAnswer, "checkpoint-request")
    channel.answer_fetch = partial(_take, control, channel, FetchAnswer, "fetch-request")
    channel.summaries.answer = partial(_take, control, channel, StoredAnswer, "stored-request")


def _take(
    control: ControlChannel, channel: WorkerChannel, kind: type[AnswerT], asked: str, request: int
) -> AnswerT | None:
    """Waits for an answer, and notes that it came: another worker need not give it again."""
    answer = control.answer(request, kind)
    channel.note(AnswerTaken(asked, request))
    return answer


def _stage_of(failure: _Failure) -> str:
    """Returns the stage of a failure: a checkpoint that can't be read is one of loading, whenever it is."""
    return "LOAD" if isinstance(failure.cause, CheckpointError) else failure.stage


def _with_checkpoint(message: str, channel: WorkerChannel) -> str:
    """Returns the message of a failed training, which names a checkpoint that may not be one of its model."""
    if channel.resumed_from is None or channel.reports:
        return message
    named = f"the checkpoint of step {channel.resumed_from['step']}"
    if source := channel.resumed_from.get("source"):
        named += f" ({source})"
    hint = (
        f"\nThe training failed before its first report, after it was given {named}. If that is one of "
        "another model, submit the task with `resume: false`."
    )
    return message[: MAX_MESSAGE_CHARACTERS - len(hint)] + hint


def _answer(control: ControlChannel, request: int) -> dict[str, Any] | None:
    """Waits for another trial's parameters; raises ValueError for those that the task type rejects."""
    answer = control.answer(request, ParametersAnswer)
    if answer is not None and answer.problem:
        raise ValueError(answer.problem)
    return None if answer is None else answer.parameters


def _write_ending(path: Path, ending: AttemptEnding, channel: WorkerChannel) -> bool:
    """Writes the ending to its file and reports it; if the disk is full, it is sent over the channel.

    The file survives a crash of the worker. It survives a power cut once the worker has synced it, which it
    does if the log is slow to take the end. Returns whether it could be written.
    """
    try:
        write_atomically(path, encode(ending))
    except OSError as error:
        sys.stderr.write(f"trackside: the ending can't be written: {error}\n")
        channel.send(ending._replace(reports=[]))
        return False
    channel.send(AttemptOver())
    return True


class _Attempt:
    def __init__(
        self,
        assignment: Assignment,
        channel: WorkerChannel,
        control: ControlChannel,
        memory: ProcessMemory,
    ) -> None:
        self._memory = memory
        self.was_interrupted = False
        self._assignment = assignment
        self._channel = channel
        self._control = control
        self._interrupts_left = assignment.interrupts
        self.interrupts = channel.interrupts = assignment.interrupted
        self.times = {"load_time_ms": -1, "train_time_ms": -1}

    def result(self) -> dict[str, Any] | None:
        """Runs the phases; returns the result, None after an EXIT. Raises _Failure."""
        self._channel.status(TaskStatus.AVAILABLE)
        task = _staged("START", self._task)
        if isinstance(self._control.next(), ExitCommand):
            return None
        self._channel.status(TaskStatus.LOADING)
        began = monotonic_s()
        _staged("LOAD", task.load)
        self.times["load_time_ms"] = _ms_since(began)
        self._channel.status(TaskStatus.WAITING)
        while isinstance(message := self._control.next(), TrainCommand):
            trained = self._trained(task, message.device)
            if trained is not None:
                return trained
        return None

    def _task(self) -> Any:
        if not self._assignment.program:
            return _instance(self._assignment.entry, "serve" if self._assignment.service else "train")
        return ProgramTask(self._assignment, self._channel, self._control, self._memory)

    def _trained(self, task: Any, device: str) -> dict[str, Any] | None:
        """Trains once; returns the result, or None if it ran out of memory and may be repeated."""
        self._channel.status(TaskStatus.TRAINING)
        began = monotonic_s()
        try:
            if self._assignment.service:
                _serve(task, device)
            returned = task.train(device)
        except BaseException as error:  # also SystemExit: a task that exits has not finished
            found = out_of_memory(error)
            if found is None or self._interrupts_left == 0:
                raise _Failure("TRAIN", error) from error
            interrupt = TrainingInterrupted(found, error_fields("TRAIN", error), **self._memory.peaks())
            for each in exception_chain(error):  # the frames of the exceptions refer to what the training had
                traceback.clear_frames(each.__traceback__)
                each.__traceback__ = None
        else:
            self.times["train_time_ms"] = _ms_since(began)
            result: dict[str, Any] = _staged("REPORT", lambda: self._result_of(returned))
            return result
        self._interrupted(interrupt)
        return None

    def _result_of(self, returned: Any) -> dict[str, Any]:
        """Returns the result as the end of the attempt has it: one that is too large for that is saved."""
        plain = to_plain_json(returned)
        octets = json.dumps(plain, ensure_ascii=False).encode()
        if len(octets) <= MAX_RESULT_BYTES:
            return plain
        if self._channel.spool is None:
            raise UnreportableError(
                f"the result has {len(octets)} bytes, more than {MAX_RESULT_BYTES}, and the worker "
                "has no store for it: set TRACKSIDE_STORE, or write a file"
            )
        saved = self._channel.save_to_spool(RESULT, octets, RESULT, {}, media_type="application/json")
        return {
            "artifact": f"{saved.name}@{saved.version}",
            "sha256": saved.sha256,
            "size_bytes": saved.size_bytes,
        }

    def _interrupted(self, interrupt: TrainingInterrupted) -> None:
        """Releases the memory of a training that ran out of it, drops its reports, and reports it."""
        self.was_interrupted = True
        self._interrupts_left -= 1
        self.interrupts += 1
        release_memory()
        sys.stderr.write(f"{interrupt.error['traceback']}trackside: out of memory, to be trained again\n")
        self._channel.flush()
        self._channel.reset_trial()
        self._channel.interrupts = self.interrupts
        trial.connect(self._channel)
        self._control.interrupted()
        self._channel.send(interrupt)
        self._channel.status(TaskStatus.WAITING)


def _staged(stage: str, step: Callable[[], Any]) -> Any:
    try:
        return step()
    except BaseException as error:  # also SystemExit
        raise _Failure(stage, error) from error


def _serve(task: Any, device: str) -> NoReturn:
    """Runs a service; raises ServiceExitedError when it returns: it shall run until it is stopped."""
    if isinstance(task, ProgramTask):
        task.train(device)
    else:
        task.serve(device)
    raise ServiceExitedError("the service has ended by itself: it runs until it is stopped")


def _instance(entry: str, main: str) -> Any:
    module, _, name = entry.partition(":")
    kind = getattr(importlib.import_module(module), name)
    base = "Task" if main == "train" else "Service"
    for method in ("load", main):
        if not callable(getattr(kind, method, None)):
            raise TypeError(f"{entry} has no method {method}; make it a subclass of trackside.sdk.{base}")
    return kind()


def _ms_since(began_s: float) -> int:
    return round((monotonic_s() - began_s) * 1000)
