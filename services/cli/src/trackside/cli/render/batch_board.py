"""Draws a batch: its groups while they run, how its tasks ended, and which did not finish."""

from collections import Counter
from collections.abc import Collection, Iterable

from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from trackside.aggregates.batch.messages import BatchStatus, group_name
from trackside.aggregates.batch.state import OVER, Batch
from trackside.cli.render.screen import duration, styled
from trackside.contracts.tasks import AttemptEnd
from trackside.domain.stream import Stream
from trackside.domain.task import Task

BAR_WIDTH = 40
GROUPS = 8
"""How many groups a board shows: those around the one that runs."""
LISTED = 20
"""How many tasks that didn't finish are named one by one."""
FINISHED = AttemptEnd.FINISHED.value


def total(batch: Batch) -> int:
    """Counts the tasks of all groups."""
    return sum(len(group.tasks) for group in batch.spec.groups)


def counts(batch: Batch) -> Counter[str]:
    """Counts the tasks that have ended, by how they did."""
    found = Counter(batch.ends)
    for ends in batch.ended:
        found.update(ends)
    return found


def ends_text(ends: Iterable[tuple[str, int]]) -> str:
    """Returns counted ends as text: `38 finished, 2 failed`."""
    listed = sorted(ends, key=lambda end: (end[0] != FINISHED, end[0]))
    return ", ".join(f"{count} {name}" for name, count in listed) or "none ended"


def progress_line(batch: Batch) -> str:
    """Returns the progress of a batch as a line."""
    ends = counts(batch)
    which = min(batch.group, len(batch.spec.groups) - 1)
    group = batch.spec.groups[which]
    where = f"{group_name(group, which)} ({which + 1} of {len(batch.spec.groups)} groups)"
    return f"{ends.total()}/{total(batch)} tasks ended: {ends_text(ends.items())}; at {where}"


def draw(batch: Batch, now_ms: int) -> RenderableType:
    """Draws the progress of a batch and its groups."""
    row = Table.grid(padding=(0, 1))
    ended, tasks = counts(batch).total(), total(batch)
    until = batch.ended_ms or now_ms
    row.add_row(
        styled(batch.status.value),
        ProgressBar(total=tasks, completed=ended, width=BAR_WIDTH),
        f"{ended}/{tasks} tasks",
        duration(max(0.0, (until - batch.started_ms) / 1000)),
    )
    return Group(row, _groups(batch))


def short_name(task: Task, batch_id: str) -> str:
    """Returns a task's id without that of its batch: the number of its group and its name."""
    return task.task_id.removeprefix(f"{batch_id}.")


def unfinished(stream: Stream, accepted: Collection[AttemptEnd]) -> list[Task]:
    """Returns the tasks that ended in a way that is not accepted, in the order of the batch."""
    return [task for task in stream.tasks.values() if task.end is not None and task.end not in accepted]


def why(task: Task) -> str:
    """Returns how a task ended, such as `failed in TRAIN: ValueError: no such file`."""
    how = "" if task.end is None else task.end.value
    error = task.attempt.error
    if error is not None:
        text = f"{error.type}: {error.message}".strip().splitlines()[0]
        return f"{how} in {error.stage}: {text}"
    if task.attempt.exit_code:
        return f"{how}: exit code {task.attempt.exit_code}"
    return f"{how}: {task.unschedulable}" if task.unschedulable else how


def left_out(batch: Batch) -> int:
    """Counts the tasks that were never submitted, because the batch was stopped."""
    if batch.status is not BatchStatus.STOPPED:
        return 0
    return total(batch) - counts(batch).total()


def summary(stream: Stream, batch: Batch, accepted: Collection[AttemptEnd]) -> dict[str, object]:
    """Returns the outcome of a batch, for programs."""
    return {
        "batch_id": stream.stream_id,
        "status": batch.status.value,
        "tasks": total(batch),
        "ends": dict(sorted(counts(batch).items())),
        "left_out": left_out(batch),
        "groups": [
            {"name": group_name(group, at), "tasks": len(group.tasks), "ends": _ends_of(batch, at)}
            for at, group in enumerate(batch.spec.groups)
        ],
        "unfinished": [_as_object(task) for task in unfinished(stream, accepted)],
        "duration_s": (batch.ended_ms - batch.started_ms) / 1000,
    }


def _as_object(task: Task) -> dict[str, object]:
    error = task.attempt.error
    return {
        "task_id": task.task_id,
        "name": "" if task.part is None else task.part.name,
        "ending": None if task.end is None else task.end.value,
        "attempts": len(task.attempts),
        "stage": None if error is None else error.stage,
        "message": why(task),
    }


def _ends_of(batch: Batch, at: int) -> dict[str, int]:
    if at < len(batch.ended):
        return batch.ended[at]
    return batch.ends if at == batch.group else {}


def _groups(batch: Batch) -> Table:
    rows = Table.grid(padding=(0, 2))
    groups = batch.spec.groups
    first = max(0, min(batch.group - GROUPS // 2, len(groups) - GROUPS))
    for at, group in list(enumerate(groups))[first : first + GROUPS]:
        ends = _ends_of(batch, at)
        rows.add_row(
            group_name(group, at),
            styled(_status(batch, at)),
            f"{sum(ends.values())}/{len(group.tasks)}",
            ends_text(ends.items()) if ends else "",
        )
    hidden = len(groups) - GROUPS
    if hidden > 0:
        rows.add_row(Text(f"and {hidden} more groups", "dim"))
    return rows


def _status(batch: Batch, at: int) -> str:
    if at < batch.group:
        return "DONE"
    if at == batch.group:
        return batch.status.value
    return "SKIPPED" if batch.status in OVER else "WAITING"
