"""What a search looks like while it runs: a bar, the best value so far, and what each device is doing."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from trackside.cli.screen import cell, duration, number, styled
from trackside.domain.search import Search
from trackside.domain.stream import Stream
from trackside.domain.task import Task, TaskState

BAR_WIDTH = 40
Device = tuple[str, str]


@dataclass(slots=True)
class Board:
    """The newest state of one search and the devices that are known; `now_ms` is the wall clock."""

    search_id: str
    devices: set[Device] = field(default_factory=set)
    stream: Stream | None = None

    def see(self, stream: Stream) -> None:
        """Takes a new state, and the devices that its tasks were given."""
        self.stream = stream
        for task in stream.tasks.values():
            if task.place is not None:
                self.devices |= {(task.place.worker_id, device_id) for device_id in task.place.device_ids}

    def render(self, now_ms: int) -> RenderableType:
        """Draws the board as it is now."""
        search = None if self.stream is None else self.stream.search
        if self.stream is None or search is None:
            return Text(f"{self.search_id}: waiting for the search to start")
        running = running_tasks(self.stream)
        return Group(_bar(search, now_ms), Text(best_line(search)), _devices(self.devices, running, now_ms))


def best_line(search: Search) -> str:
    """Says which trial is the best so far, with its value and parameters."""
    if search.best is None:
        return "best so far: none yet"
    trial = search.trials[search.best]
    return f"best so far: {number(trial.value)}  trial {trial.number}  {cell(trial.parameters)}"


def progress_line(search: Search) -> str:
    """Says in one plain line how far a search is."""
    best = "" if search.best is None else f", best {number(search.trials[search.best].value)}"
    return f"{len(search.ends)}/{search.spec.max_trials} trials ended{best}"


def running_tasks(stream: Stream) -> dict[Device, Task]:
    """Gives the task that each device has now."""
    held = (TaskState.PLACED, TaskState.ACTIVE)
    return {
        (task.place.worker_id, device_id): task
        for task in stream.tasks.values()
        if task.place is not None and task.state in held
        for device_id in task.place.device_ids
    }


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


def _devices(known: Iterable[Device], running: dict[Device, Task], now_ms: int) -> Table:
    rows = Table.grid(padding=(0, 2))
    for device in sorted(known):
        rows.add_row("/".join(device), *_task_cells(running.get(device), now_ms))
    return rows


def _task_cells(task: Task | None, now_ms: int) -> list[RenderableType]:
    if task is None:
        return [Text("free", "dim")]
    label = task.task_id if task.trial is None else f"trial {task.trial}"
    attempt = task.attempt
    if attempt.number > 1:
        label += f" (attempt {attempt.number})"
    reported = ""
    if task.reports:
        step, value = task.reports[-1]
        reported = f"step {step}: {number(value)}"
    since = duration(max(0.0, (now_ms - attempt.assigned_ms) / 1000))
    return [label, styled(attempt.status.name), since, reported]
