"""The channel from a task to its worker, inside the task process."""

import json
import math
import socket
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

from trackside.contracts.tasks.artifacts import CHECKPOINT
from trackside.eventlog.clock import monotonic_s, now_ms
from trackside.sdk.in_task.channel import (
    FetchedCheckpoint,
    FetchError,
    ReportedSummary,
    StopRequest,
    json_number,
)
from trackside.sdk.in_task.checkpoints import CheckpointError
from trackside.sdk.in_task.forks import follow_forks
from trackside.sdk.in_task.saving import SaveError
from trackside.worker.child.channel.progress import ProgressFile
from trackside.worker.child.channel.spool import Labels, Spool
from trackside.worker.child.channel.summary_spool import SummarySender
from trackside.worker.messages.process_messages import (
    AnswerReceived,
    AnswerTaken,
    ArtifactReleased,
    CheckpointAnswer,
    CheckpointRequest,
    FetchAnswer,
    FetchRequest,
    FromTask,
    InstructionAnswer,
    InstructionMessage,
    ParametersRequest,
    PhaseBegan,
    ServiceAlive,
    ServiceReady,
    TrainingResumed,
    encode,
)
from trackside.worker.messages.report_messages import (
    ArtifactReady,
    FinalValue,
    MetricPoint,
    PointBatch,
    ReportBatch,
    ReportedValue,
    StepReport,
)

REPORT_EVERY_S = 0.05
"""Reports are sent at most this often, in seconds; those in between are sent together."""
MAX_BATCH_POINTS = 200
SIGNS_OF_LIFE = 4
"""How many signs of life a service gives at least in the time after which it counts as hung."""


class WorkerChannel:
    """Sends the values of a trial to its worker, over a socket.

    A thread sends values that wait for more, so that none waits longer than REPORT_EVERY_S. `reports` and
    `final_value` are kept for the ending file. `answer` waits for the answer to a request for parameters;
    `requests` of them were answered so far. `interrupts` is how often training has run out of memory. In a
    process that the task forks there is no such thread: values are sent at once.
    """

    def __init__(
        self,
        connection: socket.socket,
        parameters: Mapping[str, Any],
        spool: Spool | None = None,
        progress: ProgressFile | None = None,
    ) -> None:
        self._connection = connection
        self._progress = progress
        self._parameters = dict(parameters)
        self._lock = threading.Condition()
        self._unsent_reports: list[StepReport] = []
        self._points: list[MetricPoint] = []
        self._sent_at_s = -math.inf
        self._sender: threading.Thread | None = None
        self._closed = False
        self._stop = StopRequest()
        self._asking = threading.Lock()
        self._saving = threading.Lock()
        self.spool = spool
        self.summaries = SummarySender(self.send, spool)
        self.requests = 0
        self.answer: Callable[[int], dict[str, Any] | None] = _no_answer
        self.take_instruction: Callable[[float], InstructionMessage | None] = _no_instruction
        self.unresponsive_s = 0.0
        self._alive_at_s = -math.inf
        self.answer_checkpoint: Callable[[int], CheckpointAnswer | None] = lambda _: None
        self.answer_fetch: Callable[[int], FetchAnswer | None] = lambda _: None
        self._fetch_requests = count(1)
        self.resumed_from: dict[str, Any] | None = None
        self._checkpoint_requests = 0
        self._checkpoint: CheckpointAnswer | None = None
        self.reports: list[StepReport] = []
        self._recorded = 0
        self.interrupts = 0
        self.final_value: ReportedValue | None = None
        self._is_forked = False
        follow_forks(self)

    def parameters(self) -> dict[str, Any]:
        """Returns a copy of the parameters of the trial."""
        found: dict[str, Any] = json.loads(json.dumps(self._parameters))
        return found

    def report(self, step: int, value: float | None, others: Mapping[str, float]) -> None:
        """Sends an intermediate value: at once, or with later ones if the last was sent just now."""
        with self._lock:
            item = StepReport(step, reported_value(value, others), now_ms())
            self.reports.append(item)
            self._unsent_reports.append(item)
            self._send_or_wait()
        if others:
            self.points(step, others)

    def final(self, value: float | None, others: Mapping[str, float]) -> None:
        """Sends the final value, after all reports; only the first one counts."""
        with self._lock:
            if self.final_value is not None:
                return
            self.final_value = reported_value(value, others)
            self._send_waiting()
            self._write(FinalValue(self.final_value))
            step = self.reports[-1].step + 1 if self.reports else 0
        if others:
            self.points(step, others)

    def points(self, step: int, values: Mapping[str, float], time_ms: int | None = None) -> None:
        """Sends metric points, in batches."""
        with self._lock:
            time = now_ms() if time_ms is None else time_ms
            self._points += [
                MetricPoint(tag, step, time, json_number(value)) for tag, value in values.items()
            ]
            if len(self._points) >= MAX_BATCH_POINTS or self._is_forked:
                self._send_waiting()
            else:
                self._wake_sender()

    def summary(self, reported: ReportedSummary, file: Path | None = None) -> None:
        """Sends a value that is no number; its bytes may be in a file. See SummarySender."""
        self.summaries.report(reported, file)

    def status(self, status: int) -> None:
        """Sends the phase that begins, after all earlier values."""
        self.send(PhaseBegan(status))

    def flush(self) -> None:
        """Sends the values that wait."""
        with self._lock:
            self._send_waiting()

    def send(self, message: FromTask) -> None:
        """Sends a message of the process itself, after all earlier values."""
        with self._lock:
            self._send_waiting()
            self._write(message)

    def note(self, message: AnswerTaken) -> None:
        """Writes a message to the progress of the task only."""
        with self._lock:
            if self._progress is not None:
                self._progress.add(message)

    def close(self) -> None:
        """Sends the values that wait and ends the thread; later values are sent by the call after them."""
        with self._lock:
            self._send_waiting()
            self._closed = True
            self._lock.notify()
        if self._sender is not None:
            self._sender.join()
        if self._progress is not None:
            self._progress.close()

    def save(
        self,
        name: str,
        source: Path | bytes,
        kind: str,
        metadata: Mapping[str, Any],
        step: int | None = None,
    ) -> None:
        """Copies an artifact to the spool and tells the worker, see save_to_spool."""
        self.save_to_spool(name, source, kind, metadata, step)

    def save_to_spool(
        self,
        name: str,
        source: Path | bytes,
        kind: str,
        metadata: Mapping[str, Any],
        step: int | None = None,
        media_type: str = "",
    ) -> ArtifactReady:
        """Copies an artifact to the spool and tells the worker, after all earlier values; returns its record.

        Raises SaveError.
        """
        if self.spool is None:
            raise SaveError(
                "store_missing", f"{name} can't be saved: the worker has no store; set TRACKSIDE_STORE for it"
            )
        with self._saving:
            # Before: the record may be all that is left of this process.
            self.flush()
            labels = Labels(kind, dict(metadata), step, self.requests, media_type, self.interrupts)
            reported = len(self.reports)
            if kind == CHECKPOINT:
                since = self.reports[self._recorded : reported]
                labels = replace(labels, reports=since, resumed=self.resumed_from)
            ready = self.spool.add(name, source, labels)
            if kind == CHECKPOINT:
                self._recorded = reported
            self.send(ready._replace(reports=[], resumed=None))
        return ready

    def save_outputs(self, folder: str) -> None:
        """Saves each file and folder in a folder, by its name, if there is a folder. Raises SaveError."""
        if self.spool is not None and folder:
            for ready in self.spool.add_outputs(Path(folder), self.requests):
                self.send(ready)

    def fetch(self, reference: Mapping[str, Any]) -> Path:
        """Makes the worker fetch an artifact; raises FetchError. Several threads may wait for one each."""
        request = next(self._fetch_requests)
        self.send(FetchRequest(request, dict(reference)))
        answer = self.answer_fetch(request)
        if answer is None:
            raise FetchError("store_unreachable", "the task has to exit before the artifact was fetched")
        if answer.code:
            raise FetchError(answer.code, answer.problem)
        return Path(answer.path)

    def release(self, reference: Mapping[str, Any]) -> None:
        """Tells the worker that an artifact is no longer used."""
        self.send(ArtifactReleased(dict(reference)))

    def last_checkpoint(self) -> FetchedCheckpoint | None:
        """Makes the worker fetch the last checkpoint; raises CheckpointError if none can be read."""
        return self.fetch_checkpoint(by_task=True)

    def fetch_checkpoint(self, by_task: bool) -> FetchedCheckpoint | None:
        """Makes the worker fetch the last checkpoint, for the task or for a program to start with."""
        with self._asking:
            self._checkpoint_requests += 1
            self.send(CheckpointRequest(self._checkpoint_requests, by_task))
            answer = self._checkpoint = self.answer_checkpoint(self._checkpoint_requests)
        if answer is None or (answer.checkpoint is None and not answer.code):
            return None
        if answer.checkpoint is None:
            raise CheckpointError(answer.code, f"no checkpoint can be read: {answer.problem}")
        if answer.warning:
            sys.stderr.write(f"trackside: {answer.warning}\n")
        return FetchedCheckpoint(answer.checkpoint["step"], Path(answer.path))

    def resumed(self) -> None:
        """Reports that the training continues from the checkpoint that was fetched last."""
        if self._checkpoint is not None and self._checkpoint.checkpoint is not None:
            self.resumed_from = self._checkpoint.checkpoint
            self.send(TrainingResumed(self.resumed_from))

    def should_stop(self) -> bool:
        """Returns whether SIGTERM came; see StopRequest."""
        return self._stop.seen()

    def ready(self, detail: Mapping[str, Any]) -> None:
        """Sends that the service serves."""
        self.send(ServiceReady(dict(detail)))

    def instruction(self, wait_s: float) -> tuple[int, dict[str, Any]] | None:
        """Returns an instruction that was not returned yet, after `wait_s` at most; a sign of life."""
        due_s = monotonic_s() + wait_s
        while True:
            self._show_life()
            left_s = due_s - monotonic_s()
            within_s = min(left_s, self.unresponsive_s / SIGNS_OF_LIFE) if self.unresponsive_s else left_s
            found = self.take_instruction(max(0.0, within_s))
            if found is not None:
                return found.number, found.body
            if monotonic_s() >= due_s:
                return None

    def acknowledge(self, number: int, ok: bool, detail: Mapping[str, Any]) -> None:
        """Sends the answer to an instruction."""
        self.send(InstructionAnswer(number, ok, dict(detail)))

    def alive(self) -> None:
        """Sends a sign of life, unless one was sent just now."""
        self._show_life()

    def _show_life(self) -> None:
        now_s = monotonic_s()
        if self.unresponsive_s and now_s - self._alive_at_s >= self.unresponsive_s / SIGNS_OF_LIFE / 2:
            self._alive_at_s = now_s
            self.send(ServiceAlive())

    def next_parameters(self) -> dict[str, Any] | None:
        """Requests the parameters of another trial and waits for them; later values belong to that trial."""
        with self._asking:
            request = self.requests + 1
            self.send(ParametersRequest(request))
            try:
                found = self.answer(request)
            except ValueError:
                self._take(request, goes_on=True)
                raise
            if found is not None:
                self._parameters = dict(found)
            self._take(request, goes_on=found is not None)
            return None if found is None else self.parameters()

    def _take(self, request: int, goes_on: bool) -> None:
        with self._lock:
            self._send_waiting()
            self.requests = request
            if goes_on:
                self.reset_trial()
            self._write(AnswerReceived(request, goes_on))

    def reset_trial(self) -> None:
        """Drops the values of a trial, or of a training, that is over."""
        self.reports.clear()
        self._recorded = 0
        self.final_value = self.resumed_from = None

    def _send_or_wait(self) -> None:
        if self._is_forked or monotonic_s() - self._sent_at_s >= REPORT_EVERY_S:
            self._send_waiting()
        else:
            self._wake_sender()

    def _wake_sender(self) -> None:
        if self._sender is None:
            self._sender = threading.Thread(
                target=self._send_until_closed, name="trackside-channel", daemon=True
            )
            self._sender.start()
        self._lock.notify()

    def _send_until_closed(self) -> None:
        with self._lock:
            while not self._closed:
                while not (self._unsent_reports or self._points or self._closed):
                    self._lock.wait()
                # Sleeps without the lock, so that values that come meanwhile are sent too.
                self._lock.wait_for(lambda: self._closed, timeout=REPORT_EVERY_S)
                self._send_waiting()

    def _send_waiting(self) -> None:
        if self._unsent_reports:
            self._write(ReportBatch(self._unsent_reports))
            self._unsent_reports = []
            self._sent_at_s = monotonic_s()
        if self._points:
            self._write(PointBatch(self._points))
            self._points = []

    def begin_in_fork(self) -> None:
        """Forgets what the parent has to send; takes new locks, as another thread may have held those."""
        self._lock = threading.Condition()
        self._asking, self._saving = threading.Lock(), threading.Lock()
        self._unsent_reports, self._points = [], []
        self._is_forked = True
        if self._progress is not None:
            self._progress.begin_in_fork()
        self.summaries.begin_in_fork()

    def _write(self, message: FromTask) -> None:
        if self._progress is not None:
            self._progress.add(message)
        self._connection.sendall(encode(message))


def _no_answer(_request: int) -> None:
    """Answers no request: the task is in no search."""


def _no_instruction(_wait_s: float) -> None:
    """Returns no instruction: the process has no worker."""


def reported_value(value: float | None, others: Mapping[str, float]) -> ReportedValue:
    """Returns a reported value in its JSON form, with the other values of the report if there are any."""
    if value is not None and not others:
        return json_number(value)
    named = {name: json_number(other) for name, other in others.items()}
    return {"value": None if value is None else json_number(value), "others": named}
