"""What the spans of the dispatcher's decisions say, and the spans of trials and searches that they end."""

from collections.abc import Callable
from dataclasses import replace

from trackside.aggregates.search.advice.advice_messages import AssessmentFailed, SuggestionFailed
from trackside.aggregates.search.messages import (
    SearchEnded,
    SearchFailed,
    SearchStatus,
    TrialEnded,
    TrialStatus,
    TrialSuggested,
)
from trackside.aggregates.search.state import Search, Trial, trial_trace
from trackside.contracts.envelope.message import Event
from trackside.contracts.envelope.trace_context import derive_span
from trackside.contracts.streams.commands import CommandReceived, CommandRefused
from trackside.domain.proposal import Proposal
from trackside.domain.streams.stream import Stream
from trackside.domain.tasks.task import Task
from trackside.eventlog.reactor.decision_spans import NS_PER_MS, Description
from trackside.eventlog.reactor.task_spans import end_attributes, failure_of, task_attributes
from trackside.telemetry import messaging
from trackside.telemetry.context import Failure, Span

Asked = Callable[[str, int], Span | None]
_SEARCH = "trackside.search"


def describe(stream: Stream | None, proposal: Proposal, asked: Asked) -> Description:
    """Describes a decision about a stream, by the state that it was made on; None: the stream is new.

    `asked` returns the span of the request to a tuner that a suggestion answers.
    """
    first = proposal.events[0]
    attributes = _attributes(stream, proposal)
    match first:
        case CommandReceived():
            source = first.source
            attributes |= messaging.processed(source.topic, source.partition, source.offset)
            attributes |= {
                "messaging.message.id": first.command_id,
                "trackside.command_type": first.command_type,
            }
            return Description(attributes, "consumer")
        case TrialSuggested() if stream is not None:
            return Description(attributes, ending=_request(asked(stream.stream_id, first.trial), None))
        case SuggestionFailed() if stream is not None:
            failure = Failure(first.code, first.message, first.traceback)
            request = _request(asked(stream.stream_id, first.trial), failure)
            return Description(attributes, failure=failure, ending=request)
        case CommandRefused() | SearchFailed() | AssessmentFailed():
            return Description(attributes, failure=Failure(first.code, first.message))
        case TrialEnded() if stream is not None and isinstance(stream.root, Search):
            return Description(attributes, ending=(_trial_span(stream, stream.root, first, attributes),))
        case SearchEnded() if stream is not None and isinstance(stream.root, Search):
            return Description(attributes, ending=(_search_span(stream, stream.root, first),))
        case _:
            return Description(attributes)


def _request(asked: Span | None, failure: Failure | None) -> tuple[Span, ...]:
    return () if asked is None else (replace(asked, failure=failure),)


def _attributes(stream: Stream | None, proposal: Proposal) -> dict[str, str | int]:
    """Returns what identifies the search, the trial and the task that the events are about."""
    found: dict[str, str | int] = {}
    if stream is not None and isinstance(stream.root, Search):
        found[_SEARCH] = stream.stream_id
    for event in proposal.events:
        task_id = _task_of(stream, event)
        task = None if stream is None else stream.tasks.get(task_id)
        if stream is not None and task is not None:
            found |= task_attributes(stream.stream_id, task)
        elif task_id:
            found["trackside.task"] = task_id
        if (number := getattr(event, "trial", None)) is not None and _SEARCH in found:
            found["trackside.trial"] = number
    return found


def _task_of(stream: Stream | None, event: Event) -> str:
    if isinstance(event, TrialEnded) and stream is not None and isinstance(stream.root, Search):
        return stream.root.task_of(event.trial)
    return str(getattr(event, "task_id", ""))


def _trial_span(
    stream: Stream[Search], search: Search, event: TrialEnded, attributes: dict[str, str | int]
) -> Span:
    """Returns the span of a trial, from its suggestion on: the root of its trace.

    It links to the command of its search, to the trial that it continues, and to the task of another trial
    that has gone on with it.
    """
    trial = search.trials[event.trial]
    task = stream.tasks.get(trial.task_of(search.search_id))
    links = [stream.traceparent]
    if trial.from_trial is not None:
        links.append(trial_trace(stream, trial.from_trial))
    if trial.within and task is not None:
        links.append(task.traceparent)
    found: dict[str, str | int | float] = {**attributes, "trackside.status": event.status.value}
    if event.value is not None:
        found["trackside.value"] = event.value
    if trial.from_trial is not None:
        found["trackside.from_trial"] = trial.from_trial
    if task is not None:
        found["trackside.attempts"] = len(task.attempts)
        if task.end is not None:
            now = task.attempt
            found |= end_attributes(task.task_id, task.task_type, now.number, now.worker_id, task.end)
    return Span(
        name="trial",
        traceparent=trial_trace(stream, event.trial),
        parent=None,
        start_ns=trial.suggested_ms * NS_PER_MS,
        end_ns=0,
        attributes=found,
        links=tuple(links),
        failure=_failure_of_trial(trial, event, task),
    )


def _failure_of_trial(trial: Trial, event: TrialEnded, task: Task | None) -> Failure | None:
    if event.status is not TrialStatus.FAILED:
        return None
    if task is not None and task.end is not None:
        failure = failure_of(task.end, task.attempt.error)
        if failure is not None:
            return failure
    if event.missing:
        return Failure("missing_objective", f"it reported no {', '.join(event.missing)}")
    return Failure("failed", f"trial {trial.number} has failed")


def _search_span(stream: Stream[Search], search: Search, event: SearchEnded) -> Span:
    failed = event.status is SearchStatus.ERROR
    code, _, message = search.failure.partition(": ")
    return Span(
        name="search",
        traceparent=derive_span(stream.traceparent, "search"),
        parent=stream.traceparent or None,
        start_ns=search.started_ms * NS_PER_MS,
        end_ns=0,
        attributes={
            "trackside.stream": search.search_id,
            _SEARCH: search.search_id,
            "trackside.status": event.status.value,
            "trackside.trials": event.trials,
        },
        failure=Failure(code, message) if failed else None,
    )
