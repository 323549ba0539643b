from typing import Any

import pytest

from tests.unit.domain import given
from trackside.aggregates.search.messages import SearchEnded, SearchStatus
from trackside.contracts.envelope.message import Message
from trackside.contracts.tasks.tasks import AttemptEnd, TaskStatus
from trackside.domain.outcome import Outcome
from trackside.projections.tables.ignored_reports import IgnoredReportRows, ignored_reason


def why(told: given.Told, event: Message, role: str = "") -> str | None:
    """Tells an event that has no effect and returns the reason; its row says the same."""
    record = given.record_of(event, 0, role)
    assert told.fold(record) is not Outcome.APPLIED
    stream = told.stream
    reason = ignored_reason(stream, record)
    rows = list(IgnoredReportRows().rows(stream, record))
    assert [row[-2] for row in rows] == ([] if reason is None else [reason])
    return reason


def test_d16_a_second_final_value_is_a_repeat_and_the_first_one_stays() -> None:
    told = given.task_active()
    told.tell(given.report(0, 0.5, final=True))
    assert why(told, given.report(0, 0.9, final=True)) == "repeat"
    assert told.task().final == 0.5


def test_d17_a_step_that_does_not_rise_is_a_repeat_and_a_gap_is_none() -> None:
    told = given.task_active()
    assert told.tell(given.report(0, 0.5), given.report(7, 0.6)) == [Outcome.APPLIED] * 2
    assert why(told, given.report(3, 0.9)) == "repeat"
    assert told.task().reports == [(0, 0.5), (7, 0.6)]


def test_d18_a_report_of_an_attempt_or_a_training_that_is_over_is_stale() -> None:
    told = given.task_active(retry={"failed": 1})
    told.tell(given.status(TaskStatus.TRAINING))
    told.tell(given.interrupted(1))
    assert why(told, given.report(0, 0.5)) == "stale"
    told.tell(given.ended(AttemptEnd.FAILED))
    assert why(told, given.report(0, 0.5, interrupts=1)) == "stale"


def test_d03_a_final_value_behind_the_end_of_its_trial_is_late_and_changes_nothing() -> None:
    told = given.task_active(concurrency=1, max_trials=1)
    told.tell(given.ended())
    assert why(told, given.report(0, 0.9, final=True)) == "late"
    told.tell(given.over(0))
    assert why(told, given.report(0, 0.9, final=True)) == "late"
    assert told.search.trials[0].value is None
    told.tell(SearchEnded(status=SearchStatus.DONE, trials=1))
    assert why(told, given.report(0, 0.9, trial=5)) == "late"


def test_d30_a_report_for_an_unknown_trial_is_an_orphan_and_one_that_no_worker_wrote_is_foreign() -> None:
    assert why(given.task_active(), given.report(0, 0.5, trial=9)) == "orphan"
    assert why(given.task_active(), given.report(0, 0.5), "scheduler") == "foreign"
    assert why(given.task_queued(), given.report(0, 0.5)) == "stale", "the task does not run yet"
    told = given.task_active()
    given.finish(told, 0, 0.5)
    assert why(told, given.over(0)) is None, "it is no report"


@pytest.mark.parametrize("cell", ["task_id", "stream_id"])
def test_a_row_holds_what_postgres_can(cell: str) -> None:
    event = given.report(2**70, 0.5).model_copy(update={"task_id": "a\x00b"})
    told = given.task_active()
    record = given.record_of(event, 0)
    told.fold(record)
    (row,) = IgnoredReportRows().rows(told.stream, record)
    named: dict[str, Any] = dict(zip(IgnoredReportRows.table.columns, row, strict=True))
    assert named["step"] == 2**63 - 1
    assert named[cell] == {"task_id": "a\ufffdb", "stream_id": given.STREAM}[cell]
