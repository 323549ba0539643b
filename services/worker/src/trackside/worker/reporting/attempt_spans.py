"""The spans of one placement: that of the attempt, and of its start, load, training and report below it.

They are exported together, once the log has the end of the attempt: a worker that is killed leaves none
without a parent, and what is said of the end is what it wrote.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from trackside.contracts.envelope.parts import Part
from trackside.contracts.tasks.tasks import AttemptEnd, AttemptEnded, TaskStatus
from trackside.eventlog.log import Appended
from trackside.eventlog.reactor.decision_spans import NS_PER_MS
from trackside.eventlog.reactor.task_spans import (
    end_attributes,
    failure_of,
    part_attributes,
    placement_attributes,
)
from trackside.telemetry import context, messaging
from trackside.telemetry.context import Failure, Span
from trackside.worker.reporting.journal import JournalEntry

WhenAppended = Callable[[Appended], None]
START: Final = "start process"
_PHASES: Final = {TaskStatus.LOADING: "load", TaskStatus.TRAINING: "train"}
_STAGES: Final = {"START": START, "LOAD": "load", "TRAIN": "train", "REPORT": "report", "SAVE": "report"}
"""The span that an error of each stage belongs to."""


@dataclass(slots=True)
class _Phase:
    name: str
    start_ns: int
    end_ns: int = 0
    failure: Failure | None = None


class AttemptSpans:
    """Notes when the phases of a placement begin, for the spans that it exports at its end.

    `began_ns` is when a placement of an earlier incarnation was accepted: when its phases began isn't known.
    """

    def __init__(
        self,
        entry: JournalEntry,
        worker_id: str,
        part: Part | None = None,
        task_type: str = "",
        topic: str = "",
        began_ns: int = 0,
    ) -> None:
        self.traceparent = context.child_of(entry.traceparent)
        self._entry = entry
        self._worker_id = worker_id
        self._identity = part, task_type
        self._topic = topic
        self._is_of_earlier = bool(began_ns)
        self._began_ns = began_ns or context.now_ns()
        self._phases = [] if self._is_of_earlier else [_Phase(START, self._began_ns)]
        self._report_ns = 0

    def begin(self, status: TaskStatus) -> None:
        """Notes that a phase begins; one may begin again after it was interrupted."""
        name = _PHASES.get(status)
        if name and not self._is_of_earlier:
            self._phases.append(_Phase(name, context.now_ns()))

    def interrupt(self, resource: str, error: Mapping[str, Any]) -> None:
        """Notes that the training ran out of memory, and waits until it may be repeated."""
        if self._is_of_earlier:
            return
        self._phases[-1].failure = Failure(f"oom_{resource}", str(error.get("message", "")))
        self._phases.append(_Phase("wait for memory", context.now_ns()))

    def ends_with(self, event: AttemptEnded, then: WhenAppended | None) -> WhenAppended | None:
        """Notes that the end is on its way; returns what exports the spans and calls `then` once it is there.

        That is `then` alone if the trace isn't exported.
        """
        if not context.is_recording(self.traceparent):
            return then
        self._report_ns = context.now_ns()

        def appended(place: Appended) -> None:
            self._export(event)
            if then is not None:
                then(place)

        return appended

    def _export(self, event: AttemptEnded) -> None:
        entry, (part, task_type), end_ns = self._entry, self._identity, context.now_ns()
        attributes = {
            **part_attributes(entry.stream, part),
            "trackside.task": entry.task_id,
            "trackside.task_type": task_type,
            **placement_attributes(entry.attempt, entry.placement, self._worker_id, entry.device_ids),
        }
        failure = failure_of(event.end, event.error)
        stage = "" if event.error is None else _STAGES[event.error.stage]
        for phase in self._measured(event, end_ns):
            context.record(
                Span(
                    name=phase.name,
                    traceparent=context.child_of(self.traceparent),
                    parent=self.traceparent,
                    start_ns=phase.start_ns,
                    end_ns=phase.end_ns,
                    attributes=attributes,
                    failure=phase.failure or (failure if phase.name == stage else None),
                )
            )
        received = messaging.processed(self._topic, 0) if self._topic else {}
        ended = end_attributes(entry.task_id, task_type, entry.attempt, self._worker_id, event.end)
        # The scheduler may have exported the `run task` of a lost attempt: no attempt has two.
        is_left = self._is_of_earlier and (not self._topic or event.end is AttemptEnd.LOST)
        context.record(
            Span(
                name="recover task" if is_left else "run task",
                traceparent=self.traceparent,
                parent=entry.traceparent or None,
                start_ns=self._began_ns,
                end_ns=end_ns,
                kind="consumer" if self._topic else "internal",
                attributes={**received, **attributes, **ended, "trackside.recovered": event.recovered},
                failure=failure,
            )
        )

    def _measured(self, event: AttemptEnded, end_ns: int) -> list[_Phase]:
        """Returns the phases with their ends: as the process measured them, if it did and ran them once."""
        measured = {"load": event.load_time_ms, "train": event.train_time_ms}
        names = [phase.name for phase in self._phases]
        report = _Phase("report", self._report_ns or end_ns, end_ns)
        for phase, follower in pairwise([*self._phases, report]):
            phase.end_ns = follower.start_ns
            took_ms = measured.get(phase.name, -1)
            if took_ms >= 0 and names.count(phase.name) == 1:
                phase.end_ns = min(phase.end_ns, phase.start_ns + took_ms * NS_PER_MS)
        if self._phases:
            report.start_ns = self._phases[-1].end_ns
        return [*self._phases, report]
