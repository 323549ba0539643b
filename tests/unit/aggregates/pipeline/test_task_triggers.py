"""Schedules that wait for tasks: their ends, their artifacts, and values of their metrics (P41)."""

from typing import Any

import pytest

from tests.unit.aggregates.given import problems
from tests.unit.aggregates.pipeline.given import ask, define, do, end, pipeline
from tests.unit.aggregates.pipeline.test_triggers import NAME, fired, look, run_of_schedules
from tests.unit.domain import given
from tests.unit.domain.given import STREAM as PIPELINE
from tests.unit.domain.given import ended as attempt_ended
from trackside.aggregates.pipeline.messages import RunNumbered
from trackside.aggregates.pipeline.schedule.schedule_messages import (
    CreateSchedule,
    PauseSchedule,
    ResumeSchedule,
    ScheduleFired,
    ScheduleWatched,
)
from trackside.aggregates.registry import AGGREGATES
from trackside.aggregates.search.messages import SearchEnded, SearchStatus, TrialStatus
from trackside.contracts.envelope.message import Event, Json, Message
from trackside.contracts.streams.watches import TasksWatched, TaskWatch
from trackside.contracts.tasks.artifacts import ArtifactSaved
from trackside.contracts.tasks.tasks import AttemptEnd, MetricReported, TaskContinued
from trackside.dispatcher.watchers import Watchers
from trackside.domain.folding.streams import load, pack
from trackside.domain.outcome import Outcome
from trackside.domain.streams.stream import shrink
from trackside.domain.streams.watches import KEPT_MATCHES, MAX_WATCHES, note
from trackside.domain.tasks.task_events import task_of

SEARCH = "search-1"


def spec(event: str, **more: Any) -> Json:
    on = {name: more.pop(name) for name in ("task", "of", "kind", "above", "below") if name in more}
    return {"on": {"stream": SEARCH, "event": event, **on}, "overlap": "allow", **more}


def waiting(event: str, **more: Any) -> given.Told:
    told = define(parameters={"seed": {"default": 7}})
    do(told, CreateSchedule, {"name": NAME, "schedule": spec(event, **more)})
    return told


def task_id(trial: int) -> str:
    return f"{SEARCH}.{trial}"


def of_search(event: Message) -> Message:
    task = task_of(event)
    return event.model_copy(update={"task_id": task.replace(PIPELINE, SEARCH)}) if task else event


def tell(told: given.Told, *events: Message) -> int:
    """Appends events of the search, and forgets what a dispatcher forgets; returns the last offset."""
    for event in events:
        assert told.tell(of_search(event), stream=SEARCH) == [Outcome.APPLIED]
        shrink(told.streams.by_id[SEARCH])
    return told.next_offset - 1


def write_watches(told: given.Told) -> list[Event]:
    lacking = Watchers(told.streams).lacking(told.streams.by_id[SEARCH])
    found = [event for each in lacking for event in each.events]
    tell(told, *found)
    return found


def begin(told: given.Told, parent: str = "", max_trials: int = 500) -> None:
    """Begins the search; a dispatcher writes what is waited for before the first task."""
    number = told.next_offset + 1
    name = f"{parent}@{number}" if parent else f"c-{number}"
    publisher = f"trackside/stream/{parent}" if parent else ""
    tell(told, given.received(number, command_id=name, publisher=publisher))
    answer = given.accepted(number).model_copy(update={"command_id": name})
    told.tell(answer, given.started(max_trials=max_trials), stream=SEARCH)
    write_watches(told)


def train(told: given.Told, trial: int = 0) -> None:
    told.tell(given.suggested(trial), of_search(given.submitted(trial)), stream=SEARCH)
    tell(told, given.assigned(trial), given.begun(trial))


def leave(told: given.Told, trial: int = 0, how: AttemptEnd = AttemptEnd.FINISHED) -> int:
    at = tell(told, given.report(1_000, 0.5, trial, final=True), attempt_ended(how, trial))
    value = 0.5 if how is AttemptEnd.FINISHED else None
    tell(told, given.over(trial, value, TrialStatus.FAILED if value is None else TrialStatus.SUCCEEDED))
    return at


def saved(name: str = "weights", kind: str = "model", number: int = 1, trial: int = 0) -> ArtifactSaved:
    digest = f"{number:064x}"
    place = {"uri": f"store:sha256/{digest}", "sha256": digest, "size_bytes": 3}
    return ArtifactSaved(**given.token(trial), **place, number=number, name=name, version=number, kind=kind)


def accuracy(step: int, value: float | str, trial: int = 0) -> MetricReported:
    return given.report(step, 0.1, trial).model_copy(update={"others": {"accuracy": value}})


def watching(event: str, **more: Any) -> given.Told:
    told = waiting(event, **more)
    begin(told)
    look(told)
    return told


def keys(told: given.Told) -> list[str]:
    return [event.key for event in fired(look(told))]


def test_the_end_of_a_task_fires_a_schedule_once_and_is_its_cause() -> None:
    told = waiting("task_ended", parameters={"seed": "${trigger.task} ${trigger.status}"})
    begin(told)
    (watched,) = look(told)
    assert isinstance(watched, ScheduleWatched)
    train(told)
    assert look(told) == []
    at = leave(told)
    fire, numbered = look(told)
    assert isinstance(fire, ScheduleFired) and isinstance(numbered, RunNumbered)
    assert (fire.key, fire.cause) == (str(at), f"{SEARCH}@{at}")
    assert (numbered.parameters, look(told)) == ({"seed": f"{task_id(0)} finished"}, [])


def test_an_end_of_which_nobody_knew_when_the_stream_closed_still_fires() -> None:
    """A dispatcher that is killed finds it in a snapshot: tasks are forgotten there."""
    told = waiting("task_ended")
    begin(told, max_trials=1)
    look(told)
    train(told)
    at = leave(told)
    tell(told, SearchEnded(status=SearchStatus.DONE, trials=1))
    stream = told.streams.by_id[SEARCH]
    assert (stream.closed, stream.tasks) == (True, {})
    told.streams.by_id[SEARCH] = load(pack(stream), AGGREGATES)
    assert (keys(told), keys(told)) == ([str(at)], [])


def test_only_the_ends_that_it_waits_for_fire_a_schedule() -> None:
    for wanted, expected in (
        ({"of": "failed"}, [1]),
        ({"task": task_id(2)}, [2]),
        ({"task": task_id(2), "of": "failed"}, []),
        ({}, [2]),
    ):
        told = watching("task_ended", **wanted)
        offsets = []
        for trial, how in enumerate((AttemptEnd.FINISHED, AttemptEnd.FAILED, AttemptEnd.FINISHED)):
            train(told, trial)
            offsets.append(leave(told, trial, how))
        assert keys(told) == [str(offsets[trial]) for trial in expected]


def test_with_catch_up_all_every_end_has_a_run_up_to_a_hundred() -> None:
    told = waiting("task_ended", catch_up="all")
    do(told, CreateSchedule, {"name": "latest", "schedule": spec("task_ended")})
    begin(told)
    look(told)
    offsets = []
    for trial in range(KEPT_MATCHES + 3):
        train(told, trial)
        offsets.append(str(leave(told, trial)))
    events = fired(look(told))
    assert [event.key for event in events if event.name == NAME] == offsets[-KEPT_MATCHES:]
    assert [event.key for event in events if event.name == "latest"] == offsets[-1:]


def test_an_attempt_that_is_tried_again_is_no_end_of_its_task() -> None:
    told = watching("task_ended")
    train(told)
    tell(told, attempt_ended(AttemptEnd.LOST))
    assert look(told) == []
    assert told.streams.by_id[SEARCH].tasks[task_id(0)].end is None


def test_an_artifact_fires_by_its_name_kind_and_task() -> None:
    for wanted, expected in (
        ({}, ["weights", "notes"]),
        ({"of": "weights"}, ["weights"]),
        ({"kind": "file"}, ["notes"]),
        ({"of": "weights", "kind": "file"}, []),
        ({"kind": "checkpoint"}, []),
        ({"task": task_id(1)}, []),
    ):
        told = watching("artifact", parameters={"seed": "${trigger.name}"}, **wanted)
        train(told)
        found = []
        for number, (name, kind) in enumerate((("weights", "model"), ("notes", "file")), 1):
            tell(told, saved(name, kind, number))
            found += [event.parameters["seed"] for event in look(told) if isinstance(event, RunNumbered)]
        assert found == expected


def test_a_schedule_whose_filled_in_parameters_are_a_secret_starts_no_run_and_says_where() -> None:
    told = watching("artifact", parameters={"seed": "s3://me:${trigger.name}@host/b"}, of="weights")
    train(told)
    tell(told, saved("weights", "model", 1))
    (event,) = fired(look(told))
    assert (event.skipped, event.run) == ("secret_suspected", "")
    assert event.message.startswith("$.parameters.seed looks like a secret")
    assert "weights" not in event.message


def test_a_value_fires_when_it_comes_within_the_bounds_and_again_after_it_has_left_them() -> None:
    told = watching("metric", of="accuracy", above=0.9, below=1.0, catch_up="all")
    train(told)
    values: list[float | str] = [0.5, 0.95, 0.97, "nan", 0.96, 0.9, 0.91, 1.0]
    offsets = [tell(told, accuracy(step, value)) for step, value in enumerate(values)]
    assert keys(told) == [str(offsets[1]), str(offsets[6])]


def test_each_task_comes_within_the_bounds_for_itself() -> None:
    told = watching("metric", below=0.2, catch_up="all")
    train(told, 0)
    train(told, 1)
    one, two = tell(told, given.report(0, 0.1, 0)), tell(told, given.report(0, 0.1, 1))
    tell(told, given.report(1, 0.1, 0), given.report(1, None, 1), given.report(2, 0.1, 1))
    assert keys(told) == [str(one), str(two)]


def test_the_next_trial_of_a_process_comes_within_the_bounds_anew() -> None:
    watch = TaskWatch(event="metric", above=0.5)
    told = define()
    begin(told)
    tell(told, TasksWatched(watch=watch))
    train(told)
    tell(told, given.report(0, 0.9))
    (watched,) = told.streams.by_id[SEARCH].watches.values()
    assert list(watched.inside) == [task_id(0)]
    task = told.streams.by_id[SEARCH].tasks[task_id(0)]
    record = told.records[-1]
    part = task.part
    assert part is not None
    record.message = TaskContinued(
        task_id=task_id(0), attempt=1, placement=1, request=1, part=part, parameters={}
    )
    note({watch.key: watched}, task, record)
    assert watched.inside == {}


def test_a_value_that_is_within_the_bounds_already_is_not_waited_for() -> None:
    """Only what happens after the schedule was created counts."""
    told = define(parameters={"seed": {"default": 7}})
    begin(told)
    train(told, 0)
    train(told, 1)
    tell(told, accuracy(0, 0.95, 0), accuracy(0, 0.5, 1), saved(), given.report(1, 0.5, 0))
    do(told, CreateSchedule, {"name": NAME, "schedule": spec("metric", of="accuracy", above=0.9)})
    do(told, CreateSchedule, {"name": "saved", "schedule": spec("artifact")})
    assert look(told) == []  # the log of the search does not have them yet
    tell(told, accuracy(2, 0.95, 0))
    assert (len(write_watches(told)), {type(event) for event in look(told)}) == (2, {ScheduleWatched})
    tell(told, accuracy(3, 0.95, 0))
    assert look(told) == []
    at = tell(told, accuracy(4, 0.95, 1))
    assert keys(told) == [str(at)]


def test_what_two_schedules_wait_for_alike_is_in_the_log_once() -> None:
    told = waiting("task_ended")
    do(told, CreateSchedule, {"name": "again", "schedule": spec("task_ended")})
    begin(told)
    assert write_watches(told) == []
    watch = TasksWatched(watch=TaskWatch(event="task_ended"))
    assert told.tell(watch, stream=SEARCH) == [Outcome.DUPLICATE]
    look(told)
    train(told)
    leave(told)
    assert [event.name for event in fired(look(told))] == [NAME, "again"]


def test_what_happens_while_a_schedule_is_paused_does_not_fire_it() -> None:
    told = watching("task_ended", catch_up="all")
    train(told, 0)
    train(told, 1)
    do(told, PauseSchedule, {"name": NAME})
    at = leave(told, 0)
    assert look(told) == []
    do(told, ResumeSchedule, {"name": NAME})
    assert (look(told), keys(told)) == ([ScheduleWatched(name=NAME, key=str(at))], [])
    leave(told, 1)
    assert len(keys(told)) == 1


def test_a_dispatcher_that_lags_in_the_other_stream_fires_nothing_again() -> None:
    """The offsets of what fires a schedule rise: an older one is known already."""
    told = watching("task_ended")
    train(told, 0)
    one = leave(told, 0)
    (older,) = told.streams.by_id[SEARCH].watches.values()
    behind = [*older.matches]
    train(told, 1)
    leave(told, 1)
    assert len(keys(told)) == 1
    older.matches = behind
    assert keys(told) == []
    late = ScheduleFired(name=NAME, fire=2, cause=f"{SEARCH}@{one}", key=str(one), run=f"{PIPELINE}.2")
    assert told.tell(late, role="dispatcher") == [Outcome.OVERTAKEN]


def test_the_tasks_of_a_child_of_a_run_of_the_schedule_do_not_fire_it() -> None:
    """P41: a run never triggers the schedule that started it, however long the chain."""
    told = waiting("task_ended")
    run_of_schedules(told, "other.1", "other/nightly", f"{PIPELINE}/{NAME}")
    begin(told, parent="other.1")
    look(told)
    train(told)
    leave(told)
    (event,) = fired(look(told))
    assert (event.skipped, event.run, look(told)) == ("schedule_loop", "", [])


def test_a_stream_that_is_waited_for_too_often_says_so_once() -> None:
    told = waiting("task_ended", task="late")
    begin(told)
    stream = told.streams.by_id[SEARCH]
    stream.watches.clear()
    for number in range(MAX_WATCHES):
        tell(told, TasksWatched(watch=TaskWatch(event="task_ended", task=f"t{number}")))
    one_more = TasksWatched(watch=TaskWatch(event="artifact"))
    assert (told.tell(one_more, stream=SEARCH), write_watches(told)) == ([Outcome.OVERTAKEN], [])
    watched, event = look(told)
    assert isinstance(watched, ScheduleWatched) and isinstance(event, ScheduleFired)
    assert (event.skipped, event.run, pipeline(told).schedules[NAME].skips) == ("too_many_watches", "", 1)
    assert look(told) == []


def test_a_run_that_is_open_is_not_followed_by_one_more_with_overlap_skip() -> None:
    told = watching("task_ended", overlap="skip")
    for trial, expected in ((0, ""), (1, "schedule_busy")):
        train(told, trial)
        leave(told, trial)
        assert [event.skipped for event in fired(look(told))] == [expected]
    end(told, 1)
    assert look(told) == []


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (spec("task_ended", of="finishd"), ("unknown_value", "$.schedule.on.of")),
        (spec("task_ended", above=1.0), ("unknown_field", "$.schedule.on")),
        (spec("task_ended", kind="model"), ("unknown_field", "$.schedule.on.kind")),
        (spec("ended", task="t"), ("unknown_field", "$.schedule.on.task")),
        (spec("artifact", below=1.0), ("unknown_field", "$.schedule.on")),
        (spec("artifact", task="a b"), ("bad_identifier", "$.schedule.on.task")),
        (spec("metric"), ("missing_field", "$.schedule.on.above")),
        (spec("metric", above=2.0, below=1.0), ("unreachable_bounds", "$.schedule.on.below")),
        (spec("best", above=2.0, below=2.0), ("unreachable_bounds", "$.schedule.on.below")),
    ],
)
def test_what_can_not_be_waited_for_is_refused(wanted: Json, expected: tuple[str, str]) -> None:
    told = define()
    assert expected in problems(ask(told, CreateSchedule, {"name": NAME, "schedule": wanted}))
