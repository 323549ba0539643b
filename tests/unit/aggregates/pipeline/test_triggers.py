"""Schedules that wait for other streams: models, searches and runs, and never for their own work (P41)."""

from hashlib import sha256
from typing import Any

import pytest

from tests.unit.aggregates.dataset.given import observed
from tests.unit.aggregates.given import problems, react, refusal
from tests.unit.aggregates.pipeline.given import ask, define, definition, do, end
from tests.unit.docs.test_state_diagrams import suggest
from tests.unit.domain.given import STREAM, Told, accepted, finish, received, search_running
from tests.unit.domain.given_models import added, staged, tagged
from tests.unit.domain.given_pipelines import defined
from tests.unit.domain.plausible_datasets import REGISTERED
from tests.unit.domain.plausible_datasets import submitted as dataset_watcher
from trackside.aggregates.dataset.messages import DatasetPaused
from trackside.aggregates.model.messages import ModelRegistered, ModelSpec
from trackside.aggregates.pipeline.aggregate import PIPELINE
from trackside.aggregates.pipeline.messages import RunNumbered
from trackside.aggregates.pipeline.schedule.schedule_messages import (
    CreateSchedule,
    FireSchedule,
    PauseSchedule,
    ResumeSchedule,
    ScheduleFired,
    ScheduleWatched,
    UpdateSchedule,
)
from trackside.aggregates.registry import AGGREGATES
from trackside.aggregates.run.messages import RunOrigin, RunStarted
from trackside.aggregates.search.aggregate import SEARCH
from trackside.aggregates.search.messages import SearchEnded, SearchStatus
from trackside.contracts.envelope.message import Event, Json, Message
from trackside.contracts.streams.children import ChildEnded, ChildRequested
from trackside.contracts.streams.commands import Source
from trackside.contracts.tasks.instructions import InstructionGiven
from trackside.contracts.tasks.tasks import TaskAccepted, TaskAssigned
from trackside.domain.folding.signals import schedules_behind
from trackside.domain.outcome import Outcome
from trackside.domain.pipelines.compiling import CompiledPipeline, compile_pipeline
from trackside.domain.pipelines.definition import PipelineSpec

MODEL, NAME = "faces", "on-model"


def tell(told: Told, stream: str, *events: Message) -> None:
    for event in events:
        assert told.tell(event, stream=stream) == [Outcome.APPLIED]


def registered(told: Told, model: str = MODEL) -> None:
    tell(told, model, received(told.next_offset + 1))
    told.tell(
        accepted(told.next_offset, place=told.next_offset),
        ModelRegistered(command_id="c-1", model=ModelSpec()),
        stream=model,
    )


def waiting(event: str = "version", stream: str = MODEL, **more: Any) -> Told:
    told = Told()
    define(told, parameters={"seed": {}, "uri": {"default": ""}})
    do(told, CreateSchedule, {"name": NAME, "schedule": spec(event, stream, **more)})
    return told


def spec(event: str = "version", stream: str = MODEL, **more: Any) -> Json:
    of = {name: more.pop(name) for name in ("of", "above", "below") if name in more}
    return {"on": {"stream": stream, "event": event, **of}, "parameters": {"seed": 1}, **more}


def look(told: Told) -> list[Event]:
    found: list[Event] = []
    while True:
        proposals = list(PIPELINE.signalled(told.stream, told.streams.find, AGGREGATES))
        for proposal in proposals:
            assert set(told.tell(*proposal.events, role="dispatcher")) == {Outcome.APPLIED}
            found += proposal.events
        if not proposals:
            react(told)
            return found


def watching(event: str = "version", **more: Any) -> Told:
    told = waiting(event, **more)
    registered(told)
    look(told)
    return told


def fired(events: list[Event]) -> list[ScheduleFired]:
    return [event for event in events if isinstance(event, ScheduleFired)]


def run_of_schedules(told: Told, stream: str, *schedules: str) -> None:
    tell(told, stream, received(told.next_offset + 1))
    origin = RunOrigin(pipeline="other", version=1, number=1, schedules=list(schedules))
    compiled = compile_pipeline(PipelineSpec.model_validate(definition()))
    assert isinstance(compiled, CompiledPipeline)
    started = RunStarted(
        command_id="c-1", pipeline=compiled.pipeline, sha256="0" * 64, parameters={"seed": 7}, origin=origin
    )
    tell(told, stream, started)


def test_only_what_happens_after_the_schedule_was_created_fires_it() -> None:
    told = waiting()
    registered(told)
    tell(told, MODEL, added(1))
    assert (look(told), look(told)) == ([ScheduleWatched(name=NAME, key="1")], [])
    tell(told, MODEL, added(2))
    fire, numbered = look(told)
    assert isinstance(fire, ScheduleFired) and isinstance(numbered, RunNumbered)
    assert (fire.key, fire.cause) == ("2", f"{MODEL}@{told.streams.by_id[MODEL].root.changed_at}")
    assert (numbered.schedules, look(told)) == ([f"{STREAM}/{NAME}"], [])


def test_a_model_that_is_registered_later_is_waited_for_and_not_while_the_schedule_is_paused() -> None:
    told = waiting(overlap="allow")
    assert look(told) == [ScheduleWatched(name=NAME, key="")]
    registered(told)
    assert look(told) == []
    tell(told, MODEL, added(1))
    assert [event.key for event in fired(look(told))] == ["1"]
    do(told, PauseSchedule, {"name": NAME})
    tell(told, MODEL, added(2))
    assert look(told) == []
    do(told, ResumeSchedule, {"name": NAME})
    assert look(told) == [ScheduleWatched(name=NAME, key="2")]
    tell(told, MODEL, added(3))
    assert len(fired(look(told))) == 1


def test_a_dataset_that_has_more_samples_fires_and_its_pause_does_not() -> None:
    told, feed = waiting("observed", "feed", overlap="allow"), "feed"
    tell(told, feed, received(told.next_offset + 1))
    told.tell(accepted(told.next_offset, place=told.next_offset), REGISTERED, stream=feed)
    assert look(told) == [ScheduleWatched(name=NAME, key="")]
    begin_watching(told, feed)
    tell(told, feed, observed(0, 5))
    assert [event.key for event in fired(look(told))] == ["5"]
    tell(told, feed, observed(5, 6), observed(6, 9), DatasetPaused(command_id="c-9", change=1))
    assert ([event.key for event in fired(look(told))], look(told)) == (["9"], [])


def begin_watching(told: Told, feed: str) -> None:
    end: Json = {"lines": 0, "size": 0, "sha256": sha256(b"").hexdigest()}
    token: Json = {"task_id": f"{feed}.watch.1", "attempt": 1, "placement": 1, "incarnation": "i-1"}
    task = dataset_watcher(1).model_copy(update={"task_id": token["task_id"]})
    placed = TaskAssigned.model_validate({**token, "worker_id": "w1", "device_ids": [], "seen": 0})
    given = InstructionGiven(command_id="", task_id=token["task_id"], number=1, body={"end": end})
    tell(told, feed, task, placed, TaskAccepted.model_validate(token), given)


def test_a_stage_that_another_version_gets_fires_and_a_tag_does() -> None:
    told = waiting("stage", of="production", overlap="allow")
    do(told, CreateSchedule, {"name": "tagged", "schedule": spec("tag", of="checked", overlap="allow")})
    registered(told)
    look(told)
    tell(told, MODEL, added(1), added(2), staged(1, 2, "production"), tagged(2, 1, labels={"a": "b"}))
    assert [(event.name, event.key) for event in fired(look(told))] == [(NAME, "2")]
    tell(told, MODEL, staged(3, 1, "production", replaces=2), tagged(4, 1, added=["checked"]))
    assert {(event.name, event.key) for event in fired(look(told))} == {(NAME, "1"), ("tagged", "1")}
    tell(told, MODEL, staged(5, 1, "none"))
    assert look(told) == []


def test_what_is_known_of_the_cause_becomes_a_parameter() -> None:
    """P41: references to the model that has fired it."""
    told = watching(parameters={"seed": "${trigger.version}", "uri": "from ${trigger.uri}"})
    tell(told, MODEL, added(1))
    _, numbered = look(told)
    assert isinstance(numbered, RunNumbered)
    assert numbered.parameters == {"seed": 1, "uri": f"from store:sha256/{1:064x}"}
    end(told, 1)
    assert refusal(ask(told, FireSchedule, {"name": NAME}))[:2] == ("bad_reference", "$.name")


def test_the_end_of_a_run_of_a_pipeline_fires_another_pipeline() -> None:
    told = waiting("run_ended", "other", of="SUCCEEDED")
    tell(told, "other", received(told.next_offset + 1))
    told.tell(accepted(told.next_offset, place=told.next_offset), defined(), stream="other")
    look(told)
    for number, status in ((1, "FAILED"), (2, "SUCCEEDED")):
        name = f"other.{number}"
        numbered = RunNumbered(command_id="c-2", number=number, run=name, version=1)
        tell(told, "other", numbered, ChildRequested(child_id=name, kind="run", body={}))
        tell(told, "other", ChildEnded(child_id=name, status=status, result={}))
        assert [event.key for event in fired(look(told))] == (["2"] if number == 2 else [])


def test_a_search_that_is_over_and_its_best_value_are_signals() -> None:
    told = search_running(max_trials=1)
    assert list(SEARCH.signals(told.search)) == []
    suggest(told, 0)
    finish(told, 0, 0.5)
    (best,) = SEARCH.signals(told.search)
    assert (best.name, best.key, best.values["value"]) == ("best", "0", 0.5)
    told.tell(SearchEnded(status=SearchStatus.DONE, trials=1))
    told.search.release()
    found = [(each.name, each.key) for each in SEARCH.signals(told.search)]
    assert found == [("ended", "DONE"), ("best", "0")]


def test_a_version_that_a_run_of_the_schedule_has_made_does_not_fire_it_again() -> None:
    """P41: ClearML's scheduler loops when a trigger is fired by its own output."""
    told = watching(overlap="allow")
    run_of_schedules(told, "other.1", "other/nightly", f"{STREAM}/{NAME}")
    task = {"stream": "other.1", "task": "other.1.train", "attempt": 1}
    artifact = {"uri": f"store:sha256/{7:064x}", "sha256": f"{7:064x}", "size_bytes": 3}
    artifact["source"] = "other.1/other.1.train/weights@1"
    tell(told, MODEL, added(1, task=task, artifact=artifact))
    (event,) = fired(look(told))
    assert (event.skipped, event.run, event.key, look(told)) == ("schedule_loop", "", "1", [])
    tell(told, MODEL, added(2))  # of a person
    assert fired(look(told))[0].run == f"{STREAM}.1"


def test_a_schedule_is_found_behind_the_children_of_its_runs() -> None:
    """However long the chain: a search in a batch in a run."""
    told = Told()
    run_of_schedules(told, "other.1", "other/nightly")
    for parent, child in (("other.1", "other.1.sweep"), ("other.1.sweep", "other.1.sweep.1.lr")):
        at = told.next_offset
        source = Source(topic="trackside.events", partition=3, offset=at)
        publisher = f"trackside/stream/{parent}"
        tell(told, child, received(at, command_id=f"{parent}@{at}", source=source, publisher=publisher))
    assert schedules_behind("other.1.sweep.1.lr", told.streams.find, AGGREGATES.of) == ["other/nightly"]
    assert schedules_behind("nothing", told.streams.find, AGGREGATES.of) == []


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (spec("stage"), ("missing_field", "$.schedule.on.of")),
        (spec("version", of="1"), ("unknown_field", "$.schedule.on.of")),
        (spec("version", above=1.0), ("unknown_field", "$.schedule.on")),
        (spec(cron="0 * * * *"), ("missing_field", "$.schedule.cron")),
        (spec("nothing"), ("unknown_value", "$.schedule.on.event")),
        (spec(parameters={"seed": "${prepare.result}"}), ("bad_reference", "$.schedule.parameters")),
        (spec(parameters={"sed": "${trigger.version}"}), ("missing_parameter", "$.schedule.parameters.seed")),
    ],
)
def test_a_schedule_that_can_not_be_fired_is_refused(given: Json, expected: tuple[str, str]) -> None:
    told = define(parameters={"seed": {"type": "integer"}})
    found = problems(ask(told, CreateSchedule, {"name": NAME, "schedule": given}))
    assert expected in found
    do(told, CreateSchedule, {"name": NAME, "schedule": spec()})
    assert expected in problems(ask(told, UpdateSchedule, {"name": NAME, "schedule": given}))
