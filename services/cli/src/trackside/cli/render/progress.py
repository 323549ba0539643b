"""A progress bar for what reads or writes the log: how much, how fast, how long."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from trackside.cli.render import screen
from trackside.eventlog.clock import monotonic_s

PATIENCE_S = 2.0
"""How long something may take before a progress bar is shown."""


class RateColumn(ProgressColumn):
    """How many records a second."""

    def render(self, task: Task) -> Text:
        """Returns the rate of the last seconds, empty before there is one."""
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{rate(speed)}", "progress.data.speed")


def rate(per_s: float) -> str:
    """Returns a rate of records as text."""
    return f"{per_s:.0f}/s" if per_s < 10_000 else f"{per_s / 1_000:.0f}k/s"


@contextmanager
def progress_of(text: str) -> Iterator[Callable[[int, int], None]]:
    """Shows a bar on stderr, if that is a terminal; yields the function to call with (done, total)."""
    output = screen.console(error=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        RateColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=output, transient=True, disable=not output.is_terminal) as progress:
        task = progress.add_task(text, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)


@contextmanager
def late_progress(text: str) -> Iterator[Callable[[int, int], None]]:
    """Shows a bar only for what takes long; else as progress_of does."""
    began_s, bars = monotonic_s(), list[Callable[[int, int], None]]()
    with ExitStack() as stack:

        def show_progress(done: int, total: int) -> None:
            if not bars and monotonic_s() - began_s > PATIENCE_S:
                bars.append(stack.enter_context(progress_of(text)))
            for bar in bars:
                bar(done, total)

        yield show_progress
