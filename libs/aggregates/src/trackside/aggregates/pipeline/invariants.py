"""INV-12 of pipelines: versions differ and are consecutive, as are runs and the fires of each schedule.

And INV-10: runs begin in their order, at most `max_runs` are open, none of a pipeline that is retired; no
schedule is fired before its time.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from trackside.aggregates.pipeline.messages import (
    DefinePipeline,
    PipelineDefined,
    PipelineRetired,
    RetirePipeline,
    RunCancelled,
    RunNumbered,
    RunPipeline,
    run_id,
)
from trackside.aggregates.pipeline.schedule.schedule_messages import (
    ScheduleArmed,
    ScheduleCreated,
    ScheduleDeleted,
    ScheduleFired,
    SchedulePaused,
    ScheduleResumed,
    ScheduleSpec,
    ScheduleUpdated,
)
from trackside.contracts.envelope.message import Message, Record
from trackside.domain.checks.findings import Findings
from trackside.domain.checks.invariants import AggregateInvariants, CheckedTask
from trackside.domain.pipelines.compiling import digest


class PipelineInvariants(AggregateInvariants):
    """Keeps the digests of the versions, which runs wait and are open, and how often schedules were fired."""

    def __init__(self, record: Record, tasks: Mapping[str, CheckedTask], findings: Findings) -> None:
        """Begins with the record of the first PipelineDefined."""
        super().__init__(record, tasks, findings)
        self.digests: list[str] = []
        self.retired = False
        self.max_runs = 0
        self.numbered = 0
        self.waiting: list[str] = []
        self.schedule_of: dict[str, str] = {}
        self.alone: set[str] = set()
        self.fires: dict[str, int] = {}
        self.open: set[str] = set()
        self.specs: dict[str, ScheduleSpec] = {}
        self.unarmed: set[str] = set()
        self.promised: set[str] = set()
        self.take(record.message, record)

    def take(self, event: Message, record: Record) -> None:
        """Checks an event of the pipeline."""
        self._note_schedule(event)
        match event:
            case PipelineDefined():
                self._defined(event, record)
            case PipelineRetired():
                if self.retired:
                    self.findings.illegal(record, "the pipeline is retired already")
                self.retired = True
                self.waiting.clear()
                self.fires.clear()
            case RunNumbered():
                self._numbered(event, record)
            case RunCancelled():
                self._cancelled(run_id(self.stream_id, event.number), record)
            case ScheduleCreated():
                if event.name in self.fires:
                    self.findings.illegal(record, f"there is a schedule {event.name}")
                self.fires[event.name] = 0
            case ScheduleFired():
                self._fired(event, record)
            case ScheduleUpdated() | SchedulePaused() | ScheduleResumed() | ScheduleDeleted():
                if event.name not in self.fires:
                    self.findings.illegal(record, f"there is no schedule {event.name}")
                if isinstance(event, ScheduleDeleted):
                    self.fires.pop(event.name, None)

    def ignored(self, event: Message) -> str:
        """Returns that an event without effect is of a schedule that there never was, or comes later."""
        name, fire = getattr(event, "name", ""), getattr(event, "fire", 0)
        if fire > self.fires.get(name, fire) + 1:
            return f"schedule {name} was fired {self.fires[name]} times"
        unarmed = name not in self.specs or name in self.unarmed
        return f"schedule {name} has no time" if isinstance(event, ScheduleArmed) and unarmed else ""

    def accepted_alone(self, command: Any) -> str:
        """Returns that a run was asked for, or that the pipeline is not retired."""
        if isinstance(command, RunPipeline):
            return "there is no such run"
        return (
            "the pipeline is not retired" if isinstance(command, RetirePipeline) and not self.retired else ""
        )

    def facts_of(self, event: Message) -> Iterable[tuple[str, object]]:
        """Returns what a schedule waits for in the tasks of another stream."""
        if isinstance(event, ScheduleCreated | ScheduleUpdated) and (on := event.schedule.on) is not None:
            yield f"the watch of {on.stream}", on.watch

    def repeated_by(self, event: Message) -> Iterable[tuple[str, str, object]]:
        """Returns that the stream has noted what a schedule was fired by."""
        on = self.specs[event.name].on if isinstance(event, ScheduleFired) and event.cause else None
        if on is not None and on.watch is not None:
            yield on.stream, f"the watch {on.watch.key}", True

    def unfinished(self) -> str:
        """Returns that a schedule has no time."""
        if self.promised:
            return f"run {min(self.promised)} was asked for by a schedule, and has no number"
        waiting = sorted(self.unarmed & self.fires.keys())
        return f"schedule {waiting[0]} has no next time" if waiting else ""

    def _note_schedule(self, event: Message) -> None:
        match event:
            case ScheduleCreated() | ScheduleUpdated():
                self.specs[event.name] = event.schedule
                if event.schedule.cron is not None:
                    self.unarmed.add(event.name)
            case SchedulePaused() | ScheduleDeleted() | ScheduleArmed():
                self.unarmed.discard(event.name)
            case ScheduleResumed():
                spec = self.specs.get(event.name)
                if spec is not None and spec.cron is not None:
                    self.unarmed.add(event.name)

    def child_requested(self, child_id: str, record: Record) -> None:
        """Checks that it is the run whose turn it is, and that there is room for it."""
        busy = {self.schedule_of.get(run) for run in self.open}
        ready = (
            run for run in self.waiting if run not in self.alone or self.schedule_of.get(run) not in busy
        )
        if next(ready, None) != child_id:
            self.findings.illegal(record, f"it is not the turn of run {child_id}")
        if len(self.open) >= self.max_runs:
            self.findings.illegal(record, f"{len(self.open)} runs are open, {self.max_runs} may be")
        self.waiting = [waiting for waiting in self.waiting if waiting != child_id]
        self.open.add(child_id)

    def child_ended(self, child_id: str, status: str) -> None:
        """Takes in that a run has ended."""
        self.open.discard(child_id)
        self.schedule_of.pop(child_id, None)
        self.alone.discard(child_id)

    def _defined(self, event: PipelineDefined, record: Record) -> None:
        self.findings.checked["INV-12"] += 1
        known = event.sha256 in self.digests
        expected = self.digests.index(event.sha256) + 1 if known else len(self.digests) + 1
        if event.version != expected:
            message = f"this content is version {event.version}, expected {expected}"
            self.findings.add("INV-12", record, message)
        self.findings.compare(record, "the digest", event.sha256, digest(event.pipeline))
        command = self.command
        if isinstance(command, DefinePipeline) and command.max_runs is None and self.max_runs:
            self.findings.compare(record, "the limit of runs", event.max_runs, self.max_runs)
        if not known:
            self.digests.append(event.sha256)
        self.retired, self.max_runs = False, event.max_runs

    def _numbered(self, event: RunNumbered, record: Record) -> None:
        self.findings.checked["INV-12"] += 1
        self.numbered += 1
        if (event.number, event.run) != (self.numbered, run_id(self.stream_id, self.numbered)):
            message = f"run {event.number} is {event.run}, the next one is {self.numbered}"
            self.findings.add("INV-12", record, message)
        if not 1 <= event.version <= len(self.digests):
            self.findings.illegal(record, f"there is no version {event.version}")
        if self.retired:
            self.findings.illegal(record, "the pipeline is retired")
        self._check_schedule(event, record)
        self.promised.discard(event.run)
        self.waiting.append(event.run)
        if event.schedule:
            self.schedule_of[event.run] = event.schedule
        if event.alone:
            self.alone.add(event.run)

    def _check_schedule(self, event: RunNumbered, record: Record) -> None:
        """Checks that a run has what its schedule says, and one of no schedule nothing of such."""
        spec = self.specs.get(event.schedule)
        alone = spec is not None and spec.overlap == "queue"
        self.findings.compare(record, "alone", event.alone, alone)
        if spec is None:
            self.findings.compare(record, "a schedule", event.schedule, "")
            self.findings.compare(record, "the schedules", event.schedules, [])
            return
        own = f"{self.stream_id}/{event.schedule}"
        self.findings.compare(record, "its own schedule", own in event.schedules, True)
        for name in ("overrides", "seed", "use_cache"):
            self.findings.compare(record, name, getattr(event, name), getattr(spec, name))
        if "${" not in str(spec.parameters) and "$ref" not in str(spec.parameters):
            self.findings.compare(record, "the parameters", event.parameters, spec.parameters)

    def _fired(self, event: ScheduleFired, record: Record) -> None:
        self.findings.checked["INV-12"] += 1
        expected = self.fires.get(event.name, 0) + 1
        if event.fire != expected:
            self.findings.add("INV-12", record, f"{event.name} is fired, number {event.fire}, not {expected}")
        if event.name not in self.fires:
            self.findings.illegal(record, f"there is no schedule {event.name}")
        if event.due_ms is not None and record.append_time_ms < event.due_ms:
            self.findings.illegal(record, f"{event.name} is fired before its time, {event.due_ms}")
        self.fires[event.name] = event.fire
        spec = self.specs.get(event.name)
        if spec is not None and spec.cron is not None and event.due_ms is not None:
            self.unarmed.add(event.name)
        if event.run:
            self.promised.add(event.run)
        self.findings.compare(record, "a run", bool(event.run), not event.skipped)
        if not event.skipped:
            self.findings.compare(record, "a message", event.message, "")
        if spec is not None and spec.on is None:
            self.findings.compare(record, "a key", event.key + event.cause, "")

    def _cancelled(self, run: str, record: Record) -> None:
        if run not in self.waiting:
            self.findings.illegal(record, f"run {run} does not wait")
            return
        self.waiting.remove(run)
