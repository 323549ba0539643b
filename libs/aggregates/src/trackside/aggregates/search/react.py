"""What a search lacks, by its state alone: ends of trials, stops, its own end. Pure."""

from collections.abc import Iterable

from trackside.aggregates.search.advice.advice import assessor_is_given_up
from trackside.aggregates.search.messages import SearchEnded, SearchFailed, SearchStatus
from trackside.aggregates.search.state import Search, trial_trace
from trackside.aggregates.search.trials import promotion, trial_reuse
from trackside.aggregates.search.trials.suggestions import has_failed, suggestion
from trackside.aggregates.search.trials.trial_results import awaits_verdict, trial_ended
from trackside.aggregates.search.trials.trial_reuse import next_task
from trackside.contracts.tasks.tasks import TaskHeld, TaskReleased, TaskStopRequested
from trackside.domain.proposal import Proposal
from trackside.domain.streams.stream import Stream
from trackside.domain.tasks.task import Task, TaskState

_FINISHED = frozenset({SearchStatus.NO_MORE_TRIAL, SearchStatus.TUNER_NO_MORE_TRIAL})


def lacking(stream: Stream[Search]) -> Iterable[Proposal]:
    """Yields what a search that is not over lacks now."""
    search, tasks = stream.root, stream.tasks
    yield from trial_reuse.lacking(stream)
    yield from _ended_trials(stream)
    yield from _stopped_tasks(search, tasks)
    yield from promotion.stops_at_limit(stream)
    yield from _held_tasks(search, tasks)
    yield from _added_trial(stream, search)
    yield from _failed_search(search, stream.traceparent)
    yield from _ended_search(search, stream.traceparent)


def _ended_trials(stream: Stream[Search]) -> Iterable[Proposal]:
    search = stream.root
    for number in sorted(search.unended):
        task = stream.tasks[search.task_of(number)]
        if awaits_verdict(search, task):
            continue
        ended = trial_ended(search.spec, number, task)
        yield Proposal("end trial", [ended], task.changed_at, trial_trace(stream, number))


def _stopped_tasks(search: Search, tasks: dict[str, Task]) -> Iterable[Proposal]:
    if search.status is not SearchStatus.STOPPING:
        return
    for task_id in _open_tasks(search):
        task = tasks.get(task_id)
        if task is not None and task.state is not TaskState.ENDED and not task.stop_reason:
            event = TaskStopRequested(
                task_id=task.task_id, reason="search_failed" if search.failure else "user"
            )
            yield Proposal("stop task", [event], search.control_at, task.traceparent)


def _open_tasks(search: Search) -> list[str]:
    """Lists the tasks of the trials that go on, and those that run without one."""
    return [*(search.task_of(number) for number in sorted(search.active)), *search.idle]


def _held_tasks(search: Search, tasks: dict[str, Task]) -> Iterable[Proposal]:
    """Holds the tasks of a search that was paused with `return`, and releases them when that is over."""
    if not search.changes or search.status is SearchStatus.STOPPING:
        return
    hold = search.paused == "return"
    for task_id in _open_tasks(search):
        task = tasks.get(task_id)
        if task is None or task.state is TaskState.ENDED or task.stop_reason or task.held is hold:
            continue
        if hold:
            held = TaskHeld(task_id=task.task_id, hold=task.holds + 1)
            yield Proposal("hold task", [held], search.control_at, task.traceparent)
        else:
            released = TaskReleased(task_id=task.task_id, hold=task.holds)
            yield Proposal("release task", [released], search.control_at, task.traceparent)


def _added_trial(stream: Stream, search: Search) -> Iterable[Proposal]:
    number = search.next_added
    if number is not None:
        parameters = search.added[0].parameters
        task = next_task(stream)
        events = suggestion(search, number, parameters, search.opened[number], "customized", task)
        follows = max(search.opened[number], search.added[0].at)
        trace = trial_trace(stream, number)
        yield Proposal("add trial", events, follows, stream.traceparent, begins_trace=trace)


def _failed_search(search: Search, traceparent: str) -> Iterable[Proposal]:
    assessor = search.spec.assessor
    if assessor is not None and assessor.on_failure.then == "stop" and assessor_is_given_up(search):
        if search.status is not SearchStatus.STOPPING:
            code, why = search.assessor_failures.last
            message = f"its assessor failed {search.assessor_failures.count} times: {why}"
            failed = SearchFailed(code=code, message=message)
            yield Proposal("fail search", [failed], search.failed_at, traceparent)
    elif has_failed(search):
        code, why = search.last_failure
        message = f"trial {search.next_trial}, asked {search.failures} times: {why}"
        yield Proposal(
            "fail search", [SearchFailed(code=code, message=message)], search.failed_at, traceparent
        )


def _ended_search(search: Search, traceparent: str) -> Iterable[Proposal]:
    if search.active or search.idle or search.next_added is not None or search.next_trial is not None:
        return
    if search.status in _FINISHED:
        status = SearchStatus.DONE
    elif search.status is SearchStatus.STOPPING:
        status = SearchStatus.ERROR if search.failure else SearchStatus.STOPPED
    else:
        return
    ended = SearchEnded(status=status, trials=len(search.trials))
    yield Proposal("end search", [ended], search.changed_at, traceparent)
