"""Steps with several items: each, collect, repeat, and children."""

from typing import Any

import pytest

from tests.unit.aggregates.given import SPEC
from tests.unit.aggregates.run.given import RunLog, started, step
from tests.unit.domain.given import STREAM
from trackside.aggregates.run.messages import AbortPipelineRun, AbortStep, RunStatus
from trackside.aggregates.run.step_messages import StepEnded, StepExpanded, StepRepeated, StepState
from trackside.contracts.streams.children import ChildEnded, ChildRequested, ChildStopRequested
from trackside.contracts.tasks.tasks import AttemptEnd, TaskSubmitted

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
    assert (log.submitted, log.stream.tasks[f"{STREAM}.b.1"].parameters) == (["a", "b.0", "b.1"], {"f": "y"})


@pytest.mark.parametrize(
    ("given", "code"),
    [({"files": 3}, "bad_items"), ({"files": list(range(10_001))}, "too_many_items"), ({}, "ref_error")],
)
def test_a_result_that_is_not_a_list_of_items_fails_the_step(given: Any, code: str) -> None:
    log = started(step("a"), step("b", each="${a.result.files}"), step("c", "a"))
    log.finish("a", given)
    assert (ended(log, "b").kind, log.states["c"]) == (code, "queued")
    log = started(step("a", each=[{"lr": 1}, {}], parameters={"x": "${item.lr}"}), concurrency=1)
    assert (log.submitted, ended(log, "a").kind) == ([], "ref_error"), "before any item begins"


@pytest.mark.parametrize(
    ("collect", "end", "status", "value"),
    [
        ({}, FAILED, StepState.FAILED, None),
        ({"collect": "succeeded >= 2 and failed < total"}, FAILED, StepState.SUCCEEDED, True),
        ({"collect": "states['succeeded'] == total"}, AttemptEnd.CANCELLED, StepState.ABORTED, False),
    ],
)
def test_items_must_succeed_unless_the_step_collects(collect: Any, end: Any, status: Any, value: Any) -> None:
    log = started(step("a", each=[0, 1, 2], **collect), step("b", parameters={"all": "${a.result}"}))
    log.finish("a.2", {"v": 2})
    log.finish("a.0", {"v": 0})
    log.finish("a.1", {"v": 1}, end=end)
    event = ended(log, "a")
    assert (event.status, event.value) == (status, value)
    assert event.ends == {"failed" if end is FAILED else "aborted": 1, "succeeded": 2}
    assert event.kind == ("failed" if value is None else event.kind)
    if value:
        assert log.stream.tasks[f"{STREAM}.b"].parameters == {"all": [{"v": 0}, None, {"v": 2}]}


def test_the_artifacts_of_all_items_are_a_list_and_no_items_are_a_success() -> None:
    log = started(step("a", each=[0, 1]), step("b", parameters={"all": "${a.artifacts.net.name}"}))
    log.finish("a.0", net="model")
    log.finish("a.1", net="model")
    assert log.stream.tasks[f"{STREAM}.b"].parameters == {"all": ["net", "net"]}
    assert started(step("a", each=[]), step("b", "a")).states == {"a": "succeeded", "b": "queued"}


def test_one_item_is_aborted_and_the_others_go_on_and_a_step_that_is_begins_no_more_items() -> None:
    log = started(step("a", each=[0, 1], collect="succeeded > 0"))
    log.place("a.0")
    log.command(AbortStep(step="a", index=0))
    assert [log.stream.tasks[f"{STREAM}.a.{at}"].stop_reason for at in (0, 1)] == ["user", ""]
    log.finish("a.0", end=AttemptEnd.CANCELLED)
    log.finish("a.1")
    assert ended(log, "a").ends == {"aborted": 1, "succeeded": 1}
    log = started(step("a", each=[0, 1, 2], at_once=1))
    log.place("a.0")
    log.command(AbortStep(step="a"))
    log.finish("a.0")
    assert (log.submitted, ended(log, "a").status) == (["a.0"], StepState.ABORTED)


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


@pytest.mark.parametrize(
    ("results", "kind"), [([{"loss": 1}] * 2, "repeat_limit"), ([{"n": 1}], "ref_error")]
)
def test_a_repetition_is_bounded_and_fails_without_a_value(results: list[Any], kind: str) -> None:
    log = started(step("a", repeat={"until": "result.loss < 0.1", "times": 2}))
    for number, result in enumerate(results):
        log.finish(f"a.{number}", result)
    assert (ended(log, "a").status, ended(log, "a").kind) == (StepState.FAILED, kind)


def test_a_step_of_an_aborted_run_that_would_be_repeated_is_aborted() -> None:
    log = started(step("a", repeat={"until": "result.loss < 0.1", "times": 5}))
    log.place("a.0")
    log.command(AbortPipelineRun())
    log.finish("a.0", {"loss": 1})
    assert (log.states["a"], log.run.status) == ("aborted", RunStatus.ABORTED)


def child(name: str, *needs: str, each: Any = None, **more: Any) -> Any:
    spec = {**SPEC, "task_type": "noop", **more}
    return step(name, *needs, kind="search", spec=spec, **({} if each is None else {"each": each}))


@pytest.mark.parametrize("number", [2, "many"])
def test_a_step_that_is_a_search_begins_a_stream_of_its_own_or_fails_if_that_is_refused(number: Any) -> None:
    log = started(step("a"), child("s", "a", max_trials="${a.result.n}"))
    log.finish("a", {"n": number})
    (requested,) = (event for event in log.written if isinstance(event, ChildRequested))
    where = (requested.child_id, requested.kind, requested.body["max_trials"])
    assert where == (f"{STREAM}.s", "search", number)
    if number == 2:
        assert (log.streams.by_id[f"{STREAM}.s"].kind, log.states["s"]) == ("search", "running")
        return
    assert (log.states["s"], ended(log, "s").kind) == ("failed", "refused")
    (event,) = (event for event in log.written if isinstance(event, ChildEnded))
    assert event.result["problems"][0]["code"] == "wrong_type"


def test_a_run_is_a_step_of_another_run() -> None:
    inner = {"pipeline": {"steps": [step("x")], "outputs": {"rows": "${x.result.rows}"}}}
    log = started(step("r", kind="run", spec=inner), step("b", parameters={"rows": "${r.result.rows}"}))
    log.end_in(f"{STREAM}.r", f"{STREAM}.r.x", {"rows": 5})
    assert log.stream.tasks[f"{STREAM}.b"].parameters == {"rows": 5}


def test_each_item_may_be_a_child_and_stopping_goes_down_and_ends_come_up() -> None:
    log = started(child("s", each=[1, 2]))
    found = [event.child_id for event in log.written if isinstance(event, ChildRequested)]
    assert found == [f"{STREAM}.s.0", f"{STREAM}.s.1"]
    events = log.command(AbortPipelineRun(reason="enough"))
    stops = [event for event in events if isinstance(event, ChildStopRequested)]
    assert stops == [ChildStopRequested(child_id=name, reason="user") for name in found]
    assert (log.states["s"], log.run.status) == ("aborted", RunStatus.ABORTED)
