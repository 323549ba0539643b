"""The simulator bites: with one rule of the design removed, something must be wrong within so many seeds."""

from collections.abc import Callable, Collection, Iterable
from typing import Any

import pytest

from trackside.aggregates.search import evolve as search
from trackside.aggregates.search.messages import TrialEnded, TrialSuggested
from trackside.aggregates.search.state import Search, Trial
from trackside.contracts.message import Record
from trackside.dispatcher.service import Dispatcher
from trackside.domain import task_events
from trackside.domain.outcome import Outcome
from trackside.domain.task import Task
from trackside.eventlog import reactor
from trackside.eventlog.decider import Facts
from trackside.eventlog.reactor import Reactor
from trackside.scheduler import decide, hosts, service
from trackside.scheduler.device_commands import PendingCommand, pending_commands
from trackside.scheduler.service import Scheduler
from trackside.simulation import worker as simulated_worker
from trackside.simulation.config import SimulationConfig
from trackside.simulation.run import simulate
from trackside.simulation.worker_state import SharedGpus
from trackside.worker.placements.fencing import CommandAction, FencingTable

pytestmark = pytest.mark.usefixtures("quiet_services")

SEEDS = 40

Mutate = Callable[[pytest.MonkeyPatch], None]


def any_suggestion_counts(patch: pytest.MonkeyPatch) -> None:
    """A proposal doesn't name what it follows: whatever a rival or a zombie suggests is one more trial."""

    def suggested(found: Search, event: TrialSuggested, record: Record) -> Outcome:
        found.trials.append(Trial(event.trial, event.parameters, record.offset, record.append_time_ms))
        found.active.add(event.trial)
        return Outcome.APPLIED

    patch.setattr(search, "_suggested", suggested)


def any_end_of_a_trial_counts(patch: pytest.MonkeyPatch) -> None:
    """An end after an end has an effect."""
    ended = search._trial_ended

    def again(found: Search, tasks: dict[str, Task], event: TrialEnded, record: Record) -> Outcome:
        result = ended(found, tasks, event, record)
        return Outcome.APPLIED if result is Outcome.DUPLICATE else result

    patch.setattr(search, "_trial_ended", again)


def any_placement_counts(patch: pytest.MonkeyPatch) -> None:
    """What is said of an earlier placement or attempt has an effect on the one that holds now."""

    def lax(task: Task, _event: Any) -> bool:
        return task.place is not None

    patch.setattr(task_events, "_is_current", lax)


def commands_are_sent_once(patch: pytest.MonkeyPatch) -> None:
    """`act` isn't level-triggered: a device command that was lost is not sent again."""
    send = Scheduler.act

    def act(self: Scheduler, facts: Facts) -> None:
        sent = self.__dict__.setdefault("_once", set())

        def unsent(*state: object) -> Iterable[PendingCommand]:
            for due in pending_commands(*state):  # type: ignore[arg-type]
                if due.key not in sent:
                    sent.add(due.key)
                    yield due

        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(service, "pending_commands", unsent)
            send(self, facts)

    patch.setattr(Scheduler, "act", act)


def a_lost_worker_s_tasks_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    """Nobody ends the attempts of an incarnation that is no more."""
    patch.setattr(decide, "lost_attempts", lambda *_: ())


def nobody_is_lost(patch: pytest.MonkeyPatch) -> None:
    """Leases never run out: a worker that is paused for long keeps its tasks, and one that died for good."""

    def started_once(self: object, *_: object) -> list[object]:
        return []

    patch.setattr(decide, "lost_workers", started_once)
    patch.setattr(decide, "lost_attempts", lambda *_: ())


def a_worker_obeys_every_command(patch: pytest.MonkeyPatch) -> None:
    """A worker runs what is repeated, late, or meant for another incarnation."""

    def judge(self: FencingTable, command: Any) -> CommandAction:
        return CommandAction.RUN

    patch.setattr(FencingTable, "action_for_run", judge)


def an_unknown_append_is_taken_for_lost(patch: pytest.MonkeyPatch) -> None:
    """After an append of unknown fate nobody folds to the end, and what was decided is never looked at."""

    async def at_once(self: Reactor, place: tuple[str, int], reason: str) -> int:
        return 0

    patch.setattr(Reactor, "_end_of", at_once)
    patch.setattr(Dispatcher, "reconsider", lambda *_: None)
    patch.setattr(Scheduler, "reconsider", lambda *_: None)


def a_worker_forgets_its_journal(patch: pytest.MonkeyPatch) -> None:
    """A worker that begins anew says nothing of what it had."""

    async def nothing(self: object) -> dict[str, int]:
        return {}

    patch.setattr(simulated_worker._Incarnation, "_recover_journal", nothing)
    patch.setattr(decide, "lost_attempts", lambda *_: ())


def a_worker_gives_a_device_to_two(patch: pytest.MonkeyPatch) -> None:
    """A worker doesn't look whether a device is in use."""
    patch.setattr(simulated_worker._Incarnation, "_is_busy", lambda *_: False)


def a_service_names_a_wrong_cause(patch: pytest.MonkeyPatch) -> None:
    """What the reactor writes as the cause of a decision is not what the decision rests on."""
    patch.setattr(reactor, "cause_of", lambda stream, offset: f"{stream}@{offset + 1_000}")


def workers_of_a_host_book_for_themselves(patch: pytest.MonkeyPatch) -> None:
    """Neither the scheduler nor a worker knows of other workers on the host: each gives its GPU away."""
    patch.setattr(hosts, "link_neighbours", lambda _: None)
    patch.setattr(SharedGpus, "is_taken", lambda *_: False)


MUTANTS: Collection[Mutate] = (
    any_suggestion_counts,
    any_end_of_a_trial_counts,
    any_placement_counts,
    commands_are_sent_once,
    a_lost_worker_s_tasks_are_forgotten,
    a_worker_obeys_every_command,
    an_unknown_append_is_taken_for_lost,
    a_worker_forgets_its_journal,
    a_worker_gives_a_device_to_two,
    a_service_names_a_wrong_cause,
)


def is_noticed(number: int, config: SimulationConfig | None = None) -> bool:
    try:
        return bool(simulate(number, config).violations)
    except Exception:  # noqa: BLE001 - a mutant may break whatever looks at it
        return True


@pytest.mark.parametrize("mutate", MUTANTS, ids=lambda mutate: mutate.__name__)
def test_a_rule_removed_is_noticed(mutate: Mutate, monkeypatch: pytest.MonkeyPatch) -> None:
    mutate(monkeypatch)
    assert any(is_noticed(number) for number in range(SEEDS)), f"it survived {SEEDS} seeds"


def test_a_gpu_that_two_workers_give_away_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    shared = SimulationConfig(shared_gpu=True)
    assert not any(is_noticed(number, shared) for number in range(3))
    workers_of_a_host_book_for_themselves(monkeypatch)
    assert any(is_noticed(number, shared) for number in range(SEEDS)), f"it survived {SEEDS} seeds"
