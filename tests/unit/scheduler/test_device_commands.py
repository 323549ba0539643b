"""Which commands devices must get, until events answer them."""

from typing import Any

import pytest

from tests.unit.domain import given
from tests.unit.domain.test_resume import checkpointed
from tests.unit.domain.test_task_reuse import asked, goes_on, one_running, taken, within
from tests.unit.scheduler.given import cluster_of, fleet_of, worker
from trackside.contracts.envelope.message import Message
from trackside.contracts.envelope.parts import Part
from trackside.contracts.fleet.fleet import RunningPlacement, WorkerLeft
from trackside.contracts.tasks.device_commands import NextParameters, RunTask, StopTask
from trackside.contracts.tasks.tasks import AttemptEnd, TaskStopRequested
from trackside.domain.fleet.fleet import Fleet
from trackside.scheduler.sending.device_commands import DeviceMessage, commands_for_orphans, pending_commands


def messages_for(told: given.Told, fleet_state: Fleet) -> list[DeviceMessage]:
    return [command.build() for command in pending_commands(cluster_of(told), fleet_state)]


def test_a_device_is_owed_its_task_until_the_worker_has_answered() -> None:
    told, fleet_state = given.task_queued(), fleet_of(worker())
    assert messages_for(told, fleet_state) == []
    told.tell(given.assigned())
    (command,) = pending_commands(cluster_of(told), fleet_state)
    assert (command.worker_id, command.device_id) == ("w1", "cpu-0")
    assert command.key == ("RunTask", given.task_id(0), 1, 1)
    more = {"device_ids": ["cpu-0"], "interrupts": 2, "part": Part(kind="trial", number=0)}
    fields = {**given.token(), "task_type": "digits", "parameters": {"lr": 0.0}, **more}
    run = RunTask(stream=given.STREAM, **fields)
    assert command.build() == run
    told.tell(given.begun())
    assert messages_for(told, fleet_state) == []


@pytest.mark.parametrize("answer", [[within(1), goes_on(1)], [within(1)]], ids=["now", "of an older release"])
def test_a_task_that_asked_is_owed_its_parameters_until_it_has_taken_them(answer: list[Message]) -> None:
    told, fleet_state = one_running(), fleet_of(worker())
    told.tell(asked())
    cluster = cluster_of(told)
    assert list(pending_commands(cluster, fleet_state)) == []
    told.tell(given.over(0, 0.5))
    told.tell(*answer)
    if len(answer) > 1:
        cluster.update(given.STREAM, told.task())
    (command,) = pending_commands(cluster, fleet_state)
    token = given.token()
    assert command.build() == NextParameters(
        stream=given.STREAM, **token, request=1, parameters={"lr": 0.125}
    )
    assert command.follows == told.task().changed_at == told.next_offset - 1
    told.tell(taken())
    cluster.update(given.STREAM, told.task())
    assert list(pending_commands(cluster, fleet_state)) == []


def test_a_device_is_owed_a_stop_and_no_start_until_the_attempt_has_ended() -> None:
    told, fleet_state = given.task_active(), fleet_of(worker())
    told.tell(TaskStopRequested(task_id=given.task_id(0), reason="assessor"))
    stop = StopTask(stream=given.STREAM, **given.token(), reason="assessor")
    assert messages_for(told, fleet_state) == [stop]
    told.tell(given.ended(AttemptEnd.CANCELLED))
    assert messages_for(told, fleet_state) == []
    told, fleet_state = given.task_queued(), fleet_of(worker())
    told.tell(given.assigned())
    told.tell(TaskStopRequested(task_id=given.task_id(0), reason="user"))
    assert [type(command) for command in messages_for(told, fleet_state)] == [StopTask]


def test_nothing_is_owed_to_a_worker_that_is_not_there() -> None:
    told = given.task_queued()
    told.tell(given.assigned())
    assert messages_for(told, fleet_of(worker("w1", "i-2"))) == []
    assert messages_for(told, fleet_of(worker(), WorkerLeft(worker_id="w1", incarnation="i-1"))) == []


def test_what_runs_although_the_log_has_moved_on_is_stopped() -> None:
    token = {"task_id": given.task_id(1), "attempt": 1, "placement": 1}
    orphan = RunningPlacement(stream=given.STREAM, **token, device_ids=["cpu-0"])
    (command,) = commands_for_orphans([orphan], "w1", "i-1")
    assert (command.worker_id, command.device_id) == ("w1", "cpu-0")
    assert command.build() == StopTask(stream=given.STREAM, **given.token(1), reason="stray")


def test_a_later_attempt_is_told_of_the_checkpoints_and_artifacts_of_those_before() -> None:
    told, fleet_state = given.task_active(), fleet_of(worker())
    told.tell(checkpointed(1))
    told.tell(checkpointed(2, number=2, version=2))
    told.tell(checkpointed(0, number=3).model_copy(update={"kind": "file", "name": "notes", "step": None}))
    told.tell(given.ended(AttemptEnd.LOST), role="scheduler")
    told.tell(given.assigned(attempt=2))
    (run,) = messages_for(told, fleet_state)
    assert isinstance(run, RunTask)
    assert ([each.step for each in run.checkpoints], run.saved) == ([2, 1], {"notes": 1, "checkpoint": 2})


def test_a_task_is_asked_for_a_checkpoint_before_it_makes_room() -> None:
    for resumes, seconds in ((True, 12.0), (False, 0.0)):
        told, fleet_state = given.task_active(resume=resumes, checkpoint_grace_s=12.0), fleet_of(worker())
        told.tell(given.preemption())
        (stop,) = messages_for(told, fleet_state)
        said: Any = {"reason": "makes room for a task of higher priority", "end": "preempted"}
        assert stop == StopTask(stream=given.STREAM, **given.token(), **said, checkpoint_s=seconds)
