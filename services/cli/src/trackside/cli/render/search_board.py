"""Draws a search or a batch while it runs: progress, best value, and the tasks of each device."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from trackside.aggregates.batch.state import batch_of
from trackside.aggregates.search.objectives import names_of
from trackside.aggregates.search.state import Search, search_of
from trackside.cli.render import batch_board
from trackside.cli.render.screen import cell, duration, number, styled
from trackside.contracts.message import Record
from trackside.contracts.tasks import AttemptEnd, TaskStatus
from trackside.domain.stream import Stream
from trackside.domain.task import Task, TaskState

BAR_WIDTH = 40
ENDED = 5
"""How many tasks that did not finish are shown, the last ones."""
FRONT = 3
"""How many trials of a Pareto front are shown, the last ones."""
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

    def update(self, record: Record, stream: Stream) -> None:
        """Takes the state after an event: its task may be on a new device, or have failed."""
        self.stream = stream
        task = stream.tasks.get(getattr(record.message, "task_id", ""))
        if task is None:
            return
        if task.place is not None:
            self.devices |= {(task.place.worker_id, device_id) for device_id in task.place.device_ids}
        if task.end is not None and task.end is not AttemptEnd.FINISHED:
            self.failed.append(task)

    def render(self, now_ms: int) -> RenderableType:
        """Draws the board as it is now."""
        if self.stream is None or self.stream.root is None:
            return Text(f"{self.stream_id}: waiting for it to start")
        devices = _devices(self.devices, running_tasks(self.stream), self.stream_id, now_ms)
        waiting = [Text(line, "yellow") for line in unschedulable_lines(self.stream)]
        batch = batch_of(self.stream)
        if batch is not None:
            drawn = batch_board.draw(batch, now_ms)
            lines = [f"{batch_board.short_name(t, self.stream_id)} {batch_board.why(t)}" for t in self.failed]
            return Group(drawn, devices, *waiting, *(Text(line, "red", no_wrap=True) for line in lines))
        search = search_of(self.stream)
        assert search is not None
        return Group(_bar(search, now_ms), Text(best_line(search)), devices, *waiting)


def best_line(search: Search) -> str:
    """Returns the best trial so far with its value and parameters, or the Pareto front, as a line."""
    if search.front:
        return f"Pareto front: {_front(search)}"
    if search.best is None:
        return "best so far: none yet"
    trial = search.trials[search.best]
    return f"best so far: {number(trial.value)}  trial {trial.number}  {cell(trial.parameters)}"


def _front(search: Search) -> str:
    """Lists the trials of the Pareto front, the newest ones if there are many."""
    shown = search.front[-FRONT:]
    more = f" and {len(search.front) - len(shown)} more" if len(shown) < len(search.front) else ""
    names = names_of(search.spec)
    listed = []
    for at in shown:
        values = zip(names, search.trials[at].values, strict=True)
        listed.append(
            f"trial {at} ({', '.join(f'{name} {number(_plain(value))}' for name, value in values)})"
        )
    return "; ".join(listed) + more


def _plain(value: float | str | None) -> float | None:
    return value if isinstance(value, float) else None


def progress_line(search: Search) -> str:
    """Returns the progress of a search as a line."""
    best = "" if search.best is None else f", best {number(search.trials[search.best].value)}"
    return f"{len(search.ends)}/{search.spec.max_trials} trials ended{best}"


def unschedulable_lines(stream: Stream) -> list[str]:
    """Returns a line for each reason why tasks cannot be scheduled, with the first task of each."""
    found: dict[str, list[Task]] = {}
    for task in stream.tasks.values():
        if task.state is TaskState.QUEUED and task.unschedulable:
            found.setdefault(task.unschedulable, []).append(task)
    lines = []
    for reason, tasks in list(found.items())[:REASONS]:
        more = f" and {len(tasks) - 1} more" if len(tasks) > 1 else ""
        lines.append(f"{batch_board.short_name(tasks[0], stream.stream_id)}{more} can't run: {reason}")
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


def _bar(search: Search, now_ms: int) -> Table:
    row = Table.grid(padding=(0, 1))
    ended, total = len(search.ends), search.spec.max_trials
    until = search.ended_ms or now_ms
    row.add_row(
        styled(search.status.value),
        ProgressBar(total=total, completed=ended, width=BAR_WIDTH),
        f"{ended}/{total} trials",
        duration(max(0.0, (until - search.started_ms) / 1000)),
    )
    return row


def _devices(
    known: Iterable[DeviceKey], running: dict[DeviceKey, list[Task]], stream_id: str, now_ms: int
) -> Table:
    rows = Table.grid(padding=(0, 2))
    for device in sorted(known):
        tasks: list[Task | None] = [*running.get(device, [])]
        for at, task in enumerate(tasks or [None]):
            rows.add_row("/".join(device) if at == 0 else "", *_task_cells(task, stream_id, now_ms))
    return rows


def _task_cells(task: Task | None, stream_id: str, now_ms: int) -> list[RenderableType]:
    if task is None:
        return [Text("free", "dim")]
    part, label = task.part, batch_board.short_name(task, stream_id)
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
    since = duration(max(0.0, (now_ms - attempt.assigned_ms) / 1000))
    return [label, styled(attempt.status.name), since, reported]
