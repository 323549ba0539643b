"""What becomes of tasks that ask for another trial: pure.

The trial that such a task has ends as if its task had finished, if the search may have another one for it;
so the tuner knows how it went. The slot that this opens is the task's. If there is to be none, it is told so.
"""

from collections.abc import Iterable

from trackside.aggregates.search.messages import TRIAL, SearchStatus
from trackside.aggregates.search.state import Search, trial_trace
from trackside.aggregates.search.trials.promotion import promotes
from trackside.aggregates.search.trials.trial_results import awaits_verdict, trial_ended
from trackside.contracts.envelope.parts import number_of
from trackside.domain.proposal import Proposal
from trackside.domain.streams.stream import Stream
from trackside.domain.tasks import task_reuse
from trackside.domain.tasks.task import Task


def lacking(stream: Stream[Search]) -> Iterable[Proposal]:
    """Yields what the tasks that ask lack: the end of their trial, or that there is no other."""
    search = stream.root
    for task, reason in _asking(stream):
        if reason:
            yield task_reuse.withhold(task, reason)
    for trial, task in asking_trials(stream):
        if not awaits_verdict(search, task):
            ended = trial_ended(search.spec, trial, task)
            yield Proposal("end trial", [ended], task.changed_at, trial_trace(stream, trial))


def asking_trials(stream: Stream[Search]) -> Iterable[tuple[int, Task]]:
    """Yields the trials whose tasks ask for another one and may have it, with these tasks."""
    for task, reason in _asking(stream):
        trial = number_of(task.part, TRIAL)
        if not reason and not task.idle and trial is not None:
            yield trial, task


def _asking(stream: Stream[Search]) -> Iterable[tuple[Task, str]]:
    """Yields the tasks that ask, each with why it gets no further trial, empty if it may."""
    search = stream.root
    if not search.asking:
        return
    free = free_tasks(stream)
    for task_id in sorted(search.asking):
        task = stream.tasks[task_id]
        if not task_reuse.is_stopping(task):
            yield task, _reason(search, task, free)


def free_tasks(stream: Stream[Search]) -> list[str]:
    """Lists the tasks that wait for a trial, in the order in which theirs ended."""
    return [task_id for task_id in stream.root.idle if task_reuse.is_idle(stream.tasks[task_id])]


def next_task(stream: Stream[Search]) -> Task | None:
    """Returns the task that the next trial goes on in; None where it has one of its own."""
    return next((stream.tasks[task_id] for task_id in free_tasks(stream)), None)


def _reason(search: Search, task: Task, free: list[str]) -> str:
    """Returns why a task gets no further trial; empty if it may."""
    if promotes(search.spec):
        return "promotion"  # a trial begins with a checkpoint, or with the first step of a new process
    added = task.idle and (search.next_added is not None or search.next_trial is not None)
    if search.status is not SearchStatus.RUNNING and not added:
        return search.status.value.lower()
    if task.idle:
        return "" if free.index(task.task_id) < search.open_slots else "no_slot"
    return "concurrency" if search.debt else ""
