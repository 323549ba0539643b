"""Pipelines that are defined: versions by content, numbered runs, and how many of them are open (P39)."""

from typing import Any

import pytest

from tests.unit.aggregates.given import problems, react, refusal
from tests.unit.aggregates.pipeline.given import (
    ask,
    begun,
    define,
    definition,
    do,
    end,
    pipeline,
    run,
    run_of,
)
from tests.unit.domain.given import STREAM, Told, search_running
from trackside.aggregates.pipeline import decide
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
)
from trackside.aggregates.pipeline.run_checks import MAX_BODY_BYTES
from trackside.aggregates.pipeline.state import pipeline_of
from trackside.aggregates.registry import AGGREGATES
from trackside.contracts.children import ChildRequested, ChildStopRequested
from trackside.contracts.message import Event
from trackside.domain.lookup import NO_LOOKUP
from trackside.domain.pipelines.compiling import digest
from trackside.domain.pipelines.definition import PipelineSpec
from trackside.domain.stream import Stream
from trackside.domain.streams import dump, load


def test_a_definition_begins_a_pipeline_with_its_first_version() -> None:
    told = Told()
    (event,) = do(told, DefinePipeline, {"pipeline": definition()})
    assert isinstance(event, PipelineDefined)
    assert (event.change, event.version, event.max_runs) == (1, 1, 16)
    assert event.pipeline.model_dump() == definition()  # as it was given: references are texts
    assert event.sha256 == digest(PipelineSpec.model_validate(definition()))
    assert pipeline(told).current == 1
    assert pipeline(told).over


def test_another_content_is_the_next_version() -> None:
    """P39: the version is raised by itself, when the content has changed and only then."""
    told = define()
    (event,) = do(told, DefinePipeline, {"pipeline": definition(description="with more rows")})
    assert isinstance(event, PipelineDefined)
    assert (event.version, event.change) == (2, 2)
    assert pipeline(told).current == 2


def test_the_same_content_again_changes_nothing() -> None:
    """P39: the order of the keys and default values that are said don't count."""
    told = define()
    again = dict(reversed(definition(concurrency=10_000).items()))
    assert do(told, DefinePipeline, {"pipeline": again}) == []
    assert [version.number for version in pipeline(told).versions] == [1]


def test_the_content_of_an_earlier_version_makes_that_version_current_again() -> None:
    told = define(define(), description="worse")
    (event,) = do(told, DefinePipeline, {"pipeline": definition()})
    assert isinstance(event, PipelineDefined)
    assert event.version == pipeline(told).current == 1
    assert len(pipeline(told).versions) == 2


def test_how_many_runs_are_open_is_changed_without_a_new_version() -> None:
    told = define()
    (event,) = do(told, DefinePipeline, {"pipeline": definition(), "max_runs": 3})
    assert isinstance(event, PipelineDefined)
    assert (event.version, event.max_runs) == (1, 3)
    assert do(told, DefinePipeline, {"pipeline": definition()}) == []  # what is left out stays
    define(told, description="better")
    assert pipeline(told).max_runs == 3


def test_all_problems_of_a_definition_are_reported_with_their_places() -> None:
    steps = [
        {"name": "a", "task_type": "digits", "needs": ["b"], "when": "1 +"},
        {"name": "a", "task_type": "digits", "parameters": {"x": "${nothing.result}"}},
    ]
    found = problems(ask(Told(), DefinePipeline, {"pipeline": {"steps": steps}}))
    assert ("duplicate_step", "$.pipeline.steps[0].name") in found
    assert ("unknown_step", "$.pipeline.steps[0].needs") in found
    assert ("unknown_step", "$.pipeline.steps[1].parameters.x") in found
    assert len(found) >= 5


def test_a_cycle_is_refused_and_the_next_good_definition_is_accepted() -> None:
    told = Told()
    steps = [
        {"name": "a", "task_type": "digits", "needs": ["b"]},
        {"name": "b", "task_type": "digits", "needs": ["a"]},
    ]
    found = problems(ask(told, DefinePipeline, {"pipeline": {"steps": steps}}))
    assert found == [("pipeline_cycle", "$.pipeline.steps[0].needs")]
    assert pipeline(define(told)).current == 1


def test_a_pipeline_cannot_be_defined_in_the_stream_of_a_search() -> None:
    found = refusal(ask(search_running(), DefinePipeline, {"pipeline": definition()}))
    assert found[:2] == ("already_exists", "$partitionkey")


@pytest.mark.parametrize("command", [RetirePipeline, RunPipeline, CancelPipelineRuns])
def test_what_is_not_defined_can_not_be_run_or_retired(command: type[Any]) -> None:
    assert refusal(ask(Told(), command))[:2] == ("unknown_pipeline", "$partitionkey")


def test_a_definition_over_the_size_of_a_decision_is_refused() -> None:
    large = definition(description="x")
    large["steps"][0]["parameters"]["text"] = "x" * MAX_BODY_BYTES
    found = refusal(ask(Told(), DefinePipeline, {"pipeline": large}))
    assert found[:2] == ("too_long", "$.pipeline")


def test_versions_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    told = define(define(), description="two")
    monkeypatch.setattr(decide, "MAX_PIPELINE_VERSIONS", 2)
    found = refusal(ask(told, DefinePipeline, {"pipeline": definition(description="three")}))
    assert found[:2] == ("too_many_versions", "$partitionkey")
    assert [type(event) for event in do(told, DefinePipeline, {"pipeline": definition()})] == [
        PipelineDefined
    ]


def test_a_run_has_the_next_number_and_begins_as_a_child_with_all_that_it_needs() -> None:
    """P39: run numbers; and the stream of a run needs no other stream to be read."""
    told = define(define(), description="two")
    body = {"parameters": {"seed": 11}, "overrides": {"train": {"queue": "gpu"}}, "seed": 3}
    (event,) = do(told, RunPipeline, {**body, "version": 1, "use_cache": False})
    assert isinstance(event, RunNumbered)
    assert (event.number, event.run, event.version) == (1, f"{STREAM}.1", 1)
    (asked,) = react(told)
    assert isinstance(asked, ChildRequested)
    assert (asked.child_id, asked.kind) == (f"{STREAM}.1", "run")
    origin = {"pipeline": STREAM, "version": 1, "number": 1}
    assert asked.body == {**body, "use_cache": False, "pipeline": definition(), "origin": origin}
    assert react(told) == []


def test_a_run_has_the_current_version_unless_it_asks_for_another_one() -> None:
    told = define(define(), description="two")
    run(told)
    assert run_of(told, 1).version == 2
    define(told)  # the first one is current again
    run(told)
    assert run_of(told, 2).version == 1


def test_a_run_keeps_its_version_when_the_pipeline_is_defined_again_before_it_begins() -> None:
    told = define(max_runs=1)
    run(told)
    react(told)
    run(told)
    define(told, description="two")
    end(told, 1)
    (asked,) = react(told)
    assert isinstance(asked, ChildRequested)
    assert asked.body["pipeline"] == definition()


def test_problems_of_parameters_are_refused_at_once() -> None:
    told = define(parameters={"seed": {"type": "integer"}, "rate": {"type": "number"}})
    body = {"parameters": {"seed": "7", "sed": 1}, "overrides": {"trian": {}}, "version": None}
    assert problems(ask(told, RunPipeline, body)) == [
        ("missing_parameter", "$.parameters.rate"),
        ("unknown_parameter", "$.parameters.sed"),
        ("bad_parameters", "$.parameters.seed"),
        ("unknown_step", "$.overrides.trian"),
    ]
    assert pipeline(told).numbered == 0


def test_a_reference_to_a_secret_is_a_text_for_the_schema_of_a_parameter() -> None:
    schemas = {"seed": {"default": 1}, "key": {"type": "string", "minLength": 99}, "rate": {"type": "number"}}
    told = define(parameters=schemas)
    body = {"parameters": {"key": {"secret": "kaggle"}, "rate": {"secret": "kaggle"}}}
    assert problems(ask(told, RunPipeline, body)) == [("bad_parameters", "$.parameters.rate")]


def test_an_unknown_version_is_refused() -> None:
    found = refusal(ask(define(), RunPipeline, {"version": 2}))
    assert found[:2] == ("unknown_pipeline_version", "$.version")


def test_a_run_that_would_be_too_long_is_refused() -> None:
    told = define(parameters={"seed": {"default": 1}, "text": {"type": "string"}})
    found = refusal(ask(told, RunPipeline, {"parameters": {"text": "x" * MAX_BODY_BYTES}}))
    assert found[:2] == ("too_long", "$.parameters")


def test_runs_beyond_the_limit_wait_and_begin_in_their_order() -> None:
    told = define(max_runs=2)
    for _ in range(4):
        run(told)
    asked: list[Event] = []
    for _ in range(4):
        asked += react(told)
    assert begun(told, asked) == [1, 2]
    assert pipeline(told).queued == [3, 4]
    end(told, 2, "FAILED")
    assert begun(told, react(told)) == [3]
    end(told, 3)
    end(told, 1)
    assert begun(told, react(told)) == [4]
    assert react(told) == []


def test_a_run_that_is_refused_makes_room_for_the_next_one() -> None:
    told = define(max_runs=1)
    run(told)
    run(told)
    react(told)
    end(told, 1, "REFUSED")
    assert run_of(told, 1).status == "REFUSED"
    assert begun(told, react(told)) == [2]


def test_a_lower_limit_lets_open_runs_end_and_a_higher_one_begins_more() -> None:
    told = define(max_runs=2)
    for _ in range(4):
        run(told)
    react(told)
    react(told)
    define(told, max_runs=1)
    end(told, 1)
    assert react(told) == []
    define(told, max_runs=2)
    assert begun(told, react(told)) == [3]


def test_as_many_runs_wait_as_may_and_the_next_one_is_refused() -> None:
    told = define(max_runs=1)
    for number in range(1, MAX_QUEUED_RUNS + 1):
        told.tell(RunNumbered(command_id="c-2", number=number, run=f"{STREAM}.{number}", version=1))
    assert refusal(ask(told, RunPipeline))[:2] == ("too_many_runs", "$partitionkey")
    assert begun(told, react(told)) == [1]
    assert len(do(told, RunPipeline)) == 1


def test_a_run_that_waits_is_cancelled_and_one_that_is_open_is_asked_to_stop() -> None:
    told = define(max_runs=1)
    for _ in range(3):
        run(told)
    react(told)
    (cancelled,) = do(told, CancelPipelineRuns, {"number": 2, "reason": "wrong"})
    assert isinstance(cancelled, RunCancelled)
    assert (run_of(told, 2).status, run_of(told, 2).reason) == ("CANCELLED", "wrong")
    (stopped,) = do(told, CancelPipelineRuns, {"number": 1})
    assert isinstance(stopped, ChildStopRequested)
    assert (stopped.child_id, run_of(told, 1).status) == (f"{STREAM}.1", "STOPPING")
    assert do(told, CancelPipelineRuns, {"number": 1}) == []
    assert refusal(ask(told, CancelPipelineRuns, {"number": 2}))[:2] == ("already_terminal", "$.number")
    assert refusal(ask(told, CancelPipelineRuns, {"number": 4}))[:2] == ("unknown_run", "$.number")
    end(told, 1, "ABORTED")
    assert begun(told, react(told)) == [3]


def test_all_runs_are_cancelled_at_once() -> None:
    told = define(max_runs=1)
    for _ in range(3):
        run(told)
    react(told)
    events = do(told, CancelPipelineRuns)
    assert [type(event) for event in events] == [RunCancelled, RunCancelled, ChildStopRequested]


def test_a_pipeline_that_is_retired_has_no_more_runs_until_it_is_defined_again() -> None:
    told = define(max_runs=1)
    run(told)
    react(told)
    run(told)
    (event,) = do(told, RetirePipeline, {"reason": "old"})
    assert isinstance(event, PipelineRetired)
    assert run_of(told, 2).status == "CANCELLED"
    assert run_of(told, 1).status == "RUNNING"
    assert do(told, RetirePipeline) == []
    assert refusal(ask(told, RunPipeline))[:2] == ("already_terminal", "$partitionkey")
    (event,) = do(told, DefinePipeline, {"pipeline": definition()})
    assert isinstance(event, PipelineDefined)
    assert (event.version, pipeline(told).status) == (1, PipelineStatus.ACTIVE)
    run(told)
    assert pipeline(told).queued == [3]


def test_a_name_that_leaves_no_room_for_run_numbers_is_refused() -> None:
    wanted = DefinePipeline.model_validate({"pipeline": definition()})
    found = decide.define(Stream("p" * 119, 0), wanted, "c-1", NO_LOOKUP)
    assert isinstance(found, tuple)
    assert [problem.code for problem in found] == ["bad_identifier"]
    assert isinstance(decide.define(Stream("p" * 118, 0), wanted, "c-1", NO_LOOKUP), list)


def test_the_state_of_a_pipeline_is_read_as_it_was_written() -> None:
    told = define(max_runs=1)
    run(told, parameters={"seed": 1})
    react(told)
    run(told)
    assert dump(load(dump(told.stream), AGGREGATES)) == dump(told.stream)
    assert pipeline_of(load(dump(told.stream), AGGREGATES)) == pipeline(told)
