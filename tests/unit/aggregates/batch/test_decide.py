"""Tasks that are submitted on their own: one group after another, at most so many at a time, stopped."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.unit.aggregates.given import (
    CAPABILITIES,
    answered,
    end_attempt,
    of_kind,
    place,
    problems,
    published,
    react,
    refusal,
    the,
)
from tests.unit.domain.given import STREAM, Told, search_running
from trackside.aggregates.batch import messages
from trackside.aggregates.batch.decide import MOST_TASKS
from trackside.aggregates.batch.state import Batch, batch_of
from trackside.contracts.envelope.message import Event, Json
from trackside.contracts.envelope.parts import Part
from trackside.contracts.streams.commands import CommandAccepted, CommandRefused
from trackside.contracts.tasks.tasks import AttemptEnd, TaskStopRequested, TaskSubmitted
from trackside.domain.fleet.capabilities import Capabilities
from trackside.domain.tasks.task import Task, TaskState

SUBMIT, STOP = messages.SubmitTasks.wire_type(), messages.StopTasks.wire_type()


def tasks(*names: str, **more: Any) -> list[Json]:
    return [{"name": name, "task_type": "digits", **more} for name in names]


def body(*groups: list[Json], **more: Any) -> Json:
    return {"groups": [{"tasks": listed} for listed in groups], **more}


def begun(*groups: list[Json], **more: Any) -> Told:
    told = Told()
    assert isinstance(answered(told, published(1, SUBMIT, body(*groups, **more)))[-1], messages.BatchStarted)
    return told


def batch(told: Told) -> Batch:
    found = batch_of(told.stream)
    assert found is not None
    return found


def submitted(events: list[Event]) -> list[str]:
    assert all(isinstance(event, TaskSubmitted) for event in events)
    return [event.task_id for event in events if isinstance(event, TaskSubmitted)]


def finish(told: Told, task_id: str, end: AttemptEnd = AttemptEnd.FINISHED) -> None:
    end_attempt(told, place(told, task_id), end)
    assert told.stream.tasks[task_id].state is TaskState.ENDED


def test_t20_groups_run_strictly_one_after_another() -> None:
    told = begun(tasks("a", "b"), tasks("a", "c"))
    assert submitted(react(told)) == [f"{STREAM}.1.a", f"{STREAM}.1.b"]
    finish(told, f"{STREAM}.1.b")
    assert react(told) == []
    finish(told, f"{STREAM}.1.a", AttemptEnd.FAILED)
    assert react(told) == [messages.GroupEnded(group=0, ends={"failed": 1, "finished": 1})]
    assert submitted(react(told)) == [f"{STREAM}.2.a", f"{STREAM}.2.c"]
    finish(told, f"{STREAM}.2.a")
    finish(told, f"{STREAM}.2.c")
    assert react(told) == [messages.GroupEnded(group=1, ends={"finished": 2})]
    assert (react(told), react(told)) == ([messages.BatchEnded(status=messages.BatchStatus.DONE)], [])


def test_t20_tasks_without_a_name_are_called_by_their_number() -> None:
    events = of_kind(TaskSubmitted, react(begun([{"task_type": "digits"}, {"task_type": "faces"}])))
    assert [event.task_id for event in events] == [f"{STREAM}.1.1", f"{STREAM}.1.2"]
    assert [event.part for event in events] == [Part(kind="group", number=0, name=name) for name in "12"]


def test_t20_two_tasks_of_a_group_with_one_name_are_refused_and_of_two_groups_are_not() -> None:
    events = answered(Told(), published(1, SUBMIT, body(tasks("b"), tasks("a", "a"))))
    assert refusal(events) == ("duplicate_task", "$.groups[1]", 1)
    begun(tasks("a"), tasks("a"))
    many = [{"task_type": "digits", "retry": {"lost": 1}}] * 9_000
    events = answered(Told(), published(1, SUBMIT, body(many)))
    assert refusal(events)[:2] == ("too_long", "$.groups"), "it grows too large with its defaults"


def test_t17_a_task_that_wants_a_processor_takes_no_estimate_for_a_gpu() -> None:
    groups = [{"tasks": tasks("a", resources={"kind": "cpu"}), "estimate_cuda_memory": 7}]
    told, of_batch = Told(), {"estimate_memory": "5GB", "estimate_cuda_memory": "6GB"}
    answered(told, published(1, SUBMIT, {"groups": groups, "resources": of_batch}))
    found = the(TaskSubmitted, react(told)).needs.resources
    assert (found.estimate_memory, found.estimate_cuda_memory) == (5 * 10**9, None)


def test_a_fixed_device_of_a_batch_or_a_group_is_refused_with_those_there_are() -> None:
    for more, path in (
        ({"resources": {"device": "cuda:9"}}, "$.resources.device"),
        ({"groups": [{"device": "cuda:9", "tasks": tasks("a")}]}, "$.groups[0].device"),
    ):
        names = tuple(f"w{number}/cpu-0" for number in range(100))
        many = Capabilities(frozenset({"digits"}), names, frozenset(names))
        for fleet, said in ((CAPABILITIES, "there are: w1/cpu-0, w1/gpu-1"), (many, "and 80 more")):
            told = answered(Told(), published(1, SUBMIT, {**body(tasks("a")), **more}), fleet)
            event = the(CommandRefused, told)
            assert (event.code, event.path) == ("unknown_device", path)
            assert event.message.endswith(said)


def test_a_refusal_of_a_batch_lists_every_task_type_and_device_up_to_a_hundred() -> None:
    told = Told()
    groups = [tasks("a", resources={"device": "w2/cpu-0"}), [{"task_type": "digits"}, {"task_type": "nope"}]]
    assert problems(answered(told, published(1, SUBMIT, body(*groups, resources={"device": "gpu-9"})))) == [
        ("unknown_device", "$.resources.device"),
        ("unknown_device", "$.groups[0].tasks[0].resources.device"),
        ("unknown_task_type", "$.groups[1].tasks[1].task_type"),
    ]
    assert batch_of(told.stream) is None
    many = answered(Told(), published(1, SUBMIT, body([{"task_type": "nope"}] * 150)))
    assert len(problems(many)) == 100


def test_a_stream_has_one_search_or_one_batch() -> None:
    told = begun(tasks("a"))
    again = answered(told, published(2, SUBMIT, body(tasks("a"))))
    assert refusal(again)[0] == "already_exists"
    assert refusal(answered(told, published(3)))[0] == "already_exists"
    told = search_running()
    assert refusal(answered(told, published(2, SUBMIT, body(tasks("a")))))[0] == "already_exists"
    event = the(CommandRefused, answered(told, published(3, STOP, {})))
    assert "it is of kind search" in event.message


def test_a_stopped_batch_ends_its_tasks_then_itself() -> None:
    told = begun(tasks("a", "b"), tasks("c"))
    react(told)
    token = place(told, f"{STREAM}.1.a")
    events = answered(told, published(2, STOP, {"reason": "enough"}))
    assert events[1:] == [messages.BatchStopRequested(command_id="c-2", reason="enough")]
    stops = [TaskStopRequested(task_id=f"{STREAM}.1.{name}", reason="user") for name in "ab"]
    assert (react(told), react(told)) == (stops, [])
    assert [type(event) for event in answered(told, published(3, STOP, {}))] == [CommandAccepted]
    end_attempt(told, token, AttemptEnd.CANCELLED)
    assert react(told) == [messages.BatchEnded(status=messages.BatchStatus.STOPPED)]
    assert batch(told).ends == {"cancelled": 2}
    event = the(CommandRefused, answered(told, published(4, STOP, {})))
    assert (event.code, "STOPPED" in event.message) == ("already_terminal", True)
    told = begun(tasks("a"))
    react(told)
    finish(told, f"{STREAM}.1.a")
    react(told)
    answered(told, published(2, STOP, {}))
    assert react(told) == [messages.BatchEnded(status=messages.BatchStatus.DONE)], "all was over before"


@pytest.mark.parametrize("name", ["a", f"{STREAM}.1.a"])
def test_one_task_is_stopped_by_its_name_or_its_id_and_the_batch_goes_on(name: str) -> None:
    told = begun(tasks("a", "b"))
    react(told)
    events = answered(told, published(2, STOP, {"task": name}))
    assert events[1:] == [TaskStopRequested(task_id=f"{STREAM}.1.a", reason="user")]
    assert batch(told).status is messages.BatchStatus.RUNNING
    assert batch(told).open == {f"{STREAM}.1.b"}
    event = the(CommandRefused, answered(told, published(3, STOP, {"task": name})))
    assert (event.code, event.path) == ("already_terminal", "$.task")
    assert event.message.endswith("is over: cancelled")


def test_a_task_is_stopped_once_and_is_that_of_the_group_that_runs() -> None:
    told = begun(tasks("a"), tasks("a"))
    react(told)
    finish(told, f"{STREAM}.1.a")
    react(told)
    react(told)
    place(told, f"{STREAM}.2.a")
    events = answered(told, published(2, STOP, {"task": "a"}))
    assert events[1:] == [TaskStopRequested(task_id=f"{STREAM}.2.a", reason="user")]
    assert [type(event) for event in answered(told, published(3, STOP, {"task": "a"}))] == [CommandAccepted]


@pytest.mark.parametrize(("name", "said"), [("aa", "did you mean 'a'"), ("later", "has not had its turn")])
def test_a_task_that_is_not_there_cannot_be_stopped(name: str, said: str) -> None:
    told = begun(tasks("a"), tasks("later"))
    react(told)
    event = the(CommandRefused, answered(told, published(2, STOP, {"task": name})))
    assert (event.code, event.path) == ("unknown_task", "$.task")
    assert said in event.message


@pytest.mark.thorough
def test_a_batch_of_ten_thousand_tasks_is_submitted_and_stopped_in_decisions_of_a_hundred() -> None:
    told = begun([{"task_type": "digits"}] * messages.MAX_TASKS)
    sizes = [len(events) for events in iter(lambda: react(told), [])]
    assert sizes == [MOST_TASKS] * (messages.MAX_TASKS // MOST_TASKS)
    answered(told, published(2, STOP, {}))
    events = [event for listed in iter(lambda: react(told), []) for event in listed]
    assert len(events) == messages.MAX_TASKS + 1
    assert events[-1] == messages.BatchEnded(status=messages.BatchStatus.STOPPED)


class Unwalked(dict[str, Task]):
    """Tasks that may be looked up one by one, and never gone through."""

    def __iter__(self) -> Iterator[str]:
        raise AssertionError("all tasks are gone through")

    items = keys = values = __iter__  # type: ignore[assignment]


class UnwalkedNames(set[str]):
    """Names that may be counted and looked up, and never gone through."""

    def __iter__(self) -> Iterator[str]:
        raise AssertionError("all open tasks are gone through")


def test_what_a_batch_lacks_is_found_without_a_look_at_all_its_tasks() -> None:
    told = begun(tasks("a", "b", "c", "d"), tasks("e"), concurrency=3)
    assert submitted(react(told)) == [f"{STREAM}.1.{name}" for name in "abc"]
    told.stream.tasks = Unwalked(told.stream.tasks)
    batch(told).open = UnwalkedNames(batch(told).open)
    assert react(told) == []
    finish(told, f"{STREAM}.1.a")
    assert submitted(react(told)) == [f"{STREAM}.1.d"]
    for name in "bcd":
        assert react(told) == []
        finish(told, f"{STREAM}.1.{name}")
    assert react(told) == [messages.GroupEnded(group=0, ends={"finished": 4})]
    assert submitted(react(told)) == [f"{STREAM}.2.e"]
