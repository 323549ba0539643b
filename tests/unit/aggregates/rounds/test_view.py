"""What people see of a job: how far its triggers are, its rounds as a table, what it waits for."""

from typing import Any

from tests.unit.aggregates.rounds.history import JobHistory, definition
from trackside.aggregates.rounds.display.round_display import (
    as_number,
    result_of,
    round_table,
    shown_metric,
    why_of,
)
from trackside.aggregates.rounds.display.trigger_display import progress_text, trigger_text
from trackside.aggregates.rounds.view import IncrementalJobView

VIEW = IncrementalJobView()
CONDITION = {"metric": "accuracy_delta", "operator": ">", "threshold": 0.1, "value": 0.05, "holds": False}


def round_row(number: int, **changed: Any) -> dict[str, Any]:
    row: dict[str, Any] = {"round": number, "status": "completed", "stage": "deploy", "train_samples": 80}
    row |= {"eval_samples": 20, "base_version": number, "version": number + 1}
    row |= {"trained": {"accuracy": 0.9, "loss": 0.2}, "deployed_metrics": {"accuracy": 0.85, "loss": 0.3}}
    row |= {"conditions": [CONDITION], "approval": None, "deployed": False, "reason": ""}
    row |= {"decision_reason": "accuracy_delta > 0.02: it is 0.05", "duration_s": 12.0}
    return row | changed


def seen(metric: str, operator: str, threshold: float, value: Any, reason: str = "") -> dict[str, Any]:
    return {"metric": metric, "operator": operator, "threshold": threshold, "value": value, "reason": reason}


def test_a_trigger_reads_as_people_say_it() -> None:
    enough = {"type": "condition", "metric": "num_of_samples", "operator": "ge", "threshold": 500}
    night = {"type": "daily", "start": "22:00", "end": "06:00", "timezone": "Europe/Berlin"}
    both = {"type": "all_of", "triggers": [enough, night]}
    either = {"type": "any_of", "triggers": [{"type": "manual"}, both]}
    spec = definition(train={"task_type": "train", "trigger": either})
    said = "by command or (num_of_samples >= 500 and daily 22:00-06:00 Europe/Berlin)"
    assert (trigger_text(spec.train.trigger), trigger_text(None)) == (said, "always")


def test_how_far_a_number_is_of_its_threshold() -> None:
    for found, said in (
        (seen("num_of_samples", ">=", 500.0, 340.0), "num_of_samples 340 of 500"),
        (seen("f1_delta", ">", 0.05, 0.02), "f1_delta 0.02, needs > 0.05"),
        (seen("drift", ">", 0.5, None, "it is missing"), "drift needs > 0.5: it is missing"),
    ):
        assert progress_text(found) == said


def test_a_job_that_is_watched_says_how_many_samples_it_still_needs_or_who_is_to_approve() -> None:
    """I41: what a job waits for is seen, not guessed."""
    told = JobHistory()
    told.assign(50)
    found = VIEW.progress(told.stream)
    assert found.line == "0 rounds ended: train Waiting"
    assert "trigger train: num_of_samples >= 80 (num_of_samples 40 of 80)" in found.lines
    assert found.waits
    told.assign(50)
    told.train()
    told.evaluate(0.9, 0.8)
    told.decide(deploy=True, approval=True)
    assert "the deployment waits: trackside approve digits-1" in VIEW.progress(told.stream).lines


def test_the_state_of_a_job_has_its_samples_and_what_is_live() -> None:
    told = JobHistory()
    told.whole_round(0.9, 0.8)
    told.assign(10)
    state = VIEW.state(told.stream)
    names = ("round", "live", "waiting_samples", "samples")
    assert [state[name] for name in names] == [1, "digits@2", 8, 110]
    assert state["evaluation_ranges"] == [[0, 100]]
    assert any(line.startswith("stage=train") for line in VIEW.state_lines(state))


def test_the_result_of_a_round_is_one_word() -> None:
    for changed, result in (
        ({}, "kept"),
        ({"deployed": True}, "deployed"),
        ({"status": "failed"}, "failed"),
        ({"approval": "rejected"}, "rejected"),
        ({"status": "running", "stage": "eval"}, "eval"),
    ):
        assert result_of(round_row(1, **changed)) == result


def test_the_table_of_rounds_shows_the_metric_that_decides() -> None:
    """I41: new and old metrics of each round, and the difference; long reasons leave room for them."""
    nothing = dict.fromkeys(("trained", "deployed_metrics", "conditions"))
    failed = round_row(2, **nothing, status="failed", reason="x" * 500)
    table = round_table([round_row(1), failed])
    cells = [dict(zip([column.heading for column in table.columns], row, strict=True)) for row in table.rows]
    assert (cells[0]["accuracy"], cells[0]["live"], cells[0]["delta"]) == (0.9, 0.85, "+0.05")
    assert (cells[1]["accuracy"], cells[1]["result"]) == (None, "failed")
    assert len(str(table.rows[1][-1])) <= 26


def test_without_a_condition_any_metric_of_a_round_is_shown_and_a_list_counts_as_its_mean() -> None:
    assert (shown_metric([round_row(1, conditions=None)]), shown_metric([])) == ("accuracy", "")
    found = [as_number(value) for value in ([0.5, 1.0], 3, "good", None, [0.5, None])]
    assert found == [0.75, 3, None, None, None]


def test_a_round_says_why_where_its_numbers_do_not() -> None:
    for changed, why in (
        ({}, "needs > 0.1"),
        ({"conditions": [CONDITION | {"reason": "there is no metric"}]}, "there is no metric"),
        ({"conditions": [CONDITION | {"holds": True}], "deployed": True}, ""),
        ({"deployed": True, "decision_reason": "forced by a command"}, "forced by a command"),
        ({"status": "failed", "reason": "exit code 1"}, "exit code 1"),
    ):
        assert why_of(round_row(1, **changed)) == why
