"""The guards of a pipeline: versions and runs follow each other, and only the next run may begin."""

import pytest

from tests.unit.domain.given import STREAM, Told
from tests.unit.domain.given_pipelines import (
    asked,
    defined,
    definition,
    numbered,
    pipeline,
    pipeline_defined,
    run_over,
)
from trackside.aggregates.pipeline.messages import PipelineRetired, RunCancelled, run_id, run_number
from trackside.contracts.children import ChildRequested
from trackside.domain.outcome import Outcome
from trackside.domain.stream import shrink

APPLIED, DUPLICATE, OVERTAKEN = Outcome.APPLIED, Outcome.DUPLICATE, Outcome.OVERTAKEN


def test_a_version_follows_the_one_before_unless_its_content_is_known() -> None:
    told = pipeline_defined()
    assert told.tell(defined(3, 2)) == [OVERTAKEN]  # a change is missing
    assert told.tell(defined(2, 3)) == [OVERTAKEN]  # a version is missing
    assert told.tell(defined(2, 2, number=1)) == [OVERTAKEN]  # version 1 has this content
    assert told.tell(defined(2, 2)) == [APPLIED]
    assert told.tell(defined(2, 2)) == [DUPLICATE]
    assert told.tell(defined(3, 1)) == [APPLIED]
    assert (pipeline(told).current, len(pipeline(told).versions)) == (1, 2)


def test_a_run_counts_once_and_only_with_the_next_number_of_a_known_version() -> None:
    told = pipeline_defined()
    assert told.tell(numbered(2)) == [OVERTAKEN]
    assert told.tell(numbered(1, version=2)) == [OVERTAKEN]
    assert told.tell(numbered(1).model_copy(update={"run": "other.1"})) == [OVERTAKEN]
    assert told.tell(numbered(1)) == [APPLIED]
    assert told.tell(numbered(1)) == [DUPLICATE]


def test_only_the_run_whose_turn_it_is_may_begin() -> None:
    told = pipeline_defined(max_runs=1)
    told.tell(numbered(1))
    told.tell(numbered(2))
    assert told.tell(asked(2)) == [OVERTAKEN]
    other = ChildRequested(child_id=run_id(STREAM, 1), kind="batch", body={})
    assert told.tell(other) == [OVERTAKEN]
    assert told.tell(asked(1)) == [APPLIED]
    assert told.tell(asked(2)) == [OVERTAKEN]  # there is no room
    assert told.tell(run_over(1)) == [APPLIED]
    assert told.tell(asked(2)) == [APPLIED]


def test_only_a_run_that_waits_is_cancelled() -> None:
    told = pipeline_defined()
    told.tell(numbered(1))
    told.tell(asked(1))
    assert told.tell(RunCancelled(command_id="c-3", number=1)) == [OVERTAKEN]
    told.tell(numbered(2))
    assert told.tell(RunCancelled(command_id="c-3", number=2)) == [APPLIED]
    assert told.tell(RunCancelled(command_id="c-3", number=2)) == [OVERTAKEN]


def test_a_retired_pipeline_takes_no_run() -> None:
    told = pipeline_defined()
    assert told.tell(PipelineRetired(command_id="c-2", change=2)) == [APPLIED]
    assert told.tell(numbered(1)) == [OVERTAKEN]
    assert told.tell(PipelineRetired(command_id="c-2", change=3)) == [OVERTAKEN]
    assert told.tell(defined(3)) == [APPLIED]
    assert told.tell(numbered(1)) == [APPLIED]


def test_runs_that_have_ended_are_forgotten() -> None:
    told = pipeline_defined()
    for number in range(1, 51):
        told.tell(numbered(number))
        told.tell(asked(number))
        told.tell(run_over(number))
        shrink(told.stream)
    assert pipeline(told).runs == {}
    assert pipeline(told).numbered == 50
    assert told.stream.children == {}
    assert told.tell(asked(50)) == told.tell(run_over(50)) == [DUPLICATE]


@pytest.mark.parametrize("text", [STREAM, f"{STREAM}.", f"{STREAM}.x", f"{STREAM}.01", f"{STREAM}.1.2", "1"])
def test_what_is_no_run_of_a_pipeline_has_no_number(text: str) -> None:
    assert run_number(STREAM, text) is None
    assert run_number(STREAM, run_id(STREAM, 12)) == 12


def test_the_text_of_a_definition_is_what_was_given() -> None:
    told: Told = pipeline_defined()
    version = pipeline(told).version(1)
    assert version is not None
    assert version.definition == definition(1).model_dump_json()
