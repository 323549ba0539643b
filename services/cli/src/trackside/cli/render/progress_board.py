"""Draws a stream while it runs: its progress, what its view adds to that, and the tasks of each device."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from trackside.aggregates.registry import AGGREGATES
from trackside.cli.render.screen import styled
from trackside.contracts.envelope.message import Record
from trackside.contracts.tasks.tasks import AttemptEnd, AttemptEnded, TaskStatus
from trackside.domain.display.end_rate import EndRate
from trackside.domain.display.task_state import service_state, short_name, why
from trackside.domain.display.text import duration, number
from trackside.domain.display.view import Progress
from trackside.domain.streams.stream import Stream
from trackside.domain.tasks.task import Task, TaskState

BAR_WIDTH = 40
ENDED = 5
"""How many tasks that did not finish are shown, the last ones."""
REASONS = 3
"""How many reasons why tasks cannot be scheduled are shown."""
DeviceKey = tuple[str, str]


@dataclass(slots=True)
class ProgressBoard:
    """The newest state of one stream and the known devices; `now_ms` is the wall clock."""

    stream_id: str
    devices: set[DeviceKey] = field(default_factory=set)
    stream: Stream | None = None
    failed: deque[Task] = field(default_factory=lambda: deque(maxlen=ENDED))
    pace: EndRate | None = None

    def update(self, record: Record, stream: Stream) -> None:
        """Takes the state after an event: its task may be on a new device, have ended, or have failed."""
        self.stream = stream
        self.pace = self.pace or EndRate(record.append_time_ms)
        task = stream.tasks.get(getattr(record.message, "task_id", ""))
        if task is None:
            return
        if isinstance(record.message, AttemptEnded) and task.ended_ms == record.append_time_ms:
            self.pace.add(task.ended_ms)
        if task.place is not None:
            self.devices |= {(task.place.worker_id, device_id) for device_id in task.place.device_ids}
        if task.end is not None and task.end is not AttemptEnd.FINISHED:
            self.failed.append(task)

    def render(self, now_ms: int) -> RenderableType:
        """Draws the board as it is now."""
        aggregate = None if self.stream is None else AGGREGATES.of(self.stream)
        if self.stream is None or aggregate is None:
            return Text(f"{self.stream_id}: waiting for it to start")
        failed = self.failed if aggregate.view.shows_failed_tasks else ()
        failures = [f"{short_name(task, self.stream_id)} {why(task)}" for task in failed]
        return Group(
            *_progress(aggregate.view.progress(self.stream), self.pace, now_ms),
            _devices(self.devices, running_tasks(self.stream), self.stream_id, now_ms),
            *_services(self.stream, now_ms),
            *(Text(line, "yellow") for line in unschedulable_lines(self.stream)),
            *(Text(line, "red", no_wrap=True) for line in failures),
        )


def unschedulable_lines(stream: Stream) -> list[str]:
    """Returns a line for each reason why tasks cannot be scheduled, with the first task of each."""
    found: dict[str, list[Task]] = {}
    for task in stream.tasks.values():
        if task.state is TaskState.QUEUED and task.unschedulable:
            found.setdefault(task.unschedulable, []).append(task)
    lines = []
    for reason, tasks in list(found.items())[:REASONS]:
        more = f" and {len(tasks) - 1} more" if len(tasks) > 1 else ""
        lines.append(f"{short_name(tasks[0], stream.stream_id)}{more} can't run: {reason}")
    return lines


def running_tasks(stream: Stream) -> dict[DeviceKey, list[Task]]:
    """Returns the tasks of each device, those that wait for another task to end last."""
    found: dict[DeviceKey, list[Task]] = {}
    held = (TaskState.PLACED, TaskState.ACTIVE)
    for task in stream.tasks.values():
        if task.place is not None and task.state in held:
            for device_id in task.place.device_ids:
                found.setdefault((task.place.worker_id, device_id), []).append(task)
    for tasks in found.values():
        tasks.sort(key=lambda task: (task.attempt.behind, task.attempt.assigned_ms))
    return found


def pace_text(progress: Progress, pace: EndRate | None, now_ms: int) -> str:
    """Returns how fast parts end, and how long the others take; empty if unknown, in a pause, at the end."""
    if pace is None or progress.ended_ms or progress.waits:
        return ""
    left = None if progress.total is None else max(0, progress.total - progress.ended)
    return pace.text(left, now_ms)


def _progress(progress: Progress, pace: EndRate | None, now_ms: int) -> list[RenderableType]:
    """Draws the bar, then the progress of parts, then lines."""
    bar = Table.grid(padding=(0, 1))
    share = progress.share
    bar.add_row(
        styled(progress.status),
        ProgressBar(total=progress.total, completed=progress.ended, width=BAR_WIDTH)
        if share is None
        else ProgressBar(total=1.0, completed=share, width=BAR_WIDTH),
        progress.count if share is None else f"{progress.count}, {share:.0%}",
        duration(max(0.0, ((progress.ended_ms or now_ms) - progress.started_ms) / 1000)),
        Text(pace_text(progress, pace, now_ms), "dim"),
    )
    drawn: list[RenderableType] = [bar]
    if progress.rows:
        parts = Table.grid(padding=(0, 2))
        for row in progress.rows:
            parts.add_row(*map(styled, row))
        if progress.more:
            parts.add_row(Text(progress.more, "dim"))
        drawn.append(parts)
    return [*drawn, *map(Text, progress.lines)]


def _devices(
    known: Iterable[DeviceKey], running: dict[DeviceKey, list[Task]], stream_id: str, now_ms: int
) -> Table:
    rows = Table.grid(padding=(0, 2))
    for device in sorted(known):
        tasks: list[Task | None] = [*running.get(device, [])]
        for at, task in enumerate(tasks or [None]):
            rows.add_row("/".join(device) if at == 0 else "", *_task_cells(task, stream_id, now_ms))
    return rows


def _services(stream: Stream, now_ms: int) -> list[Table]:
    """Draws the services that no device has, if any: those that wait, and those without devices."""
    rows = Table.grid(padding=(0, 2))
    for task in stream.tasks.values():
        on_device = task.place is not None and task.place.device_ids
        if task.needs.service is not None and task.state is not TaskState.ENDED and not on_device:
            where = "" if task.place is None else task.place.worker_id
            rows.add_row(where, *_task_cells(task, stream.stream_id, now_ms))
    return [rows] if rows.row_count else []


def _task_cells(task: Task | None, stream_id: str, now_ms: int) -> list[RenderableType]:
    if task is None:
        return [Text("free", "dim")]
    part, label = task.part, short_name(task, stream_id)
    if part is not None and not part.name:  # the part is the task's alone, such as a trial
        label = f"{part.kind} {part.number}"
    attempt = task.attempt
    if attempt.number > 1:
        label += f" (attempt {attempt.number})"
    if attempt.behind and attempt.status < TaskStatus.TRAINING:
        label += " (next)"
    reported = ""
    if task.reports:
        step, value = task.reports[-1]
        reported = f"step {step}: {number(value)}"
    if task.needs.service is not None:
        since_ms = attempt.ready_ms or attempt.assigned_ms
        since = duration(max(0.0, (now_ms - since_ms) / 1000)) if since_ms else ""
        return [label, styled(service_state(task, now_ms)), since, ""]
    since = duration(max(0.0, (now_ms - attempt.assigned_ms) / 1000))
    return [label, styled(attempt.status.name), since, reported]
