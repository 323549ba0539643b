"""The guards of a pipeline: versions and runs follow each other, and only the next run may begin."""

import pytest

from tests.unit.domain import given_pipelines
from tests.unit.domain.given import STREAM
from trackside.aggregates.pipeline.messages import PipelineRetired, RunCancelled, run_id, run_number
from trackside.contracts.children import ChildRequested
from trackside.domain.outcome import Outcome
from trackside.domain.stream import shrink

APPLIED, DUPLICATE, OVERTAKEN = Outcome.APPLIED, Outcome.DUPLICATE, Outcome.OVERTAKEN


def test_a_version_follows_the_one_before_unless_its_content_is_known() -> None:
    told = given_pipelines.pipeline_defined()
    assert told.tell(given_pipelines.defined(3, 2)) == [OVERTAKEN]  # a change is missing
    assert told.tell(given_pipelines.defined(2, 3)) == [OVERTAKEN]  # a version is missing
    assert told.tell(given_pipelines.defined(2, 2, number=1)) == [OVERTAKEN]  # version 1 has this content
    assert told.tell(given_pipelines.defined(2, 2)) == [APPLIED]
    assert told.tell(given_pipelines.defined(2, 2)) == [DUPLICATE]
    assert told.tell(given_pipelines.defined(3, 1)) == [APPLIED]
    assert (given_pipelines.pipeline(told).current, len(given_pipelines.pipeline(told).versions)) == (1, 2)


def test_a_run_counts_once_and_only_with_the_next_number_of_a_known_version() -> None:
    told = given_pipelines.pipeline_defined()
    assert told.tell(given_pipelines.numbered(2)) == [OVERTAKEN]
    assert told.tell(given_pipelines.numbered(1, version=2)) == [OVERTAKEN]
    assert told.tell(given_pipelines.numbered(1).model_copy(update={"run": "other.1"})) == [OVERTAKEN]
    assert told.tell(given_pipelines.numbered(1)) == [APPLIED]
    assert told.tell(given_pipelines.numbered(1)) == [DUPLICATE]


def test_only_the_run_whose_turn_it_is_may_begin() -> None:
    told = given_pipelines.pipeline_defined(max_runs=1)
    told.tell(given_pipelines.numbered(1))
    told.tell(given_pipelines.numbered(2))
    assert told.tell(given_pipelines.asked(2)) == [OVERTAKEN]
    other = ChildRequested(child_id=run_id(STREAM, 1), kind="batch", body={})
    assert told.tell(other) == [OVERTAKEN]
    assert told.tell(given_pipelines.asked(1)) == [APPLIED]
    assert told.tell(given_pipelines.asked(2)) == [OVERTAKEN]  # there is no room
    assert told.tell(given_pipelines.run_over(1)) == [APPLIED]
    assert told.tell(given_pipelines.asked(2)) == [APPLIED]


def test_only_a_run_that_waits_is_cancelled() -> None:
    told = given_pipelines.pipeline_defined()
    told.tell(given_pipelines.numbered(1))
    told.tell(given_pipelines.asked(1))
    assert told.tell(RunCancelled(command_id="c-3", number=1)) == [OVERTAKEN]
    told.tell(given_pipelines.numbered(2))
    assert told.tell(RunCancelled(command_id="c-3", number=2)) == [APPLIED]
    assert told.tell(RunCancelled(command_id="c-3", number=2)) == [OVERTAKEN]


def test_a_retired_pipeline_takes_no_run() -> None:
    told = given_pipelines.pipeline_defined()
    assert told.tell(PipelineRetired(command_id="c-2", change=2)) == [APPLIED]
    assert told.tell(given_pipelines.numbered(1)) == [OVERTAKEN]
    assert told.tell(PipelineRetired(command_id="c-2", change=3)) == [OVERTAKEN]
    assert told.tell(given_pipelines.defined(3)) == [APPLIED]
    assert told.tell(given_pipelines.numbered(1)) == [APPLIED]


def test_runs_that_have_ended_are_forgotten() -> None:
    told = given_pipelines.pipeline_defined()
    for number in range(1, 51):
        told.tell(given_pipelines.numbered(number))
        told.tell(given_pipelines.asked(number))
        told.tell(given_pipelines.run_over(number))
        shrink(told.stream)
    assert given_pipelines.pipeline(told).runs == {}
    assert given_pipelines.pipeline(told).numbered == 50
    assert told.stream.children == {}
    assert told.tell(given_pipelines.asked(50)) == told.tell(given_pipelines.run_over(50)) == [DUPLICATE]


@pytest.mark.parametrize("text", [STREAM, f"{STREAM}.", f"{STREAM}.x", f"{STREAM}.01", f"{STREAM}.1.2", "1"])
def test_what_is_no_run_of_a_pipeline_has_no_number(text: str) -> None:
    assert run_number(STREAM, text) is None
    assert run_number(STREAM, run_id(STREAM, 12)) == 12
