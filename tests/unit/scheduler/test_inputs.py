"""Tasks with inputs: what their workers are told, and where they can run."""

from tests.unit.scheduler.harness import SchedulerHarness
from trackside.contracts.device_commands import RunTask
from trackside.contracts.examples import INPUT
from trackside.scheduler.actions import MarkUnschedulable
from trackside.scheduler.device_commands import pending_commands

OTHER = INPUT.model_copy(update={"credential": "models"})


def test_a_worker_is_told_the_inputs_of_a_task() -> None:
    harness = SchedulerHarness()
    harness.join_worker(cpus=1, credentials=("datasets",))
    harness.submit("a", inputs={"digits": INPUT})
    assert harness.assignments() == [("a", "w1/cpu-0")]
    (pending,) = pending_commands(harness.cluster, harness.fleet)
    command = pending.build()
    assert isinstance(command, RunTask)
    assert command.inputs == {"digits": INPUT}


def test_a_task_runs_where_the_host_has_the_credentials_of_its_inputs() -> None:
    harness = SchedulerHarness()
    harness.join_worker("w1", cpus=4)
    harness.join_worker("w2", cpus=1, credentials=("datasets", "models"))
    harness.submit("a", inputs={"digits": INPUT, "model": OTHER})
    harness.submit("b", inputs={"plain": INPUT.model_copy(update={"credential": None})})
    assert sorted(harness.assignments()) == [("a", "w2/cpu-0"), ("b", "w1/cpu-0")]


def test_a_task_whose_credential_no_host_has_waits_and_says_which_one_until_a_worker_has_it() -> None:
    harness = SchedulerHarness()
    harness.join_worker("w1", cpus=1, credentials=("datasets",))
    harness.submit("a", inputs={"digits": INPUT, "model": OTHER})
    assert harness.assignments() == []
    (marked,) = [action for action in harness.actions if isinstance(action, MarkUnschedulable)]
    assert "need the credentials datasets, models" in marked.message
    assert "no worker's host has the credential 'models'" in marked.message
    assert "TRACKSIDE_CREDENTIALS" in marked.message
    harness.join_worker("w2", cpus=1, credentials=("datasets", "models"))
    assert harness.assignments() == [("a", "w2/cpu-0")]
