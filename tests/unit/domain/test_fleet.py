"""Which workers are there: the newest incarnation of each, until it has left or is lost."""

from typing import Any

import pytest

from tests.unit.domain.given import FIRST_MS, record_of
from trackside.contracts.envelope.message import Message
from trackside.contracts.fleet.fleet import (
    CatalogueChanged,
    Device,
    SchedulerHeartbeat,
    WorkerHeartbeat,
    WorkerJoined,
    WorkerLeft,
    WorkerLost,
)
from trackside.domain.fleet import fleet
from trackside.domain.fleet.fleet import Fleet
from trackside.domain.outcome import Outcome

CPU = Device(device_id="cpu-0", kind="cpu", name="slot", memory_bytes=1)


def joined(
    incarnation: str = "i-1",
    worker: str = "w1",
    after: dict[str, int] | None = None,
    task_type: str = "digits",
    **more: Any,
) -> WorkerJoined:
    runs = {"host": "node", "devices": [CPU], "task_types": [task_type], "queues": ["default"]}
    return WorkerJoined(worker_id=worker, incarnation=incarnation, after=after or {}, **{**runs, **more})


def left(incarnation: str = "i-1", worker: str = "w1") -> WorkerLeft:
    return WorkerLeft(worker_id=worker, incarnation=incarnation)


def lost(incarnation: str = "i-1", worker: str = "w1") -> WorkerLost:
    return WorkerLost(worker_id=worker, incarnation=incarnation, silent_ms=10_001)


def told(*messages: Message) -> tuple[Fleet, list[Outcome]]:
    state = Fleet()
    outcomes = [
        fleet.evolve(state, record_of(message, offset, stream="w1", partition=0))
        for offset, message in enumerate(messages)
    ]
    return state, outcomes


def test_an_incarnation_joins_once_and_the_next_one_is_a_new_one() -> None:
    state, outcomes = told(joined(), joined("i-2", "w2", task_type="faces"), joined(task_type="other"))
    assert outcomes == [Outcome.APPLIED, Outcome.APPLIED, Outcome.DUPLICATE]
    assert state.task_types == {"digits", "faces"} and state.workers["w1"].joined_ms == FIRST_MS
    for events in ((joined(), joined("i-2")), (joined(), lost(), joined("i-2"))):
        state, outcomes = told(*events)
        assert outcomes[-1] is Outcome.APPLIED
        assert (state.current("w1", "i-1"), state.current("w1", "i-2")) == (False, True)
        assert (state.knows("i-1"), state.knows("i-3")) == (True, False)


@pytest.mark.parametrize("gone", [left, lost])
def test_a_worker_goes_once_and_stays_known(gone: type) -> None:
    state, outcomes = told(joined(), gone(), left(), lost())
    assert outcomes == [Outcome.APPLIED, Outcome.APPLIED, Outcome.DUPLICATE, Outcome.DUPLICATE]
    worker = state.workers["w1"]
    assert (worker.gone, worker.gone_ms) == ("left" if gone is left else "lost", FIRST_MS + 1)
    assert not state.current("w1", "i-1")
    assert state.knows("i-1")
    assert state.task_types == {"digits"}, "a catalogue outlives its worker: the next start may run the task"


def test_only_the_incarnation_that_is_there_goes() -> None:
    state, outcomes = told(joined(), joined("i-2"), lost("i-1"), left("i-1"), lost("i-9"))
    assert outcomes[2:] == [Outcome.OVERTAKEN] * 3
    assert state.current("w1", "i-2")
    beat = WorkerHeartbeat(worker_id="w1", incarnation="i-1", running=[])
    _, outcomes = told(lost(), left(), beat, SchedulerHeartbeat(instance="1"))
    assert outcomes == [Outcome.OVERTAKEN] * 4, "it never joined, and signs of life are no part of the fleet"


def test_only_who_may_say_it_is_believed() -> None:
    wrong = ((joined(), "scheduler"), (left(), "scheduler"), (lost(), "worker"), (joined(), "x/y"))
    for message, role in (*wrong, (lost(), "dispatcher")):
        state, _ = told(joined("i-0"), joined())
        before = dict(state.workers)
        assert fleet.evolve(state, record_of(message, 5, role)) is Outcome.OVERTAKEN
        assert (state.workers, state.position) == (before, 6)


def test_a_partition_that_is_no_number_is_left_out() -> None:
    for partition in ("", "x", "-1", "²", "٣", "9" * 5_000, "1.0"):
        state, outcomes = told(joined(after={partition: 3, "4": 9}))
        assert (outcomes, state.workers["w1"].after) == ([Outcome.APPLIED], {4: 9})


def changed() -> CatalogueChanged:
    types = {"task_types": ["digits", "fit"], "max_memory_bytes": {"fit": 5}}
    return CatalogueChanged.model_validate({"worker_id": "w1", "incarnation": "i-1", **types})


def test_a_worker_that_read_its_catalogue_again_runs_other_types_and_stays_the_same_otherwise() -> None:
    before, _ = told(joined(max_memory_bytes={"digits": 9}))
    after, outcomes = told(joined(max_memory_bytes={"digits": 9}), changed())
    assert outcomes[-1] is Outcome.APPLIED
    assert ({*after.task_types}, after.workers["w1"].max_memory_bytes) == ({"digits", "fit"}, {"fit": 5})
    assert after.workers["w1"].devices == before.workers["w1"].devices
    assert after.current("w1", "i-1")
    for over in ((joined(), joined("i-2")), (joined(), left()), ()):
        assert told(*over, changed())[1][-1] is Outcome.OVERTAKEN, "this incarnation is not there"
