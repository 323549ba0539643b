"""Bugs to seed: guards of the fold that are gone, rules that services forget, records that are missing."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from tests.unit.replay.installation import Installation
from trackside.contracts.message import Envelope, Event, Record
from trackside.contracts.searches import SearchStatus
from trackside.contracts.tasks import AttemptEnded, TaskStatus
from trackside.domain import batch, command, retries, search, stream, task_events
from trackside.domain.batch import Batch
from trackside.domain.outcome import Outcome
from trackside.domain.search import Search
from trackside.domain.task import Attempt, Task, TaskState

Mutate = Callable[[pytest.MonkeyPatch], None]
Spoil = Callable[[Installation], None]


@dataclass(frozen=True)
class Bug:
    """A bug, by a sentence, in the fold, in a service, or in the log; one of `expected` must be found."""

    says: str
    expected: frozenset[str]
    mutate: Mutate | None = None
    forgotten: frozenset[str] = frozenset()
    spoil: Spoil | None = None


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

    patch.setattr(task_events, "_time_limit_reached", lax)


def _any_role(patch: pytest.MonkeyPatch) -> None:
    apply = stream._apply

    def lax(found: stream.Stream, record: Record) -> Outcome:
        event = record.message
        if isinstance(event, Event) and record.envelope.role not in event.written_by:
            role = min(event.written_by)
            envelope = Envelope({**record.envelope.headers, "ce_source": f"trackside/{role}/1".encode()})
            record = replace(record, envelope=envelope)
        return apply(found, record)

    patch.setattr(stream, "_apply", lax)


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

    patch.setattr(task_events, "_assigned", lax)


def _rest_lost(patch: pytest.MonkeyPatch) -> None:
    apply = stream._apply

    def lax(found: stream.Stream, record: Record) -> Outcome:
        return Outcome.OVERTAKEN if record.envelope.index > 0 else apply(found, record)

    patch.setattr(stream, "_apply", lax)


def _rest_counts_alone(patch: pytest.MonkeyPatch) -> None:
    fold = stream.fold

    def lax(found: stream.Stream, record: Record) -> Outcome:
        found.ignored_decision = b"\xff"
        return fold(found, record)

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
    patch.setattr(batch, "may_submit", lambda found, event: True)


def _any_answer(patch: pytest.MonkeyPatch) -> None:
    answered = command.answered

    def lax(commands: command.Commands, event: Any) -> Outcome:
        outcome = answered(commands, event)
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


def _tear_a_decision(world: Installation) -> None:
    at = max(number for number, record in enumerate(world.records) if record.envelope.index > 0)
    del world.records[at]


def _send_too_much(world: Installation) -> None:
    last = world.sent[-1]
    world.sent.append(last.model_copy(update={"placement": last.placement + 1}))


def _send_elsewhere(world: Installation) -> None:
    world.sent.append(world.sent[-1].model_copy(update={"device_ids": ["cpu-7"]}))


def _is(*expected: str) -> frozenset[str]:
    return frozenset(expected)


BUGS = (
    Bug("an end counts after the end", _is("INV-2"), _any_end_counts),
    Bug("the placement is not compared", _is("INV-5", "INV-6"), _any_placement),
    Bug("the incarnation is not compared", _is("INV-7"), _any_incarnation),
    Bug("time limits are reached before they are due", _is("INV-10"), _any_time),
    Bug("the role of a writer is not looked at", _is("INV-7"), _any_role),
    Bug("concurrency is not counted", _is("INV-12"), _any_number_at_once),
    Bug("one trial more than the limit", _is("INV-12"), _one_trial_too_many),
    Bug("numbers of placements are used again", _is("INV-6"), _placements_used_again),
    Bug("the rest of a decision is lost", _is("INV-9"), _rest_lost),
    Bug("the rest of a decision counts alone", _is("INV-9"), _rest_counts_alone),
    Bug("retries beyond the policy", _is("INV-10"), _always_again),
    Bug("retries that the policy allows are not made", _is("INV-2", "INV-10"), _never_again),
    Bug("retries before their time", _is("INV-10"), _at_once_again),
    Bug("a group ends while its tasks run", _is("INV-12"), _groups_end_early),
    Bug("tasks are submitted out of turn", _is("INV-12"), _any_group),
    Bug("a command is answered twice", _is("INV-1"), _any_answer),
    Bug("a number of an attempt is skipped", _is("INV-3"), _attempts_skipped),
    Bug("phases go down", _is("INV-10"), _phases_fall),
    Bug("an interrupt counts twice", _is("INV-10"), _any_interrupt),
    Bug("a search ends while trials run", _is("INV-10"), _searches_end_early),
    Bug("a trial ends before its task", _is("INV-10"), _trials_end_early),
    Bug("a device is given to two", _is("INV-4"), forgotten=_is("devices", "ledger")),
    Bug("memory is given to too many", _is("INV-4"), forgotten=_is("ledger")),
    Bug("a worker that was lost gets tasks", _is("INV-7"), forgotten=_is("fleet")),
    Bug("a command is never answered", _is("INV-1"), forgotten=_is("answers")),
    Bug("a published record is passed over", _is("INV-8"), forgotten=_is("intake")),
    Bug("the log has only a part of a decision", _is("INV-9"), spoil=_tear_a_decision),
    Bug("a device is told to run what nobody assigned", _is("INV-5"), spoil=_send_too_much),
    Bug("a device is told to run what another one has", _is("INV-5"), spoil=_send_elsewhere),
)
