"""The simulator bites: rules of what running tasks save, continue from and acknowledge, removed."""

from typing import Any

import pytest

from tests.simulation.test_mutants import SEEDS, Mutate, is_noticed
from trackside.contracts.artifacts import TaskResumed
from trackside.contracts.parts import Part
from trackside.contracts.tasks import MetricReported
from trackside.domain import reports, task_artifacts, task_instructions, task_reuse
from trackside.domain.outcome import Outcome
from trackside.domain.task import Task
from trackside.simulation.config import SimulationConfig
from trackside.simulation.running_scenarios import AskingScenario, ServicesScenario, TrainingScenario
from trackside.simulation.scenarios import StreamScenario
from trackside.simulation.store import SimulatedUploads
from trackside.simulation.worker_state import SpooledArtifact

pytestmark = pytest.mark.usefixtures("quiet_services")


def an_artifact_is_saved_before_the_store_has_it(patch: pytest.MonkeyPatch) -> None:
    """The event goes to the log at once, and the bytes to the store later."""
    add = SimulatedUploads.add

    def early(self: SimulatedUploads, artifact: SpooledArtifact) -> None:
        self.saved(self.placement, artifact)
        add(self, artifact)

    patch.setattr(SimulatedUploads, "add", early)


def a_training_that_resumes_has_no_earlier_reports(patch: pytest.MonkeyPatch) -> None:
    """What was reported before the step that a training resumes at doesn't count."""
    honest = task_artifacts.resumed

    def lax(task: Task, event: TaskResumed) -> Outcome:
        outcome = honest(task, event)
        if outcome is Outcome.APPLIED:
            task.reports = []
        return outcome

    patch.setattr(task_artifacts, "resumed", lax)


def a_placement_has_what_the_one_before_has_said(patch: pytest.MonkeyPatch) -> None:
    """Numbers of artifacts and instructions, and what it resumed from, stay when a task is placed again."""
    patch.setattr(task_artifacts, "begin_placement", lambda _: None)


def a_training_that_begins_anew_drops_earlier_reports(patch: pytest.MonkeyPatch) -> None:
    """One that is lost before it has saved anything takes steps from the one that resumes after it."""
    honest = reports.reported

    def lax(task: Task, event: MetricReported) -> Outcome:
        outcome = honest(task, event)
        if outcome is Outcome.APPLIED:
            task.earlier.clear()
        return outcome

    patch.setattr(reports, "reported", lax)


def parameters_are_sent_once(patch: pytest.MonkeyPatch) -> None:
    """A task that waits for parameters has got them as soon as the log has them."""
    patch.setattr(task_reuse, "assign_part", _assign_as_taken)


def _assign_as_taken(task: Task, part: Part, parameters: dict[str, Any]) -> None:
    task.part, task.parameters = part, parameters
    task.answered = task.taken = task.requested
    task.withheld = task.idle = False


def instructions_come_with_new_placements_only(patch: pytest.MonkeyPatch) -> None:
    """A task that runs is sent no instruction."""
    patch.setattr(task_instructions, "is_unacknowledged", lambda _: False)


@pytest.mark.parametrize(
    ("mutate", "scenario"),
    [
        (an_artifact_is_saved_before_the_store_has_it, TrainingScenario),
        (a_training_that_resumes_has_no_earlier_reports, TrainingScenario),
        (a_training_that_begins_anew_drops_earlier_reports, ServicesScenario),
        (a_placement_has_what_the_one_before_has_said, ServicesScenario),
        (instructions_come_with_new_placements_only, ServicesScenario),
        (parameters_are_sent_once, AskingScenario),
    ],
    ids=lambda given: given.__name__,
)
def test_a_rule_of_running_tasks_removed_is_noticed(
    mutate: Mutate, scenario: type[StreamScenario], monkeypatch: pytest.MonkeyPatch
) -> None:
    mutate(monkeypatch)
    config = SimulationConfig(scenario=scenario)
    assert any(is_noticed(number, config) for number in range(SEEDS)), f"it survived {SEEDS} seeds"
