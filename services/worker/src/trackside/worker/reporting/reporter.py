"""Reports what happens to one placement: events, and metric points and output lines to look at."""

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from typing import Any, Literal, TypeVar

from trackside.contracts.envelope.message import Event
from trackside.contracts.envelope.redaction import redact
from trackside.contracts.envelope.topics import Topics
from trackside.contracts.tasks.artifacts import (
    ArtifactSaved,
    CheckpointReference,
    TaskResumed,
    artifact_source,
)
from trackside.contracts.tasks.instructions import InstructionAcknowledged, TaskReady
from trackside.contracts.tasks.summaries import ItemArtifact
from trackside.contracts.tasks.tasks import (
    AttemptAdopted,
    AttemptEnded,
    MetricReported,
    ParametersRequested,
    ParametersTaken,
    Reservation,
    TaskAccepted,
    TaskInterrupted,
    TaskRefused,
    TaskReturned,
    TaskStatus,
    TaskStatusChanged,
)
from trackside.contracts.wire.secret_search import without_secrets
from trackside.eventlog.keys.record_writer import RecordWriter
from trackside.eventlog.log import Appended, Outgoing
from trackside.telemetry.metrics import counter, exemplar, histogram
from trackside.worker.messages.report_messages import (
    ArtifactReady,
    MetricPoint,
    ReportedValue,
    StepReport,
    SummaryValueReport,
)
from trackside.worker.output_text import tag_text
from trackside.worker.reporting.attempt_spans import AttemptSpans
from trackside.worker.reporting.journal import JournalEntry
from trackside.worker.reporting.metric_points import points_reported, split_value
from trackside.worker.reporting.outbox import WorkerOutbox
from trackside.worker.reporting.output_lines import OutputLines, OutputSource
from trackside.worker.reporting.progress_in_log import ProgressInLog
from trackside.worker.reporting.summary_flow import SummaryFlow
from trackside.worker.reporting.summary_items import ItemBatch
from trackside.worker.reporting.tag_limit import TaskTags

FLUSH_S = 0.1
"""How far apart batches of points and lines are at least, unless one is full."""
FIRST_FLUSH_S = 0.005
"""How long a batch waits for more if the one before it is long ago: what is rare is seen at once."""
MAX_BATCH_POINTS = 200
OBJECTIVE = "objective"

EventT = TypeVar("EventT", bound=Event)


class EventNumbers:
    """Numbers the events of one incarnation, from 1, in the order in which they happened in the worker.

    An event's place in the log does not show that: partitions are written independently of each other. Each
    number that is drawn belongs to one record of the log, so a reader sees whether it has all events so far.
    """

    def __init__(self) -> None:
        self._numbers = count(1)

    def draw(self) -> int:
        """Returns the number of an event that happens now."""
        return next(self._numbers)


@dataclass(frozen=True, slots=True)
class Publisher:
    """What all reporters of a worker publish with.

    `numbers` are those of its incarnation; None while it reports what an earlier one left: it isn't known
    when that was.
    """

    outbox: WorkerOutbox
    writer: RecordWriter
    topics: Topics
    numbers: EventNumbers | None = None

    def draw_number(self) -> int:
        """Returns the number of an event that happens now, 0 if it isn't one of this incarnation."""
        return 0 if self.numbers is None else self.numbers.draw()


class Reporter:
    """Publishes the events of one placement, in order, and notes its phases for `spans`.

    `cause` is that of the command of the placement, until a later command changes what is reported.
    """

    def __init__(self, publisher: Publisher, entry: JournalEntry, spans: AttemptSpans | None = None) -> None:
        self._publisher = publisher
        self._entry = entry
        self._spans = spans
        self._traceparent = entry.traceparent if spans is None else spans.traceparent
        self.cause = entry.cause
        self.progress = ProgressInLog()
        self._points: list[MetricPoint] = []
        self._lines = OutputLines(entry)
        self._items = ItemBatch(entry)
        self._tags = TaskTags()
        self.flow = SummaryFlow(lambda: publisher.outbox.is_stalled)
        self._timer: asyncio.TimerHandle | None = None
        self._flushed_s = -math.inf
        self._reported = self._interrupts = 0
        self._requests = self._first_step = 0
        self._end_number = self._values = 0
        self._counted_to = (0, 0, -1, False)

    @property
    def _token(self) -> dict[str, Any]:
        of = self._entry
        return {"task_id": of.task_id, "attempt": of.attempt, "placement": of.placement}

    def resend(self, event: Event) -> None:
        """Sends again the event that answered an earlier copy of the same command."""
        self._event(event)

    def accepted(self) -> TaskAccepted:
        """Reports that the placement is in the journal."""
        event = TaskAccepted(**self._token, incarnation=self._entry.owner)
        return self._event(event, linger=True)

    def adopted(self, on_appended: Callable[[Appended], None]) -> tuple[AttemptAdopted, int]:
        """Reports that this incarnation has the placement now; returns the event and its partition."""
        entry = self._entry
        who = {"worker_id": self._publisher.writer.instance, "incarnation": entry.owner}
        event = AttemptAdopted(**self._token, **who, earlier=[entry.incarnation, *entry.adopters[:-1]])
        return event, self._send(event, on_appended)

    def refused(self, code: str, message: str) -> TaskRefused:
        """Reports that the placement won't run."""
        return self._event(
            TaskRefused(
                **self._token, incarnation=self._entry.owner, code=code, message=redact(message)[:1_000]
            )
        )

    def returned(self, on_appended: Callable[[Appended], None] | None = None) -> TaskReturned:
        """Reports that the placement is given back without having begun."""
        event = TaskReturned(**self._token, incarnation=self._entry.owner)
        self._send(event, on_appended)
        return event

    def interrupted(
        self,
        interrupt: int,
        resource: Literal["host", "device"],
        reserved: Reservation,
        error: Mapping[str, Any],
    ) -> None:
        """Reports a training that ran out of memory and its next reservation; its metrics don't count."""
        if self._spans is not None:
            self._spans.interrupt(resource, error)
        self.restart_steps(interrupt)
        event = TaskInterrupted.model_validate(
            {
                **self._token,
                "incarnation": self._entry.owner,
                "interrupt": interrupt,
                "resource": resource,
                "reserved": reserved,
                "error": error,
            }
        )
        self._event(event)

    def restart_steps(self, interrupts: int) -> None:
        """Counts steps from 0 again; `interrupts` is how often the attempt has been interrupted."""
        self._reported, self._interrupts = 0, interrupts

    def parameters_requested(self, request: int) -> None:
        """Reports that the task asks for the parameters of another trial."""
        self._event(ParametersRequested(**self._token, incarnation=self._entry.owner, request=request))

    def parameters_taken(self, request: int) -> None:
        """Reports that the task has received the answer to its request."""
        self._event(ParametersTaken(**self._token, incarnation=self._entry.owner, request=request))

    def follow_parameters(self, request: int, cause: str) -> None:
        """Names the cause of the parameters that answer a request; those of an earlier one change nothing."""
        if request > self._requests:
            self.cause = cause or self.cause

    def count_requests(self, requests: int, goes_on: bool) -> None:
        """Marks later metrics with the number of answered requests; `goes_on` starts another trial at step 0.

        The steps of metric points continue: these belong to the task, not to a trial.
        """
        self._requests = requests
        if goes_on:
            self._first_step, self._reported = self._first_step + self._reported, 0

    def resumed(self, checkpoint: CheckpointReference) -> None:
        """Reports that the training continues from a checkpoint, whose step the next report has."""
        self._reported = checkpoint.step
        event = TaskResumed(
            **self._token,
            incarnation=self._entry.owner,
            step=checkpoint.step,
            checkpoint=checkpoint,
            interrupts=self._interrupts,
            requests=self._requests,
        )
        self._event(event)

    def artifact_saved(self, ready: ArtifactReady, uri: str, on_appended: Callable[[Appended], None]) -> str:
        """Reports that the store has an artifact; `uri` is where it is. Returns its name as a source."""
        event = ArtifactSaved(
            **self._token,
            incarnation=self._entry.owner,
            uri=uri,
            **ready._asdict(),
        )
        self._send(event, on_appended)
        return artifact_source(self._entry.stream, self._entry.task_id, ready.name, ready.version)

    def ready(self, number: int, detail: Mapping[str, Any]) -> None:
        """Reports that a service serves, or that what it says of that has changed."""
        fields = {"incarnation": self._entry.owner, "number": number, "detail": without_secrets(detail)}
        self._event(TaskReady(**self._token, **fields))

    def acknowledged(self, number: int, ok: bool, detail: Mapping[str, Any], cause: str) -> None:
        """Reports what a task says of an instruction; `cause` is that of the command that gave it."""
        fields = {"incarnation": self._entry.owner, "number": number, "ok": ok}
        before, self.cause = self.cause, cause or self.cause
        self._event(InstructionAcknowledged(**self._token, **fields, detail=without_secrets(detail)))
        self.cause = before

    def status(self, status: TaskStatus) -> None:
        """Reports which phase begins."""
        if self._spans is not None:
            self._spans.begin(status)
        event = TaskStatusChanged(
            **self._token,
            incarnation=self._entry.owner,
            status=status,
            interrupts=self._interrupts,
        )
        self._event(event, linger=True)

    def reports(self, items: Sequence[StepReport]) -> None:
        """Sends intermediate values as events, and also as metric points."""
        for step, value, time_ms in items:
            self._reported = step + 1
            deciding, others = split_value(value)
            self._metric("PERIODICAL", step, deciding, others)
            if deciding is not None:
                self.points([MetricPoint(OBJECTIVE, self._first_step + step, time_ms, deciding)])

    def final(self, value: ReportedValue) -> None:
        """Sends the final value of the trial."""
        self._metric("FINAL", self._reported, *split_value(value))

    def resources_freed(self) -> None:
        """Draws the number of the end: what the placement had goes to others before its end is reported."""
        if not self._end_number:
            self._end_number = self._publisher.draw_number()

    def ended(
        self,
        ending: Mapping[str, Any],
        on_appended: Callable[[Appended], None] | None = None,
        linger: bool = False,
    ) -> tuple[AttemptEnded, int]:
        """Reports how the attempt ended; returns the event and its partition.

        With `linger` it may wait 20 ms for other events.
        """
        if self.flow.left_out:
            left_out = f"{self.flow.left_out} metric points and summaries were left out"
            self.output("stderr", [f"trackside: {left_out} while the log did not answer"])
        self.flush()
        if told := self._tags.sentence():
            self.output("stderr", [told])
            self.flush()
        self.resources_freed()
        fields = {**self._token, "incarnation": self._entry.owner, "memory_measure": "own"}
        fields["reports"] = self._values if self._publisher.numbers else None
        event = AttemptEnded.model_validate({**fields, **ending})
        if self._spans is not None:
            on_appended = self._spans.ends_with(event, on_appended)
        appended = partial(count_end, event, self._traceparent, on_appended)
        return event, self._send(event, appended, linger, self._end_number)

    def points(self, items: Sequence[MetricPoint]) -> None:
        """Sends metric points, in batches of 200 or at most every 0.1 s."""
        if self.progress.muted:
            return
        self._points += self._tags.taken(items)
        if len(self._points) >= MAX_BATCH_POINTS:
            self.flush()
        else:
            self._flush_soon()

    def summary(self, report: SummaryValueReport, artifact: ItemArtifact | None) -> None:
        """Sends a value that is no number, with where its bytes are if it has any; together with others."""
        if self._tags.takes(tag_text(report.tag)):
            self._items.add(report, artifact)
        if self._items.is_full:
            self.flush()
        else:
            self._flush_soon()

    def output(self, source: OutputSource, lines: Sequence[str]) -> None:
        """Sends lines of output at most every 0.1 s: the first 400, the last 100, and their number between.

        What looks like a secret is redacted.
        """
        self._lines.add(source, lines)
        self._flush_soon()

    def flush(self) -> None:
        """Sends the metric points and lines that were collected."""
        self._flushed_s = asyncio.get_running_loop().time()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._points:
            points, self._points = self._points, []
            self._metrics(points_reported(self._entry, points), len(points))
        if count := len(self._items):
            self._metrics(self._items.take(), count)
        for batch in self._lines.take():
            self._publisher.outbox.summary(self._publisher.topics.logs, self._summary_record(batch))

    def _flush_soon(self) -> None:
        if self._timer is None:
            loop = asyncio.get_running_loop()
            pause_s = max(FIRST_FLUSH_S, self._flushed_s + FLUSH_S - loop.time())
            self._timer = loop.call_later(pause_s, self.flush)

    def _metric(
        self,
        kind: Literal["PERIODICAL", "FINAL"],
        step: int,
        value: float | str | None,
        others: Mapping[str, float | str],
    ) -> None:
        # What an earlier incarnation may have sent is sent again, and counts once.
        place = (self._interrupts, self._requests, step, kind == "FINAL")
        self._values += place > self._counted_to
        self._counted_to = max(place, self._counted_to)
        finite, code = (None, value) if isinstance(value, str) else (value, None)
        fields = {**self._token, "kind": kind, "step": step, "value": finite, "non_finite": code}
        named = {tag_text(name): each for name, each in others.items()}
        fields |= {"interrupts": self._interrupts, "requests": self._requests, "others": named}
        # Without a number: it names no incarnation, and no order between streams depends on it.
        self._send(MetricReported.model_validate(fields), None, linger=kind == "FINAL", number=0)

    def _event(self, event: EventT, linger: bool = False) -> EventT:
        self._send(event, None, linger)
        return event

    def _send(
        self,
        event: Event,
        on_appended: Callable[[Appended], None] | None,
        linger: bool = False,
        number: int | None = None,
    ) -> int:
        """Sends an event with its number, one that is drawn now if None is given; returns its partition."""
        if self.progress.muted:
            return -1
        numbered = self._publisher.draw_number() if number is None else number
        topic = self._publisher.topics.events
        record = self._publisher.writer.signed(topic, self._record(event, numbered))
        then = self.progress.when_appended(on_appended)
        return self._publisher.outbox.event(topic, record, then, linger)

    def _metrics(self, event: Event, values: int) -> None:
        """Sends a batch of so many values."""
        self._publisher.outbox.summary(
            self._publisher.topics.metrics,
            self._summary_record(event),
            self.flow.sent(),
            partial(self.flow.dropped, values),
        )

    def _summary_record(self, event: Event) -> Outgoing:
        return replace(self._record(event), key=self._entry.task_id.encode())

    def _record(self, event: Event, number: int = 0) -> Outgoing:
        writer, entry = self._publisher.writer, self._entry
        record = writer.single(
            entry.stream, event, cause=self.cause, traceparent=self._traceparent, sequence=number
        )
        return writer.encrypted(record, entry.public_key)


def count_end(
    event: AttemptEnded, traceparent: str, then: Callable[[Appended], None] | None, appended: Appended
) -> None:
    """Counts an end that the log has; it is not counted when it is sent again."""
    counter("trackside.worker.ended.tasks").labels(event.end.value).inc()
    trace = exemplar(traceparent)
    if event.load_time_ms >= 0:
        histogram("trackside.worker.load.seconds").observe(event.load_time_ms / 1000, trace)
    if event.train_time_ms >= 0:
        histogram("trackside.worker.train.seconds").observe(event.train_time_ms / 1000, trace)
    if then is not None:
        then(appended)
