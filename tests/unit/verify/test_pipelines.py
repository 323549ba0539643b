from collections.abc import Sequence
from functools import partial

import pytest

from tests.unit.domain.given import STREAM, received
from tests.unit.domain.given_pipelines import asked, defined, numbered, run_over
from tests.unit.verify import mutants
from trackside.aggregates.pipeline.messages import PipelineRetired, RunCancelled
from trackside.aggregates.pipeline.schedule.schedule_messages import (
    ScheduleCreated,
    ScheduleDeleted,
    ScheduleFired,
    ScheduleSpec,
)
from trackside.contracts.envelope.message import Event

CREATED = ScheduleCreated(command_id="c-5", change=2, name="a", schedule=ScheduleSpec(cron="0 * * * *"))
FIRED = ScheduleFired(command_id="c-6", name="a", fire=1, run=f"{STREAM}.1")
RETIRED = PipelineRetired(command_id="c-7", change=2)


found = partial(mutants.found, received(), defined(max_runs=1))


def test_a_pipeline_whose_runs_are_in_order_is_no_finding() -> None:
    waiting = numbered(3, schedule="a", alone=True)
    runs = (numbered(1), numbered(2), waiting, asked(1), RunCancelled(command_id="c-3", number=2))
    assert found(CREATED, *runs, run_over(1), asked(3), run_over(3)) == []
    assert found(CREATED, FIRED, numbered(1, schedule="a"), defined(3, 2), defined(4, 1)) == []
    assert found(RETIRED, defined(3), numbered(1)) == []


@pytest.mark.parametrize(
    ("events", "invariant", "message"),
    [
        ([defined(2, 3)], "INV-12", "this content is version 3, expected 2"),
        ([defined(2, 2, number=1)], "INV-12", "this content is version 2, expected 1"),
        ([numbered(2)], "INV-12", "the next one is 1"),
        ([numbered(1, version=2)], "INV-10", "there is no version 2"),
        ([RETIRED, numbered(1)], "INV-10", "the pipeline is retired"),
        ([numbered(1), numbered(2), asked(2)], "INV-10", "it is not the turn of run"),
        ([numbered(1), numbered(2), asked(1), asked(2)], "INV-10", "1 runs are open, 1 may be"),
        ([RunCancelled(command_id="c-3", number=1)], "INV-10", "does not wait"),
        ([FIRED], "INV-10", "there is no schedule a"),
        ([CREATED, FIRED, FIRED], "INV-12", "a is fired, number 1, not 2"),
        ([CREATED, ScheduleFired(name="a", fire=1, due_ms=2**50)], "INV-10", "fired before its time"),
        ([ScheduleDeleted(command_id="c-8", change=2, name="a")], "INV-10", "there is no schedule a"),
    ],
)
def test_what_a_pipeline_must_not_do_is_found(events: Sequence[Event], invariant: str, message: str) -> None:
    findings = found(*events)
    assert [each for each, text in findings if message in text] == [invariant], findings
