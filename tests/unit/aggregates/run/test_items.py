"""Steps with several items: each, collect, repeat, and children."""

from typing import Any

import pytest

from tests.unit.aggregates.given import SPEC
from tests.unit.aggregates.run.given import RunLog, refusal, started, step
from tests.unit.domain.given import STREAM
from trackside.aggregates.run.messages import AbortPipelineRun, AbortStep, RunStatus
from trackside.aggregates.run.step_messages import StepEnded, StepExpanded, StepRepeated, StepState
from trackside.contracts.children import ChildEnded, ChildRequested, ChildStopRequested
from trackside.contracts.tasks import AttemptEnd, TaskSubmitted

FAILED = AttemptEnd.FAILED


def ended(log: RunLog, name: str) -> StepEnded:
    found = [event for event in log.written if isinstance(event, StepEnded) and event.step == name]
    return found[-1]


def test_a_step_with_each_has_a_task_for_each_item_and_one_event_keeps_the_items() -> None:
    log = started(step("a", each=[1, {"lr": 2}], parameters={"x": "${item}", "n": "${index}"}))
    expanded = [event for event in log.written if isinstance(event, StepExpanded)]
    assert expanded == [StepExpanded(step="a", items=[1, {"lr": 2}])]
    assert [log.stream.tasks[f"{STREAM}.a.{at}"].parameters for at in (0, 1)] == [
        {"x": 1, "n": 0},
        {"x": {"lr": 2}, "n": 1},
    ]


def test_the_items_of_an_earlier_result_are_those_at_that_time() -> None:
    log = started(step("a"), step("b", each="${a.result.files}", parameters={"f": "${item.path}"}))
    log.finish("a", {"files": [{"path": "x"}, {"path": "y"}]})
    assert log.submitted == ["a", "b.0", "b.1"]
    assert log.stream.tasks[f"{STREAM}.b.1"].parameters == {"f": "y"}


def test_no_items_are_a_success() -> None:
    log = started(step("a", each=[]), step("b", "a"))
    assert log.states == {"a": "succeeded", "b": "queued"}


@pytest.mark.parametrize(
    ("given", "code"),
    [({"files": 3}, "bad_items"), ({"files": list(range(10_001))}, "too_many_items"), ({}, "ref_error")],
)
def test_a_result_that_is_not_a_list_of_items_fails_the_step(given: Any, code: str) -> None:
    log = started(step("a"), step("b", each="${a.result.files}"), step("c", "a"))
    log.finish("a", given)
    assert (ended(log, "b").kind, log.states["c"]) == (code, "queued")


def test_an_item_without_what_the_step_refers_to_fails_the_step_before_any_begins() -> None:
    log = started(step("a", each=[{"lr": 1}, {}], parameters={"x": "${item.lr}"}), concurrency=1)
    assert log.submitted == []
    assert ended(log, "a").kind == "ref_error"


def test_10_001_items_are_refused() -> None:
    assert refusal(step("a", each=list(range(10_001)))) == [("too_many_items", "$.pipeline.steps[0].each")]


def test_all_items_must_succeed_unless_the_step_collects() -> None:
    log = started(step("a", each=[0, 1, 2]))
    log.finish("a.0")
    log.finish("a.2")
    log.finish("a.1", end=FAILED)
    event = ended(log, "a")
    assert (event.status, event.kind, event.ends) == (
        StepState.FAILED,
        "failed",
        {"failed": 1, "succeeded": 2},
    )


def test_a_step_may_collect_with_partial_success() -> None:
    log = started(
        step("a", each=[0, 1, 2], collect="succeeded >= 2 and failed < total"),
        step("b", parameters={"all": "${a.result}"}),
    )
    log.finish("a.2", {"v": 2})
    log.finish("a.0", {"v": 0})
    log.finish("a.1", {"v": 1}, end=FAILED)
    assert (ended(log, "a").status, ended(log, "a").value) == (StepState.SUCCEEDED, True)
    assert log.stream.tasks[f"{STREAM}.b"].parameters == {"all": [{"v": 0}, None, {"v": 2}]}


def test_a_step_that_collects_too_little_fails() -> None:
    log = started(step("a", each=[0, 1], collect="states['succeeded'] == total"))
    log.finish("a.0")
    log.finish("a.1", end=AttemptEnd.CANCELLED)
    assert (ended(log, "a").status, ended(log, "a").value) == (StepState.ABORTED, False)


def test_the_artifacts_of_all_items_are_a_list() -> None:
    log = started(step("a", each=[0, 1]), step("b", parameters={"all": "${a.artifacts.net.name}"}))
    log.finish("a.0", net="model")
    log.finish("a.1", net="model")
    assert log.stream.tasks[f"{STREAM}.b"].parameters == {"all": ["net", "net"]}


def test_one_item_is_aborted_and_the_others_go_on() -> None:
    log = started(step("a", each=[0, 1], collect="succeeded > 0"))
    log.place("a.0")
    log.command(AbortStep(step="a", index=0))
    assert [log.stream.tasks[f"{STREAM}.a.{at}"].stop_reason for at in (0, 1)] == ["user", ""]
    log.finish("a.0", end=AttemptEnd.CANCELLED)
    log.finish("a.1")
    assert ended(log, "a").ends == {"aborted": 1, "succeeded": 1}


def test_a_step_that_is_aborted_begins_no_more_items() -> None:
    log = started(step("a", each=[0, 1, 2], at_once=1))
    log.place("a.0")
    log.command(AbortStep(step="a"))
    log.finish("a.0")
    assert log.submitted == ["a.0"]
    assert ended(log, "a").status is StepState.ABORTED


@pytest.mark.thorough
def test_many_items_are_submitted_in_decisions_of_bounded_size() -> None:
    log = started(step("a", each=list(range(1_000)), parameters={"x": "${item}"}))
    assert log.submitted == [f"a.{at}" for at in range(1_000)]
    counts: dict[bytes, int] = {}
    for record in log.records:
        if isinstance(record.message, TaskSubmitted):
            decision = record.envelope.decision_id or b"%d" % record.offset  # one event, alone
            counts[decision] = counts.get(decision, 0) + 1
    assert max(counts.values()) <= 100


def test_a_step_is_repeated_until_its_expression_holds() -> None:
    log = started(
        step("a", repeat={"until": "result.loss < 0.1", "times": 5}, parameters={"n": "${index}"}),
        step("b", parameters={"loss": "${a.result.loss}"}),
    )
    events = log.finish("a.0", {"loss": 0.5})
    assert events[0] == StepRepeated(step="a", index=1, value=False)
    assert log.stream.tasks[f"{STREAM}.a.1"].parameters == {"n": 1}
    log.finish("a.1", {"loss": 0.05})
    assert (ended(log, "a").status, ended(log, "a").value) == (StepState.SUCCEEDED, True)
    assert log.stream.tasks[f"{STREAM}.b"].parameters == {"loss": 0.05}


def test_a_repetition_is_bounded() -> None:
    log = started(step("a", repeat={"until": "result.loss < 0.1", "times": 2}))
    log.finish("a.0", {"loss": 1})
    log.finish("a.1", {"loss": 1})
    assert (ended(log, "a").status, ended(log, "a").kind) == (StepState.FAILED, "repeat_limit")


def test_a_step_of_an_aborted_run_that_would_be_repeated_is_aborted() -> None:
    log = started(step("a", repeat={"until": "result.loss < 0.1", "times": 5}))
    log.place("a.0")
    log.command(AbortPipelineRun())
    log.finish("a.0", {"loss": 1})
    assert (log.states["a"], log.run.status) == ("aborted", RunStatus.ABORTED)


def test_an_expression_of_a_repetition_without_a_value_fails_its_step() -> None:
    log = started(step("a", repeat={"until": "result.loss < 0.1", "times": 2}))
    log.finish("a.0", {"n": 1})
    assert ended(log, "a").kind == "ref_error"


def child(name: str, *needs: str, **more: Any) -> Any:
    return step(name, *needs, kind="search", spec={**SPEC, "task_type": "noop", **more})


def test_a_step_that_is_a_search_begins_a_stream_of_its_own() -> None:
    log = started(step("a"), child("s", "a", max_trials="${a.result.n}"))
    events = log.finish("a", {"n": 2})
    (requested,) = (event for event in events if isinstance(event, ChildRequested))
    assert (requested.child_id, requested.kind, requested.body["max_trials"]) == (f"{STREAM}.s", "search", 2)
    assert log.streams.by_id[f"{STREAM}.s"].kind == "search"
    assert log.states["s"] == "running"


def test_a_child_that_is_refused_fails_its_step() -> None:
    log = started(step("a"), child("s", "a", max_trials="${a.result.n}"))
    log.finish("a", {"n": "many"})
    assert (log.states["s"], ended(log, "s").kind) == ("failed", "refused")
    (event,) = (event for event in log.written if isinstance(event, ChildEnded))
    assert event.result["problems"][0]["code"] == "wrong_type"


def test_stopping_goes_down_and_ends_come_up() -> None:
    log = started(child("s"))
    events = log.command(AbortPipelineRun(reason="enough"))
    assert ChildStopRequested(child_id=f"{STREAM}.s", reason="user") in events
    assert (log.states["s"], log.run.status) == ("aborted", RunStatus.ABORTED)


def test_a_run_is_a_step_of_another_run() -> None:
    inner = {"pipeline": {"steps": [step("x")], "outputs": {"rows": "${x.result.rows}"}}}
    log = started(step("r", kind="run", spec=inner), step("b", parameters={"rows": "${r.result.rows}"}))
    log.end_in(f"{STREAM}.r", f"{STREAM}.r.x", {"rows": 5})
    assert log.stream.tasks[f"{STREAM}.b"].parameters == {"rows": 5}


def test_each_item_may_be_a_child() -> None:
    log = started(
        step("s", kind="search", each=[1, 2], spec={**SPEC, "task_type": "noop", "max_trials": "${item}"})
    )
    found = [event.child_id for event in log.written if isinstance(event, ChildRequested)]
    assert found == [f"{STREAM}.s.0", f"{STREAM}.s.1"]
