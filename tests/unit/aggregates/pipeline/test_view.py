"""What people are told of a pipeline of which they watch the runs."""

from tests.unit.aggregates.given import react
from tests.unit.aggregates.pipeline.given import define, do, end, run
from tests.unit.domain.given import STREAM, Told
from trackside.aggregates.pipeline.aggregate import PIPELINE
from trackside.aggregates.pipeline.messages import RetirePipeline


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


def test_of_a_pipeline_that_is_retired_there_is_no_next_run() -> None:
    told = define()
    do(told, RetirePipeline)
    assert said(told) == [f"{STREAM} RETIRED: version 1, 0 runs"]
