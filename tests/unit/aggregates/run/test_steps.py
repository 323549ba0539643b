"""Steps of runs that wait for each other: what begins when, and how a run ends."""

import pytest

from tests.unit.aggregates.run.given import started, step
from tests.unit.domain.given import STREAM
from trackside.aggregates.run.messages import AbortPipelineRun, AbortStep, RunEnded, RunStatus, SkipStep
from trackside.aggregates.run.step_messages import StepEnded, StepReady, StepSkipped, StepState
from trackside.contracts.envelope.message import Event
from trackside.contracts.streams.commands import CommandRefused
from trackside.contracts.tasks.tasks import AttemptEnd, TaskStopRequested, TaskSubmitted

FAILED, CANCELLED = AttemptEnd.FAILED, AttemptEnd.CANCELLED


def refused(events: list[Event]) -> tuple[str, str]:
    (event,) = events
    assert isinstance(event, CommandRefused)
    return event.code, event.path


def test_a_step_begins_in_the_decision_that_ends_the_last_that_it_needs() -> None:
    log = started(step("a"), step("b"), step("c", "a", "b"))
    assert log.submitted == ["a", "b"]
    log.finish("b")
    assert log.states == {"a": "queued", "b": "succeeded", "c": "pending"}
    assert [type(event) for event in log.finish("a")] == [StepEnded, StepReady, TaskSubmitted]
    assert len({record.envelope.decision_id for record in log.records[-3:]}) == 1
    assert log.submitted == ["a", "b", "c"]


def test_a_run_succeeds_when_every_step_has() -> None:
    log = started(step("a"), step("b", "a"), outputs={"rows": "${a.result.rows}", "lost": "${b.result.x}"})
    log.finish("a", {"rows": 3})
    (_, ended) = log.finish("b")
    assert ended == RunEnded(status=RunStatus.SUCCEEDED, outputs={"rows": 3})
    assert log.run.over
    assert not log.run.closed


def test_steps_that_nothing_connects_run_at_once_within_the_concurrency_of_the_run() -> None:
    log = started(*(step(f"s{number}") for number in range(5)), concurrency=2)
    assert log.submitted == ["s0", "s1"]
    log.finish("s1")
    assert log.submitted == ["s0", "s1", "s2"]
    for name in ("s0", "s2", "s3", "s4"):
        log.finish(name)
    assert log.run.status is RunStatus.SUCCEEDED


def test_a_failed_step_omits_its_descendants_and_other_branches_go_on() -> None:
    """P18: the pipeline fails in the end, with the step as its cause."""
    log = started(step("a"), step("b", "a"), step("c", "b"), step("other"), step("after", "other"))
    log.finish("a", end=FAILED)
    assert {name: log.states[name] for name in "abc"} == {"a": "failed", "b": "omitted", "c": "omitted"}
    assert (log.states["other"], log.states["after"]) == ("queued", "pending")
    log.finish("other")
    (*_, ended) = log.finish("after")
    assert ended == RunEnded(status=RunStatus.FAILED, causes=["a"])


@pytest.mark.parametrize(
    ("end", "state"),
    [
        pytest.param(AttemptEnd.CANCELLED, StepState.ABORTED, id="P19"),
        pytest.param(AttemptEnd.TIMED_OUT_RUN, StepState.TIMED_OUT, id="P20"),
        pytest.param(AttemptEnd.TIMED_OUT_QUEUE, StepState.TIMED_OUT, id="P21"),
        pytest.param(AttemptEnd.LOST, StepState.LOST, id="P37 P40 lost"),
        pytest.param(AttemptEnd.OOM_HOST, StepState.FAILED, id="out of memory"),
    ],
)
def test_what_was_aborted_timed_out_or_lost_is_not_a_success(end: AttemptEnd, state: StepState) -> None:
    log = started(step("a", retry={"lost": 0, "oom_host": 0}), step("b", "a"))
    events = log.finish("a", end=end)
    assert (events[0], log.states["b"]) == (StepEnded(step="a", status=state, kind=end.value), "omitted")
    assert log.run.status is RunStatus.FAILED


def test_the_needs_of_a_task_are_those_of_its_step_and_else_the_defaults_of_its_pipeline() -> None:
    """P9, P21, P24, P26: the time limits of the queue and of the run are apart, and in seconds."""
    retry = {"failed": {"times": 2}}
    own = step("b", queue_timeout_s=5, run_timeout_s=60, priority=9)
    log = started(step("a"), own, defaults={"queue": "cpu", "priority": 3, "retry": retry})
    first, second = (log.stream.tasks[f"{STREAM}.{name}"].needs for name in "ab")
    assert (first.queue, first.priority, first.retry.failed.times) == ("cpu", 3, 2)
    assert (second.queue_timeout_s, second.run_timeout_s, second.queue, second.priority) == (5, 60, "cpu", 9)


def test_what_follows_a_failed_step_is_said_by_its_on_end() -> None:
    for action, states, status in (
        ("skip", {"b": "omitted", "other": "queued"}, RunStatus.RUNNING),
        ("continue", {"b": "queued", "other": "queued"}, RunStatus.RUNNING),
        ("fail", {"b": "omitted", "other": "aborted"}, RunStatus.FAILED),
    ):
        log = started(step("a", on_end={"failed": action}), step("b", "a"), step("other"))
        log.finish("a", end=FAILED)
        assert ({name: log.states[name] for name in states}, log.run.status) == (states, status)
        if action == "continue":
            log.finish("b")
            log.finish("other")
            assert log.run.status is RunStatus.SUCCEEDED


def test_a_step_that_fails_the_run_stops_what_is_open_first() -> None:
    log = started(step("a"), step("slow"), step("b", "slow"), on_end="fail")
    log.place("slow")
    events = log.finish("a", end=FAILED)
    assert TaskStopRequested(task_id=f"{STREAM}.slow", reason="run_failed") in events
    assert not log.run.over
    log.finish("slow", end=CANCELLED)
    assert log.states == {"a": "failed", "slow": "aborted", "b": "omitted"}
    assert (log.run.status, log.run.causes) == (RunStatus.FAILED, ["a"])


@pytest.mark.parametrize("second", [AttemptEnd.FINISHED, FAILED])
def test_a_step_that_needs_any_of_two_waits_until_one_succeeds_or_both_failed(second: AttemptEnd) -> None:
    log = started(step("a"), step("b"), step("c", needs={"any_of": ["a", "b"]}))
    log.finish("a", end=FAILED)
    assert log.states["c"] == "pending"
    events = log.finish("b", end=second)
    assert log.states["c"] == ("omitted" if second is FAILED else "queued")
    assert (StepSkipped(step="c", by="upstream", cause="b") in events) is (second is FAILED)


def test_a_step_that_needs_ends_joins_branches_that_were_skipped_or_failed() -> None:
    join = step("join", needs={"all_ended": ["b", "c"]})
    log = started(step("a"), step("b", "a", when="a.result.go"), step("c"), join)
    log.finish("a", {"go": False})
    assert log.states["b"] == "skipped"
    log.finish("c", end=FAILED)
    assert log.states["join"] == "queued"


def test_a_step_whose_condition_does_not_hold_is_skipped_and_its_descendants_are_omitted() -> None:
    """P35: and the run succeeds; the event has the expression and its value."""
    log = started(step("a"), step("b", "a", when="a.result.rows > 10"), step("c", "b"))
    events = log.finish("a", {"rows": 3})
    assert events[1] == StepSkipped(step="b", by="when", expression="a.result.rows > 10", value=False)
    assert (log.states["c"], log.run.status) == ("omitted", RunStatus.SUCCEEDED)
    log = started(step("a"), step("b", "a", when="a.result.rows"))
    assert log.finish("a", {"rows": 3})[1] == StepReady(step="b", value=3), "the value of one that holds"


def test_a_condition_without_a_value_fails_its_step_and_nothing_else() -> None:
    log = started(step("a"), step("b", "a", when="a.result.rows > 1"), step("c", "a"))
    log.finish("a", {"n": 1})
    assert (log.states["b"], log.states["c"]) == ("failed", "queued")
    error = log.run.steps["b"].error
    assert error is not None
    assert (error.code, error.message) == ("ref_error", "when: a.result has no 'rows': it has n")


def test_an_aborted_run_begins_nothing_and_ends_what_is_open_before_it_is_over() -> None:
    log = started(step("a"), step("b", "a"), step("c"))
    log.place("a")
    log.place("c")
    events = log.command(AbortPipelineRun(reason="wrong data"))
    stops = [event.task_id for event in events if isinstance(event, TaskStopRequested)]
    assert stops == [f"{STREAM}.a", f"{STREAM}.c"]
    assert (log.run.status, log.states["b"]) == (RunStatus.ABORTING, "omitted")
    log.finish("a", end=CANCELLED)
    assert not log.run.over
    log.finish("c")  # it had finished before it was stopped
    assert log.states == {"a": "aborted", "b": "omitted", "c": "succeeded"}
    assert (log.run.status, log.run.stop_reason) == (RunStatus.ABORTED, "wrong data")


def test_a_run_is_aborted_once_and_its_stream_stays_taken() -> None:
    log = started(step("a"))
    log.place("a")
    log.command(AbortPipelineRun())
    assert len(log.command(AbortPipelineRun())) == 1
    log.finish("a", end=CANCELLED)
    assert refused(log.command(AbortPipelineRun())) == ("already_terminal", "$partitionkey")
    again = log.command("trackside.start-pipeline-run.v1", {"pipeline": {"steps": [step("a")]}})
    assert refused(again) == ("already_exists", "$partitionkey")


def test_the_time_limit_of_a_run_ends_its_open_steps_and_then_the_run() -> None:
    """P22: what runs is not left behind."""
    log = started(step("a"), step("b", "a"), timeout_s=60)
    log.place("a")
    due_ms = log.run.due_ms
    assert due_ms == log.run.started_ms + 60_000
    events = log.overdue(due_ms)
    assert TaskStopRequested(task_id=f"{STREAM}.a", reason="run_timeout") in events
    log.finish("a", end=CANCELLED)
    assert log.run.status is RunStatus.TIMED_OUT


def test_an_operator_skips_a_step_that_has_not_begun() -> None:
    log = started(step("a"), step("b", "a"), step("c", "b"))
    log.command(SkipStep(step="b", reason="known"))
    assert log.states == {"a": "queued", "b": "skipped", "c": "omitted"}
    assert refused(log.command(SkipStep(step="a"))) == ("step_begun", "$.step")
    log.finish("a")
    assert log.run.status is RunStatus.SUCCEEDED


def test_an_operator_aborts_a_step_that_is_open_and_the_run_goes_on() -> None:
    log = started(step("a"), step("b"))
    log.place("a")
    log.command(AbortStep(step="a", reason="too slow"))
    assert log.stream.tasks[f"{STREAM}.a"].stop_reason == "user"
    log.finish("a", end=CANCELLED)
    assert (log.states["a"], log.run.status) == ("aborted", RunStatus.RUNNING)
    assert refused(log.command(AbortStep(step="a"))) == ("step_not_open", "$.step")
