"""Says of one placement what happened to it: events that count, points and lines that are looked at."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar

from trackside.contracts.message import Event
from trackside.contracts.summaries import MetricPointsReported, OutputWritten, Series
from trackside.contracts.tasks import (
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
from trackside.contracts.topics import Topic, Topics
from trackside.eventlog.log import Appended
from trackside.eventlog.record_writer import RecordWriter
from trackside.worker.redaction import printable, redact
from trackside.worker.reporting.journal import Placement
from trackside.worker.reporting.outbox import Outbox

GATHER_S = 0.1
GATHER_POINTS = 200
GATHER_LINES = 500
MAX_LINE_CHARACTERS = 8_192
MAX_TAG_CHARACTERS = 256
OBJECTIVE = "objective"

Source = Literal["stdout", "stderr"]
Point = tuple[str, int, int, float | str]
Spoken = float | str | Mapping[str, Any]
"""A number, or `{"value": number or null, "others": {name: number}}`; what isn't finite has a name."""
Said = TypeVar("Said", bound=Event)


@dataclass(frozen=True, slots=True)
class Voice:
    """What every placement of a worker speaks with."""

    outbox: Outbox
    writer: RecordWriter
    topics: Topics


class Reporter:
    """Sends what one placement has to say, in order. `traceparent` is put on each event."""

    def __init__(self, voice: Voice, placement: Placement, traceparent: str = "") -> None:
        self._voice = voice
        self._placement = placement
        self._traceparent = traceparent or placement.traceparent
        self._points: list[Point] = []
        self._lines: dict[Source, list[str]] = {"stdout": [], "stderr": []}
        self._line_numbers: dict[Source, int] = {"stdout": 1, "stderr": 1}
        self._unsaid: dict[Source, int] = {"stdout": 0, "stderr": 0}
        self._timer: asyncio.TimerHandle | None = None
        self._reported = 0
        self._interrupts = 0
        self._requests = 0
        self._behind = 0

    @property
    def _token(self) -> dict[str, Any]:
        return {
            "task_id": self._placement.task_id,
            "attempt": self._placement.attempt,
            "placement": self._placement.placement,
        }

    def again(self, event: Event) -> None:
        """Sends an answer that was given before."""
        self._event(event)

    def accepted(self) -> TaskAccepted:
        """Says that the placement is in the journal."""
        event = TaskAccepted(**self._token, incarnation=self._placement.incarnation)
        return self._event(event, patient=True)

    def refused(self, code: str, message: str) -> TaskRefused:
        """Says that the placement won't run."""
        return self._event(
            TaskRefused(
                **self._token, incarnation=self._placement.incarnation, code=code, message=message[:1_000]
            )
        )

    def returned(self, heard: Callable[[Appended], None] | None = None) -> TaskReturned:
        """Says that the placement is given back, and was not begun."""
        event = TaskReturned(**self._token, incarnation=self._placement.incarnation)
        self._send(event, heard)
        return event

    def interrupted(
        self,
        interrupt: int,
        resource: Literal["host", "device"],
        reserved: Reservation,
        error: Mapping[str, Any],
    ) -> None:
        """Says that a training ran out of memory and what it shall have next; its reports don't count."""
        self.begin_anew(interrupt)
        event = TaskInterrupted.model_validate(
            {
                **self._token,
                "incarnation": self._placement.incarnation,
                "interrupt": interrupt,
                "resource": resource,
                "reserved": reserved,
                "error": error,
            }
        )
        self._event(event)

    def begin_anew(self, interrupts: int) -> None:
        """Counts steps from the first again: the attempt has been interrupted so often."""
        self._reported, self._interrupts = 0, interrupts

    def asks(self, request: int) -> None:
        """Says that the task asks for another trial's parameters."""
        self._event(
            ParametersRequested(**self._token, incarnation=self._placement.incarnation, request=request)
        )

    def taken(self, request: int) -> None:
        """Says that the task has the answer to its request."""
        self._event(ParametersTaken(**self._token, incarnation=self._placement.incarnation, request=request))

    def answered(self, requests: int, goes_on: bool) -> None:
        """Counts what is reported from now on behind so many requests; of another trial, if it goes on.

        Points to look at are the task's: their steps go on.
        """
        self._requests = requests
        if goes_on:
            self._behind, self._reported = self._behind + self._reported, 0

    def status(self, status: TaskStatus) -> None:
        """Says which phase begins."""
        event = TaskStatusChanged(
            **self._token,
            incarnation=self._placement.incarnation,
            status=status,
            interrupts=self._interrupts,
        )
        self._event(event, patient=True)

    def reports(self, items: Sequence[tuple[int, Spoken, int]]) -> None:
        """Sends deciding values as events, and as points to look at too."""
        for step, value, time_ms in items:
            self._reported = step + 1
            deciding, others = apart(value)
            self._metric("PERIODICAL", step, deciding, others)
            if deciding is not None:
                self.points([(OBJECTIVE, self._behind + step, time_ms, deciding)])

    def final(self, value: Spoken) -> None:
        """Sends the value that the trial is judged by."""
        self._metric("FINAL", self._reported, *apart(value))

    def ended(
        self, ending: Mapping[str, Any], heard: Callable[[Appended], None] | None = None
    ) -> tuple[AttemptEnded, int]:
        """Says how the attempt ended; gives the event and the partition it goes to."""
        self.flush()
        event = AttemptEnded.model_validate(
            {**self._token, "incarnation": self._placement.incarnation, **ending}
        )
        return event, self._send(event, heard)

    def points(self, items: Sequence[Point]) -> None:
        """Sends values to look at, gathered for 0.1 s or until they are 200."""
        self._points += items
        if len(self._points) >= GATHER_POINTS:
            self.flush()
        else:
            self._flush_soon()

    def output(self, source: Source, lines: Sequence[str]) -> None:
        """Sends lines of output, gathered for 0.1 s; of more than 500 only the first, and how many not.

        What looks like a secret is left out.
        """
        kept = self._lines[source]
        room = max(0, GATHER_LINES - len(kept))
        kept += [redact(printable(line[:MAX_LINE_CHARACTERS])) for line in lines[:room]]
        self._unsaid[source] += max(0, len(lines) - room)
        self._flush_soon()

    def flush(self) -> None:
        """Sends the points and lines that were gathered."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._points:
            self._summary(self._voice.topics.metrics, self._batch_of_points())
        for source, lines in self._lines.items():
            if lines:
                self._summary(self._voice.topics.logs, self._batch_of_lines(source, lines))

    def _flush_soon(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(GATHER_S, self.flush)

    def _batch_of_points(self) -> MetricPointsReported:
        by_tag: dict[str, list[Point]] = {}
        for point in self._points:
            by_tag.setdefault(printable(point[0])[:MAX_TAG_CHARACTERS], []).append(point)
        self._points = []
        series = [
            Series(
                tag=tag,
                steps=[step for _, step, _, _ in points],
                times_ms=[time_ms for _, _, time_ms, _ in points],
                values=[None if isinstance(value, str) else value for _, _, _, value in points],
            )
            for tag, points in by_tag.items()
        ]
        placement = self._placement
        return MetricPointsReported(
            stream=placement.stream, task_id=placement.task_id, attempt=placement.attempt, series=series
        )

    def _batch_of_lines(self, source: Source, lines: list[str]) -> OutputWritten:
        first, self._lines[source] = self._line_numbers[source], []
        self._line_numbers[source] += len(lines) + self._unsaid[source]
        if self._unsaid[source]:
            lines = [*lines, f"[{self._unsaid[source]} more lines came too fast and were left out]"]
            self._unsaid[source] = 0
        return OutputWritten(
            stream=self._placement.stream,
            task_id=self._placement.task_id,
            attempt=self._placement.attempt,
            source=source,
            first_line=first,
            lines=lines,
        )

    def _metric(
        self,
        kind: Literal["PERIODICAL", "FINAL"],
        step: int,
        value: float | str | None,
        others: Mapping[str, float | str],
    ) -> None:
        finite = None if isinstance(value, str) else value
        non_finite = value if isinstance(value, str) else None
        said = {**self._token, "kind": kind, "step": step, "value": finite, "non_finite": non_finite}
        said |= {"interrupts": self._interrupts, "requests": self._requests}
        if others:
            said["others"] = {printable(name)[:MAX_TAG_CHARACTERS]: each for name, each in others.items()}
        self._event(MetricReported.model_validate(said), patient=kind == "FINAL")

    def _event(self, event: Said, patient: bool = False) -> Said:
        self._send(event, None, patient)
        return event

    def _send(self, event: Event, heard: Callable[[Appended], None] | None, patient: bool = False) -> int:
        record = self._voice.writer.single(self._placement.stream, event, traceparent=self._traceparent)
        return self._voice.outbox.event(self._voice.topics.events, record, heard, patient)

    def _summary(self, topic: Topic, event: Event) -> None:
        record = self._voice.writer.single(self._placement.stream, event, traceparent=self._traceparent)
        self._voice.outbox.summary(topic, replace(record, key=self._placement.task_id.encode()))


def apart(spoken: Spoken) -> tuple[float | str | None, Mapping[str, float | str]]:
    """Takes what a trial said apart: the value that decides, if it has one, and the others by name."""
    if isinstance(spoken, Mapping):
        return spoken.get("value"), spoken.get("others") or {}
    return spoken, {}
