"""Services and tasks without devices: what they take, to whom they give way, and what is sent to them."""

from typing import Any

from tests.unit.scheduler.given import policy
from tests.unit.scheduler.harness import SchedulerHarness, one_worker
from trackside.contracts.tasks.device_commands import GiveInstruction, RunTask
from trackside.contracts.tasks.instructions import InstructionAcknowledged, InstructionGiven
from trackside.contracts.tasks.tasks import AttemptEnd, TaskStatus
from trackside.domain.outcome import Outcome

SERVICE: dict[str, Any] = {"service": {}}


def with_service(cpus: int = 1, **needs: object) -> SchedulerHarness:
    """Returns a worker whose first slot has a service `s0` that trains."""
    harness = one_worker(policy(look_ahead=1), cpus=cpus)
    harness.begin("s0", needs=SERVICE | needs)
    return harness


def instruct(harness: SchedulerHarness, task_id: str, number: int = 1) -> None:
    given = InstructionGiven(command_id=f"i-{number}", task_id=task_id, number=number, body={"n": number})
    assert harness.fold(given) is Outcome.APPLIED


def test_neither_a_service_nor_a_task_that_may_not_gives_way_to_a_priority() -> None:
    harness = with_service(priority=0)
    assert harness.place("a", needs={"priority": 9, "preempt": True}) == []
    harness = with_service(priority=0, preemptible=True)
    harness.place("a", needs={"priority": 9, "preempt": True})
    assert harness.preempted() == [("s0", "a")]
    harness = one_worker(cpus=2)
    harness.submit("a", needs={"priority": 1, "preemptible": False})
    harness.place("b", needs={"priority": 2})
    harness.accept("a")
    harness.accept("b")
    harness.place("c", needs={"priority": 9, "preempt": True})
    assert harness.preempted() == [("b", "c")]


def test_no_task_waits_behind_a_service_nor_for_its_memory_but_a_service_behind_a_task() -> None:
    harness = with_service(cpus=2)
    harness.begin("t0")
    harness.submit_each("ab")
    harness.run_pass()
    assert harness.placed_behind() == [("a", "w1/cpu-1")]
    harness = one_worker(policy(look_ahead=1), cpus=1)
    harness.begin("t0")
    harness.place("s0", needs=SERVICE)
    assert harness.placed_behind() == [("s0", "w1/cpu-0")]
    harness = one_worker(policy(look_ahead=1), gpus=(80,))
    harness.begin("s0", cuda=50, needs=SERVICE)
    harness.begin("t0", cuda=10)
    assert harness.place("a", cuda=40) == []


def test_the_place_of_a_starving_task_is_reserved_where_tasks_end() -> None:
    harness = one_worker(policy(look_ahead=0), cpus=3)
    harness.begin("s0", needs=SERVICE)
    harness.begin("t0")
    harness.begin("t1")
    harness.submit("big", devices=2)
    for number in range(2, 6):
        harness.submit(f"t{number}")
        harness.end(f"t{number - 2}")
        harness.run_pass(after_s=40)
        if harness.task(f"t{number}").place is None:
            break
        harness.accept(f"t{number}", TaskStatus.TRAINING)
    left = [f"t{at}" for at in range(6) if at <= number and harness.task(f"t{at}").place is not None]
    for name in left:
        harness.end(name)
    assert ("big", "w1/cpu-1+cpu-2") in harness.assignments(after_s=1)


def test_a_task_without_devices_runs_next_to_full_slots_where_its_memory_is_free() -> None:
    harness = one_worker(cpus=1, memory=16)
    harness.submit("t0", memory=1)
    assert harness.assign("s0", memory=2, devices=0, needs=SERVICE) == [("t0", "w1/cpu-0"), ("s0", "w1/")]
    (host,) = harness.cluster.hosts.open
    assert host.used_bytes == 3 * 1024**3
    harness.end("t0")
    assert harness.assign("t1", memory=1) == [("t1", "w1/cpu-0")]
    harness = one_worker(cpus=1, memory=4)
    harness.join_worker("w2", cpus=1, memory=16)
    assert harness.assign("s0", memory=6, devices=0, needs=SERVICE) == [("s0", "w2/")]
    assert harness.assign("s1", memory=12, devices=0, needs=SERVICE) == []
    harness.end("s0", AttemptEnd.FAILED)
    assert harness.assignments() == [("s1", "w2/")]
    harness = one_worker(cpus=1, memory=4)
    harness.place("s0", memory=6, devices=0, needs=SERVICE)
    assert "on one host, the largest has" in harness.unschedulable()["s0"]
    harness = one_worker(cpus=1)
    harness.place("s0", devices=0, needs=SERVICE)
    (command,) = harness.pending()
    assert (command.worker_id, command.device_id) == ("w1", "host")


def test_a_worker_that_refused_a_task_without_devices_is_avoided_for_a_second() -> None:
    harness = one_worker(cpus=1)
    harness.place("s0", devices=0, needs=SERVICE)
    harness.refuse("s0", "too_many_tasks")
    harness.cluster.hosts.avoid("w1", [], None, harness.now_ms + 1_000)
    assert harness.assignments(after_s=0.5) == []
    assert harness.assign("t0") == [("t0", "w1/cpu-0")]
    assert harness.assignments(after_s=0.6) == [("s0", "w1/")]


def test_the_newest_instruction_is_sent_until_it_is_acknowledged_and_a_new_placement_starts_with_it() -> None:
    harness = with_service()
    assert harness.pending() == []
    instruct(harness, "s0", 1)
    instruct(harness, "s0", 2)
    (command,) = harness.pending()
    assert (command.device_id, command.key[0]) == ("cpu-0", "GiveInstruction 2")
    message = command.build()
    assert isinstance(message, GiveInstruction) and message.instruction.body == {"n": 2}
    said = InstructionAcknowledged(**harness.placement_fields("s0"), number=2, ok=True)
    assert harness.fold(said) is Outcome.APPLIED
    assert harness.pending() == []
    harness.end("s0", AttemptEnd.FAILED)
    harness.run_pass(after_s=12)
    (command,) = harness.pending()
    run = command.build()
    assert isinstance(run, RunTask) and run.service
    assert run.instruction is not None and run.instruction.number == 2
    harness.accept("s0")
    (command,) = harness.pending()
    assert isinstance(command.build(), GiveInstruction)
