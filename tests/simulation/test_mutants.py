"""The simulator bites: with one rule of the design removed, something must be wrong within so many seeds."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest

from trackside.aggregates.search import evolve as search
from trackside.aggregates.search.messages import TrialSuggested
from trackside.aggregates.search.state import Search, Trial
from trackside.contracts.envelope.message import Record
from trackside.contracts.tasks.tasks import MetricReported
from trackside.dispatcher.service import Dispatcher
from trackside.domain.outcome import Outcome
from trackside.domain.tasks import reports, task_artifacts, task_events, task_instructions, task_reuse
from trackside.domain.tasks.task import Task
from trackside.eventlog.reactor import reactor
from trackside.eventlog.reactor.decider import DecisionContext
from trackside.eventlog.reactor.reactor import Reactor
from trackside.scheduler import decide, service
from trackside.scheduler.hosts import hosts
from trackside.scheduler.sending.device_commands import PendingCommand, pending_commands
from trackside.scheduler.service import Scheduler
from trackside.simulation import worker as simulated_worker
from trackside.simulation.config import SimulationConfig
from trackside.simulation.host.store import SimulatedUploads
from trackside.simulation.host.worker_state import SharedGpus, SpooledArtifact
from trackside.simulation.run import simulate
from trackside.simulation.scenarios.running_scenarios import (
    AskingScenario,
    ServicesScenario,
    TrainingScenario,
)
from trackside.worker.placements.fencing import CommandAction, FencingTable

pytestmark = pytest.mark.usefixtures("quiet_services")

SEEDS = 40

Mutate = Callable[[pytest.MonkeyPatch], None]


def after(honest: Callable[..., Outcome], change: Callable[..., object]) -> Callable[..., Outcome]:
    """Returns a fold of an event that changes the state further wherever the event counts."""

    def lax(*given: Any) -> Outcome:
        outcome = honest(*given)
        if outcome is Outcome.APPLIED:
            change(*given)
        return outcome

    return lax


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

    def again(*given: Any) -> Outcome:
        result = ended(*given)
        return Outcome.APPLIED if result is Outcome.DUPLICATE else result

    patch.setattr(search, "_trial_ended", again)


def any_placement_counts(patch: pytest.MonkeyPatch) -> None:
    """What is said of an earlier placement or attempt has an effect on the one that holds now."""
    patch.setattr(task_events, "_is_current", lambda task, _: task.place is not None)


def commands_are_sent_once(patch: pytest.MonkeyPatch) -> None:
    """`act` isn't level-triggered: a device command that was lost is not sent again."""
    send = Scheduler.act

    def act(self: Scheduler, context: DecisionContext) -> None:
        sent = self.__dict__.setdefault("_once", set())

        def unsent(*state: object) -> Iterable[PendingCommand]:
            for due in pending_commands(*state):  # type: ignore[arg-type]
                if due.key not in sent:
                    sent.add(due.key)
                    yield due

        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(service, "pending_commands", unsent)
            send(self, context)

    patch.setattr(Scheduler, "act", act)


def a_lost_worker_s_tasks_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    """Nobody ends the attempts of an incarnation that is no more."""
    patch.setattr(decide, "lost_attempts", lambda *_: ())


def a_worker_obeys_every_command(patch: pytest.MonkeyPatch) -> None:
    """A worker runs what is repeated, late, or meant for another incarnation."""
    patch.setattr(FencingTable, "action_for_run", lambda *_: CommandAction.RUN)


def an_unknown_append_is_taken_for_lost(patch: pytest.MonkeyPatch) -> None:
    """After an append of unknown fate nobody folds to the end, and what was decided is never looked at."""

    async def at_once(self: Reactor, place: tuple[str, int], reason: str) -> int:
        return 0

    patch.setattr(Reactor, "_end_of", at_once)
    for role in (Dispatcher, Scheduler):
        patch.setattr(role, "reconsider", lambda *_: None)


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


def an_artifact_is_saved_before_the_store_has_it(patch: pytest.MonkeyPatch) -> None:
    """The event goes to the log at once, and the bytes to the store later."""
    add = SimulatedUploads.add

    def early(self: SimulatedUploads, artifact: SpooledArtifact) -> None:
        self.saved(self.placement, artifact)
        add(self, artifact)

    patch.setattr(SimulatedUploads, "add", early)


def a_training_that_resumes_has_no_earlier_reports(patch: pytest.MonkeyPatch) -> None:
    """What was reported before the step that a training resumes at doesn't count."""
    patch.setattr(
        task_artifacts, "resumed", after(task_artifacts.resumed, lambda task, _: task.reports.clear())
    )


def a_placement_has_what_the_one_before_has_said(patch: pytest.MonkeyPatch) -> None:
    """Numbers of artifacts and instructions, and what it resumed from, stay when a task is placed again."""
    patch.setattr(task_artifacts, "begin_placement", lambda _: None)


def a_training_that_begins_anew_drops_earlier_reports(patch: pytest.MonkeyPatch) -> None:
    """One that is lost before it has saved anything takes steps from the one that resumes after it."""
    patch.setattr(reports, "reported", after(reports.reported, lambda task, _: task.earlier.clear()))


def parameters_are_sent_once(patch: pytest.MonkeyPatch) -> None:
    """A task that waits for parameters has got them as soon as the log has them."""

    def assign_as_taken(task: Task, *part_and_parameters: Any) -> None:
        task.part, task.parameters = part_and_parameters
        task.answered = task.taken = task.requested
        task.withheld = task.idle = False

    patch.setattr(task_reuse, "assign_part", assign_as_taken)


def instructions_come_with_new_placements_only(patch: pytest.MonkeyPatch) -> None:
    """A task that runs is sent no instruction."""
    patch.setattr(task_instructions, "is_unacknowledged", lambda _: False)


def reports_of_the_trial_before_count(patch: pytest.MonkeyPatch) -> None:
    """What a task reports is of the trial that it has now, also if it comes late or again."""
    honest = reports.reported

    def lax(task: Task, event: MetricReported) -> Outcome:
        return honest(task, event.model_copy(update={"requests": task.taken}))

    patch.setattr(reports, "reported", lax)


SHARED = SimulationConfig(shared_gpu=True)
TRAINING, SERVING, ASKING = (
    SimulationConfig(scenario=scenario) for scenario in (TrainingScenario, ServicesScenario, AskingScenario)
)
MUTANTS: Mapping[Mutate, SimulationConfig | None] = {
    any_placement_counts: None,
    any_suggestion_counts: None,
    any_end_of_a_trial_counts: None,
    commands_are_sent_once: None,
    a_lost_worker_s_tasks_are_forgotten: None,
    a_worker_obeys_every_command: None,
    an_unknown_append_is_taken_for_lost: None,
    a_worker_forgets_its_journal: None,
    a_worker_gives_a_device_to_two: None,
    a_service_names_a_wrong_cause: None,
    workers_of_a_host_book_for_themselves: SHARED,
    an_artifact_is_saved_before_the_store_has_it: TRAINING,
    a_training_that_resumes_has_no_earlier_reports: TRAINING,
    a_training_that_begins_anew_drops_earlier_reports: SERVING,
    a_placement_has_what_the_one_before_has_said: SERVING,
    instructions_come_with_new_placements_only: SERVING,
    parameters_are_sent_once: ASKING,
}
OFTEN_RUN = (any_placement_counts, an_artifact_is_saved_before_the_store_has_it)


def each_of(mutants: Mapping[Mutate, SimulationConfig | None], often_run: Iterable[Mutate]) -> list[Any]:
    """Returns mutants as parameters, most of them for the long run only."""
    return [
        pytest.param(
            mutate, config, id=mutate.__name__, marks=[] if mutate in often_run else pytest.mark.long
        )
        for mutate, config in mutants.items()
    ]


def is_noticed(number: int, config: SimulationConfig | None = None) -> bool:
    try:
        return bool(simulate(number, config).violations)
    except Exception:  # noqa: BLE001 - a mutant may break whatever looks at it
        return True


@pytest.mark.parametrize(("mutate", "config"), each_of(MUTANTS, OFTEN_RUN))
def test_a_rule_removed_is_noticed(
    mutate: Mutate, config: SimulationConfig | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if config is SHARED:
        assert not any(is_noticed(number, config) for number in range(3))
    mutate(monkeypatch)
    assert any(is_noticed(number, config) for number in range(SEEDS)), f"it survived {SEEDS} seeds"
