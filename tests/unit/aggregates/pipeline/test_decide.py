"""Pipelines that are defined: versions by content, numbered runs, and how many of them are open (P39)."""

from typing import Any

import pytest

from tests.unit.aggregates.given import problems, react, refusal, the
from tests.unit.aggregates.pipeline import given
from tests.unit.aggregates.pipeline.given import define, do, end, run
from tests.unit.domain import given_pipelines
from tests.unit.domain.given import STREAM, Told, search_running
from trackside.aggregates.pipeline import decide
from trackside.aggregates.pipeline.aggregate import PIPELINE
from trackside.aggregates.pipeline.firing.run_checks import MAX_BODY_BYTES
from trackside.aggregates.pipeline.messages import (
    MAX_QUEUED_RUNS,
    CancelPipelineRuns,
    DefinePipeline,
    PipelineDefined,
    PipelineRetired,
    PipelineStatus,
    RetirePipeline,
    RunCancelled,
    RunNumbered,
    RunPipeline,
    run_id,
    run_number,
)
from trackside.contracts.streams.children import ChildRequested, ChildStopRequested
from trackside.domain.folding.lookup import NO_LOOKUP
from trackside.domain.outcome import Outcome
from trackside.domain.pipelines.compiling import digest
from trackside.domain.pipelines.definition import PipelineSpec
from trackside.domain.streams.stream import Stream, shrink


def define_event(told: Told, max_runs: int | None = None, **more: Any) -> PipelineDefined:
    body = {"pipeline": given.definition(**more)} | ({} if max_runs is None else {"max_runs": max_runs})
    return the(PipelineDefined, given.do(told, DefinePipeline, body))


def test_a_definition_begins_a_pipeline_with_its_first_version() -> None:
    told = Told()
    event = define_event(told)
    assert (event.change, event.version, event.max_runs) == (1, 1, 16)
    assert event.pipeline.model_dump() == given.definition()  # as it was given: references are texts
    assert event.sha256 == digest(PipelineSpec.model_validate(given.definition()))
    assert (given.pipeline(told).current, given.pipeline(told).over) == (1, True)


def test_a_version_is_raised_when_the_content_is_new_and_only_then() -> None:
    """P39: the order of the keys and default values that are said don't count."""
    told = given.define()
    again = dict(reversed(given.definition(concurrency=10_000).items()))
    assert given.do(told, DefinePipeline, {"pipeline": again}) == []
    event = define_event(told, description="with more rows")
    assert (event.version, event.change, given.pipeline(told).current) == (2, 2, 2)
    assert define_event(told).version == given.pipeline(told).current == 1
    assert len(given.pipeline(told).versions) == 2


def test_how_many_runs_are_open_is_changed_without_a_new_version() -> None:
    told = given.define()
    event = define_event(told, max_runs=3)
    assert (event.version, event.max_runs) == (1, 3)
    assert given.do(told, DefinePipeline, {"pipeline": given.definition()}) == []  # what is left out stays
    given.define(told, description="better")
    assert given.pipeline(told).max_runs == 3


def test_a_pipeline_is_not_defined_in_the_stream_of_a_search_or_over_the_size_of_a_decision() -> None:
    found = refusal(given.ask(search_running(), DefinePipeline, {"pipeline": given.definition()}))
    assert found[:2] == ("already_exists", "$partitionkey")
    large = given.definition(description="x")
    large["steps"][0]["parameters"]["text"] = "x" * MAX_BODY_BYTES
    found = refusal(given.ask(Told(), DefinePipeline, {"pipeline": large}))
    assert found[:2] == ("too_long", "$.pipeline")


@pytest.mark.parametrize("command", [RetirePipeline, RunPipeline, CancelPipelineRuns])
def test_what_is_not_defined_can_not_be_run_or_retired(command: type[Any]) -> None:
    assert refusal(given.ask(Told(), command))[:2] == ("unknown_pipeline", "$partitionkey")


def test_versions_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    told = given.define(given.define(), description="two")
    monkeypatch.setattr(decide, "MAX_PIPELINE_VERSIONS", 2)
    found = refusal(given.ask(told, DefinePipeline, {"pipeline": given.definition(description="three")}))
    assert found[:2] == ("too_many_versions", "$partitionkey")
    assert define_event(told).version == 1


def test_a_run_has_the_next_number_and_begins_as_a_child_with_all_that_it_needs() -> None:
    """P39: run numbers; and the stream of a run needs no other stream to be read."""
    told = given.define(given.define(), description="two")
    body = {"parameters": {"seed": 11}, "overrides": {"train": {"queue": "gpu"}}, "seed": 3}
    event = the(RunNumbered, given.do(told, RunPipeline, {**body, "version": 1, "use_cache": False}))
    assert (event.number, event.run, event.version) == (1, f"{STREAM}.1", 1)
    asked = the(ChildRequested, react(told))
    assert (asked.child_id, asked.kind) == (f"{STREAM}.1", "run")
    origin = {"pipeline": STREAM, "version": 1, "number": 1}
    assert asked.body == {**body, "use_cache": False, "pipeline": given.definition(), "origin": origin}
    assert react(told) == []


def test_a_run_has_the_version_that_is_current_when_it_is_asked_for() -> None:
    told = given.define(given.define(), description="two")
    given.run(told)
    assert given.run_of(told, 1).version == 2
    given.define(told)  # the first one is current again
    given.run(told)
    assert given.run_of(told, 2).version == 1
    told = given.define(max_runs=1)
    given.run(told)
    react(told)
    given.run(told)
    given.define(told, description="two")
    given.end(told, 1)
    assert the(ChildRequested, react(told)).body["pipeline"] == given.definition()


def test_problems_of_parameters_are_refused_at_once() -> None:
    told = given.define(parameters={"seed": {"type": "integer"}, "rate": {"type": "number"}})
    body = {"parameters": {"seed": "7", "sed": 1}, "overrides": {"trian": {}}, "version": None}
    assert problems(given.ask(told, RunPipeline, body)) == [
        ("missing_parameter", "$.parameters.rate"),
        ("unknown_parameter", "$.parameters.sed"),
        ("bad_parameters", "$.parameters.seed"),
        ("unknown_step", "$.overrides.trian"),
    ]
    assert given.pipeline(told).numbered == 0


def test_a_reference_to_a_secret_is_a_text_for_the_schema_of_a_parameter() -> None:
    schemas = {"seed": {"default": 1}, "key": {"type": "string", "minLength": 99}, "rate": {"type": "number"}}
    told = given.define(parameters=schemas)
    body = {"parameters": {"key": {"secret": "kaggle"}, "rate": {"secret": "kaggle"}}}
    assert problems(given.ask(told, RunPipeline, body)) == [("bad_parameters", "$.parameters.rate")]


def test_an_unknown_version_and_a_run_that_would_be_too_long_are_refused() -> None:
    told = given.define(parameters={"seed": {"default": 1}, "text": {"type": "string"}})
    for body, expected in (
        ({"version": 2}, ("unknown_pipeline_version", "$.version")),
        ({"parameters": {"text": "x" * MAX_BODY_BYTES}}, ("too_long", "$.parameters")),
    ):
        assert refusal(given.ask(told, RunPipeline, body))[:2] == expected


def test_runs_beyond_the_limit_wait_and_begin_in_their_order() -> None:
    told = given.define(max_runs=2)
    for _ in range(4):
        given.run(told)
    asked = [event for _ in range(4) for event in react(told)]
    assert (given.begun(told, asked), given.pipeline(told).queued) == ([1, 2], [3, 4])
    given.end(told, 2, "REFUSED")
    assert given.run_of(told, 2).status == "REFUSED"
    given.define(told, max_runs=1)  # it lets open runs end
    assert react(told) == []
    given.define(told, max_runs=2)
    assert given.begun(told, react(told)) == [3]
    given.end(told, 3)
    given.end(told, 1)
    assert (given.begun(told, react(told)), react(told)) == ([4], [])


def test_as_many_runs_wait_as_may_and_the_next_one_is_refused() -> None:
    told = given.define(max_runs=1)
    for number in range(1, MAX_QUEUED_RUNS + 1):
        told.tell(RunNumbered(command_id="c-2", number=number, run=f"{STREAM}.{number}", version=1))
    assert refusal(given.ask(told, RunPipeline))[:2] == ("too_many_runs", "$partitionkey")
    assert (given.begun(told, react(told)), len(given.do(told, RunPipeline))) == ([1], 1)


def waiting_runs() -> Told:
    told = given.define(max_runs=1)
    for _ in range(3):
        given.run(told)
    react(told)
    return told


def test_a_run_that_waits_is_cancelled_and_one_that_is_open_is_asked_to_stop() -> None:
    told = waiting_runs()
    the(RunCancelled, given.do(told, CancelPipelineRuns, {"number": 2, "reason": "wrong"}))
    assert (given.run_of(told, 2).status, given.run_of(told, 2).reason) == ("CANCELLED", "wrong")
    stopped = the(ChildStopRequested, given.do(told, CancelPipelineRuns, {"number": 1}))
    assert (stopped.child_id, given.run_of(told, 1).status) == (f"{STREAM}.1", "STOPPING")
    assert given.do(told, CancelPipelineRuns, {"number": 1}) == []
    for number, code in ((2, "already_terminal"), (4, "unknown_run")):
        assert refusal(given.ask(told, CancelPipelineRuns, {"number": number}))[:2] == (code, "$.number")
    given.end(told, 1, "ABORTED")
    assert given.begun(told, react(told)) == [3]
    events = given.do(waiting_runs(), CancelPipelineRuns)
    assert [type(event) for event in events] == [RunCancelled, RunCancelled, ChildStopRequested]


def test_a_pipeline_that_is_retired_has_no_more_runs_until_it_is_defined_again() -> None:
    told = waiting_runs()
    *_, retired = given.do(told, RetirePipeline, {"reason": "old"})
    assert isinstance(retired, PipelineRetired)
    assert [given.run_of(told, number).status for number in (1, 2, 3)] == ["RUNNING", *["CANCELLED"] * 2]
    assert given.do(told, RetirePipeline) == []
    assert refusal(given.ask(told, RunPipeline))[:2] == ("already_terminal", "$partitionkey")
    assert (define_event(told).version, given.pipeline(told).status) == (1, PipelineStatus.ACTIVE)
    given.run(told)
    assert given.pipeline(told).queued == [4]


def test_a_name_that_leaves_no_room_for_run_numbers_is_refused() -> None:
    wanted = DefinePipeline.model_validate({"pipeline": given.definition()})
    found = decide.define(Stream("p" * 119, 0), wanted, "c-1", NO_LOOKUP)
    assert isinstance(found, tuple)
    assert [problem.code for problem in found] == ["bad_identifier"]
    assert isinstance(decide.define(Stream("p" * 118, 0), wanted, "c-1", NO_LOOKUP), list)


def said(told: Told) -> list[str]:
    return list(PIPELINE.view.end(told.stream, ()).lines)


def test_who_watches_a_pipeline_is_told_that_nothing_runs_and_how_to_watch_the_next_run() -> None:
    told = define()
    run(told)
    react(told)
    assert not told.stream.over
    end(told, 1)
    assert said(told) == [
        f"{STREAM} ACTIVE: version 1, 1 run, none of which runs or waits",
        f"the next one: trackside watch {STREAM}.2, once it has begun",
    ]
    told = define()
    do(told, RetirePipeline)
    assert said(told) == [f"{STREAM} RETIRED: version 1, 0 runs"], "there is no next one"


APPLIED, DUPLICATE, OVERTAKEN = Outcome.APPLIED, Outcome.DUPLICATE, Outcome.OVERTAKEN


def test_a_version_follows_the_one_before_unless_its_content_is_known() -> None:
    told, defined = given_pipelines.pipeline_defined(), given_pipelines.defined
    for event, outcome, why in (
        (defined(3, 2), OVERTAKEN, "a change is missing"),
        (defined(2, 3), OVERTAKEN, "a version is missing"),
        (defined(2, 2, number=1), OVERTAKEN, "version 1 has this content"),
        *((defined(2, 2), APPLIED, ""), (defined(2, 2), DUPLICATE, ""), (defined(3, 1), APPLIED, "")),
    ):
        assert told.tell(event) == [outcome], why
    assert (given_pipelines.pipeline(told).current, len(given_pipelines.pipeline(told).versions)) == (1, 2)


def test_a_run_counts_once_and_only_with_the_next_number_of_a_known_version() -> None:
    told = given_pipelines.pipeline_defined()
    assert told.each(given_pipelines.numbered(2), given_pipelines.numbered(1, version=2)) == [OVERTAKEN] * 2
    assert told.tell(given_pipelines.numbered(1).model_copy(update={"run": "other.1"})) == [OVERTAKEN]
    assert told.each(given_pipelines.numbered(1), given_pipelines.numbered(1)) == [APPLIED, DUPLICATE]


def test_only_the_run_whose_turn_it_is_may_begin() -> None:
    told = given_pipelines.pipeline_defined(max_runs=1)
    told.each(given_pipelines.numbered(1), given_pipelines.numbered(2))
    assert told.tell(given_pipelines.asked(2)) == [OVERTAKEN]
    other = ChildRequested(child_id=run_id(STREAM, 1), kind="batch", body={})
    assert told.each(other, given_pipelines.asked(1)) == [OVERTAKEN, APPLIED]
    assert told.tell(given_pipelines.asked(2)) == [OVERTAKEN]  # there is no room
    assert told.each(given_pipelines.run_over(1), given_pipelines.asked(2)) == [APPLIED] * 2


def test_only_a_run_that_waits_is_cancelled_and_a_retired_pipeline_takes_none() -> None:
    told, numbered = given_pipelines.pipeline_defined(), given_pipelines.numbered
    told.each(numbered(1), given_pipelines.asked(1))
    assert told.tell(RunCancelled(command_id="c-3", number=1)) == [OVERTAKEN]
    told.tell(numbered(2))
    assert told.tell(RunCancelled(command_id="c-3", number=2)) == [APPLIED]
    assert told.tell(RunCancelled(command_id="c-3", number=2)) == [OVERTAKEN]
    assert told.each(PipelineRetired(command_id="c-2", change=2), numbered(3)) == [APPLIED, OVERTAKEN]
    assert told.tell(PipelineRetired(command_id="c-2", change=3)) == [OVERTAKEN]
    assert told.tell(given_pipelines.defined(3)) == told.tell(numbered(3)) == [APPLIED]


def test_runs_that_have_ended_are_forgotten() -> None:
    told = given_pipelines.pipeline_defined()
    for number in range(1, 51):
        told.each(given_pipelines.numbered(number), given_pipelines.asked(number))
        told.tell(given_pipelines.run_over(number))
        shrink(told.stream)
    assert (given_pipelines.pipeline(told).runs, given_pipelines.pipeline(told).numbered) == ({}, 50)
    assert told.stream.children == {}
    assert told.tell(given_pipelines.asked(50)) == told.tell(given_pipelines.run_over(50)) == [DUPLICATE]


@pytest.mark.parametrize("text", [STREAM, f"{STREAM}.", f"{STREAM}.x", f"{STREAM}.01", f"{STREAM}.1.2", "1"])
def test_what_is_no_run_of_a_pipeline_has_no_number(text: str) -> None:
    assert run_number(STREAM, text) is None
    assert run_number(STREAM, run_id(STREAM, 12)) == 12
