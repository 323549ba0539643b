"""Mutants: the fold without a guard, services without a rule, or a log without a record."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from tests.unit.verify.random_cluster.cluster import Cluster
from tests.unit.verify.running_mutants import OF_RUNNING_TASKS
from trackside.aggregates.batch import evolve as batch
from trackside.aggregates.batch.state import Batch
from trackside.aggregates.search import evolve as search
from trackside.aggregates.search.messages import SearchStatus
from trackside.aggregates.search.state import Search
from trackside.contracts.labels import StreamAnnotated
from trackside.contracts.message import Envelope, Event, Record
from trackside.contracts.tasks import AttemptAdopted, AttemptEnded, TaskAssigned, TaskStatus, TimeLimitReached
from trackside.domain import command, fold, retries, stream, task_acceptance, task_events
from trackside.domain.aggregate import Aggregates
from trackside.domain.outcome import Outcome
from trackside.domain.proposal import cause_of
from trackside.domain.task import Attempt, Task, TaskState

Mutate = Callable[[pytest.MonkeyPatch], None]
Corrupt = Callable[[Cluster], None]


@dataclass(frozen=True)
class Mutant:
    """A bug planted in the fold, in a service or in the log; an invariant of `expected` must be violated."""

    description: str
    expected: frozenset[str]
    mutate: Mutate | None = None
    omitted: frozenset[str] = frozenset()
    corrupt: Corrupt | None = None


def _any_end_counts(patch: pytest.MonkeyPatch) -> None:
    evolve = task_events.evolve

    def lax(task: Task, record: Record) -> Outcome:
        again = task.state is TaskState.ENDED and isinstance(record.message, AttemptEnded)
        return Outcome.APPLIED if again else evolve(task, record)

    patch.setattr(task_events, "evolve", lax)


def _any_placement(patch: pytest.MonkeyPatch) -> None:
    def lax(task: Task, event: Any) -> bool:
        return task.place is not None and task.place.incarnation == event.incarnation

    patch.setattr(task_events, "_is_current", lax)


def _any_incarnation(patch: pytest.MonkeyPatch) -> None:
    def lax(task: Task, event: Any) -> bool:
        now = (task.attempt.number, task.attempt.placement)
        return task.place is not None and now == (event.attempt, event.placement)

    patch.setattr(task_events, "_is_current", lax)


def _any_time(patch: pytest.MonkeyPatch) -> None:
    reached = task_events._time_limit_reached

    def lax(task: Task, event: Any, record: Record) -> Outcome:
        return reached(task, event, replace(record, append_time_ms=2**60))

    patch.setattr(task_events, "_FOLDS", dict(task_events._FOLDS) | {TimeLimitReached: lax})


def _any_role(patch: pytest.MonkeyPatch) -> None:
    apply = fold._apply

    def lax(found: stream.Stream, record: Record, aggregates: Aggregates) -> Outcome:
        event = record.message
        if isinstance(event, Event) and record.envelope.role not in event.written_by:
            role = min(event.written_by)
            envelope = Envelope({**record.envelope.headers, "ce_source": f"trackside/{role}/1".encode()})
            record = replace(record, envelope=envelope)
        return apply(found, record, aggregates)

    patch.setattr(fold, "_apply", lax)


def _any_number_at_once(patch: pytest.MonkeyPatch) -> None:
    def lax(found: Search) -> int | None:
        number = len(found.trials)
        more = number < found.spec.max_trials and found.status is SearchStatus.RUNNING
        return number if more else None

    patch.setattr(Search, "next_trial", property(lax))


def _one_trial_too_many(patch: pytest.MonkeyPatch) -> None:
    def lax(found: Search) -> int | None:
        number = len(found.trials)
        running = found.status in (SearchStatus.RUNNING, SearchStatus.NO_MORE_TRIAL)
        is_open = number < min(len(found.opened), found.spec.max_trials + 1)
        return number if running and is_open else None

    patch.setattr(Search, "next_trial", property(lax))


def _placements_used_again(patch: pytest.MonkeyPatch) -> None:
    assigned = task_events._assigned

    def lax(task: Task, event: Any, record: Record) -> Outcome:
        if task.state is TaskState.QUEUED and task.attempt.number == event.attempt:
            task.attempt.placement = event.placement - 1
        return assigned(task, event, record)

    patch.setattr(task_events, "_FOLDS", dict(task_events._FOLDS) | {TaskAssigned: lax})


def _rest_lost(patch: pytest.MonkeyPatch) -> None:
    apply = fold._apply

    def lax(found: stream.Stream, record: Record, aggregates: Aggregates) -> Outcome:
        return Outcome.OVERTAKEN if record.envelope.index > 0 else apply(found, record, aggregates)

    patch.setattr(fold, "_apply", lax)


def _rest_counts_alone(patch: pytest.MonkeyPatch) -> None:
    whole = fold.fold

    def lax(
        found: stream.Stream, record: Record, aggregates: Aggregates, released: fold.Released | None = None
    ) -> Outcome:
        found.ignored_decision = b"\xff"
        return whole(found, record, aggregates, released)

    patch.setattr("trackside.domain.streams.fold", lax)


def _always_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(retries, "allows", lambda policy, attempts, end: len(attempts) < 6)


def _never_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(retries, "allows", lambda policy, attempts, end: False)


def _at_once_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(retries, "wait_ms", lambda policy, attempts, end, task_id: 0)


def _groups_end_early(patch: pytest.MonkeyPatch) -> None:
    def lax(found: Batch) -> bool:
        return found.group < len(found.spec.groups) and found.submitted > 0

    patch.setattr(Batch, "group_is_over", property(lax))


def _any_group(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(batch, "admits", lambda found, event: True)


def _any_answer(patch: pytest.MonkeyPatch) -> None:
    answered = command.answered

    def lax(commands: command.Commands, event: Any, offset: int) -> Outcome:
        outcome = answered(commands, event, offset)
        return Outcome.APPLIED if outcome is Outcome.DUPLICATE else outcome

    patch.setattr(command, "answered", lax)


def _attempts_skipped(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(task_events, "Attempt", lambda number: Attempt(number + 1))


def _phases_fall(patch: pytest.MonkeyPatch) -> None:
    changed = task_events._status_changed

    def lax(task: Task, event: Any) -> Outcome:
        task.attempt.reached = TaskStatus.UNKNOWN
        return changed(task, event)

    patch.setattr(task_events, "_status_changed", lax)


def _any_interrupt(patch: pytest.MonkeyPatch) -> None:
    interrupted = task_events._interrupted

    def lax(task: Task, event: Any) -> Outcome:
        following = task.attempt.interrupted + 1
        return interrupted(task, event.model_copy(update={"interrupt": following}))

    patch.setattr(task_events, "_interrupted", lax)


def _searches_end_early(patch: pytest.MonkeyPatch) -> None:
    def lax(found: Search, event: Any, record: Record) -> Outcome:
        found.status = event.status
        return Outcome.APPLIED

    patch.setattr(search, "_search_ended", lax)


def _trials_end_early(patch: pytest.MonkeyPatch) -> None:
    ended = search._trial_ended

    def lax(found: Search, tasks: dict[str, Task], event: Any, record: Record) -> Outcome:
        over = {name: replace(task, state=TaskState.ENDED) for name, task in tasks.items()}
        return ended(found, over, event, record)

    patch.setattr(search, "_trial_ended", lax)


def _any_worker_adopts(patch: pytest.MonkeyPatch) -> None:
    _believe(patch, lambda task: {"worker_id": task.place.worker_id})


def _any_incarnation_is_earlier(patch: pytest.MonkeyPatch) -> None:
    _believe(patch, lambda task: {"earlier": (task.place.incarnation,)})


def _believe(patch: pytest.MonkeyPatch, of_task: Callable[[Any], dict[str, Any]]) -> None:
    """Folds an adoption as if it named what its task has."""

    def lax(task: Task, event: AttemptAdopted, record: Record) -> Outcome:
        believed = event if task.place is None else event.model_copy(update=of_task(task))
        return task_acceptance.adopted(task, believed, record)

    folds: dict[Any, Any] = {**task_events._FOLDS}
    patch.setattr(task_events, "_FOLDS", folds | {AttemptAdopted: lax})


def _tear_a_decision(cluster: Cluster) -> None:
    at = max(number for number, record in enumerate(cluster.records) if record.envelope.index > 0)
    del cluster.records[at]


def _name_a_later_cause(cluster: Cluster) -> None:
    for record in cluster.records:
        cause = cause_of(record.envelope.stream, record.offset + 1)
        record.envelope = Envelope({**record.envelope.headers, "ce_causationid": cause.encode()})


def _send_too_much(cluster: Cluster) -> None:
    last = cluster.sent[-1]
    cluster.sent.append(last.model_copy(update={"placement": last.placement + 1}))


def _annotated_twice(patch: pytest.MonkeyPatch) -> None:
    def lax(annotated: stream.Stream, event: StreamAnnotated, record: Record) -> Outcome:
        annotated.commands[event.command_id].carried_out = False
        return honest(annotated, event, record)

    honest = fold._annotated
    patch.setattr(fold, "_annotated", lax)


def _send_elsewhere(cluster: Cluster) -> None:
    cluster.sent.append(cluster.sent[-1].model_copy(update={"device_ids": ["cpu-7"]}))


def _expects(*expected: str) -> frozenset[str]:
    return frozenset(expected)


MUTANTS = (
    Mutant("an end counts after the end", _expects("INV-2"), _any_end_counts),
    Mutant("the placement is not compared", _expects("INV-5", "INV-6"), _any_placement),
    Mutant("the incarnation is not compared", _expects("INV-7"), _any_incarnation),
    Mutant("a worker adopts what another one has", _expects("INV-7"), _any_worker_adopts),
    Mutant("an adoption names any incarnation", _expects("INV-7"), _any_incarnation_is_earlier),
    Mutant("time limits are reached before they are due", _expects("INV-10"), _any_time),
    Mutant("the role of a writer is not looked at", _expects("INV-7"), _any_role),
    Mutant("concurrency is not counted", _expects("INV-12"), _any_number_at_once),
    Mutant("one trial more than the limit", _expects("INV-12"), _one_trial_too_many),
    Mutant("numbers of placements are used again", _expects("INV-6"), _placements_used_again),
    Mutant("the rest of a decision is lost", _expects("INV-9"), _rest_lost),
    Mutant("the rest of a decision counts alone", _expects("INV-9"), _rest_counts_alone),
    Mutant("retries beyond the policy", _expects("INV-10"), _always_again),
    Mutant("retries that the policy allows are not made", _expects("INV-2", "INV-10"), _never_again),
    Mutant("retries before their time", _expects("INV-10"), _at_once_again),
    Mutant("a group ends while its tasks run", _expects("INV-12"), _groups_end_early),
    Mutant("tasks are submitted out of turn", _expects("INV-12"), _any_group),
    Mutant("a command is answered twice", _expects("INV-1"), _any_answer),
    Mutant("a command annotates its stream twice", _expects("INV-10"), _annotated_twice),
    Mutant("a number of an attempt is skipped", _expects("INV-3"), _attempts_skipped),
    Mutant("phases go down", _expects("INV-10"), _phases_fall),
    Mutant("an interrupt counts twice", _expects("INV-10"), _any_interrupt),
    Mutant("a search ends while trials run", _expects("INV-10"), _searches_end_early),
    Mutant("a trial ends before its task", _expects("INV-10"), _trials_end_early),
    Mutant("a device is given to two", _expects("INV-4"), omitted=_expects("devices", "ledger")),
    Mutant("memory is given to too many", _expects("INV-4"), omitted=_expects("ledger")),
    Mutant("a worker that was lost gets tasks", _expects("INV-7"), omitted=_expects("fleet")),
    Mutant("a command is never answered", _expects("INV-1"), omitted=_expects("answers")),
    Mutant("a published record is passed over", _expects("INV-8"), omitted=_expects("intake")),
    Mutant("the log has only a part of a decision", _expects("INV-9"), corrupt=_tear_a_decision),
    Mutant("an event names a later one as its cause", _expects("INV-18"), corrupt=_name_a_later_cause),
    Mutant("a device is told to run what nobody assigned", _expects("INV-5"), corrupt=_send_too_much),
    Mutant("a device is told to run what another one has", _expects("INV-5"), corrupt=_send_elsewhere),
    *(Mutant(what, _expects(found), mutate) for what, (found, mutate) in OF_RUNNING_TASKS.items()),
)
