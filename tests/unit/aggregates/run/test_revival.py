"""Runs that are continued after their end, until they are archived."""

import pytest

from tests.unit.aggregates.given import of_kind
from tests.unit.aggregates.run.given import RunLog, started, step
from tests.unit.aggregates.run.test_steps import refused
from tests.unit.domain.given import STREAM
from trackside.aggregates.run import messages
from trackside.contracts.streams.commands import CommandRefused
from trackside.contracts.tasks.tasks import AttemptEnd, TaskHeld, TaskReleased

FAILED = AttemptEnd.FAILED
DAY_MS = 86_400_000


def failed_leaf() -> RunLog:
    log = started(step("a"), step("b", "a"), step("c", "a"), step("d", "c"))
    log.finish("a", {"n": 1})
    log.finish("b")
    log.finish("c", end=FAILED)
    assert log.run.status is messages.RunStatus.FAILED
    return log


def revived(log: RunLog) -> messages.RunRevived:
    return of_kind(messages.RunRevived, log.written)[-1]


def test_a_failed_leaf_is_run_again_with_what_was_omitted_and_the_rest_is_kept() -> None:
    """P15: a failed leaf."""
    log = failed_leaf()
    log.command(messages.RetryFailedSteps())
    assert (revived(log).reset, log.submitted) == (["c", "d"], ["a", "b", "c", "c.g1"])
    log.finish("c.g1")
    log.finish("d.g1")
    assert log.run.status is messages.RunStatus.SUCCEEDED
    assert log.states == dict.fromkeys("abcd", "succeeded")


def test_what_has_joined_a_skipped_branch_is_kept_and_a_restart_continues_what_was_aborted() -> None:
    join = step("join", needs={"all_ended": ["c"]})
    log = started(step("a"), step("b", "a", when="false"), step("c", "b"), join, step("f"))
    log.finish("a")
    log.finish("join")
    log.finish("f", end=FAILED)
    log.command(messages.RetryFailedSteps())
    assert revived(log).reset == ["f"]
    log = started(step("a"), step("b", "a"), step("c"))
    log.finish("c")
    log.command(messages.AbortPipelineRun())
    log.command(messages.RestartFromStep(steps=["c"]))
    assert revived(log).reset in (["b", "c"], ["a", "b", "c"])


def test_exactly_the_failed_items_of_a_fan_out_are_run_again() -> None:
    log = started(
        step("a", each=list(range(10)), parameters={"x": "${item}"}),
        step("b", parameters={"all": "${a.result}"}),
    )
    for index in range(10):
        log.finish(f"a.{index}", {"v": index}, end=FAILED if index == 7 else AttemptEnd.FINISHED)
    log.command(messages.RetryFailedSteps())
    assert (revived(log).indexes, log.submitted[10:]) == ({"a": [7]}, ["a.7.g1"])
    log.finish("a.7.g1", {"v": 77})
    assert log.stream.tasks[f"{STREAM}.b.g1"].parameters["all"][6:8] == [{"v": 6}, {"v": 77}]


def test_single_items_can_be_chosen_among_those_that_failed() -> None:
    log = started(step("a", each=[0, 1, 2]))
    for index in range(3):
        log.finish(f"a.{index}", end=AttemptEnd.FINISHED if index == 1 else FAILED)
    unknown = log.command(messages.RetryFailedSteps(indexes={"a": [1]}))
    assert refused(unknown) == ("unknown_index", "$.indexes.a")
    log.command(messages.RetryFailedSteps(indexes={"a": [2]}))
    assert log.submitted[3:] == ["a.2.g1"]
    log.finish("a.2.g1")
    assert log.run.steps["a"].ends == {"failed": 1, "succeeded": 2}
    log.command(messages.RetryFailedSteps())
    log.finish("a.0.g2")
    assert log.run.status is messages.RunStatus.SUCCEEDED


def test_a_patch_resets_a_step_that_succeeded_and_may_refer_to_those_that_were_kept() -> None:
    log = failed_leaf()
    patch = {"a": messages.StepPatch(parameters={"lr": 0.5}, queue="gpu")}
    log.command(messages.RetryFailedSteps(patch=patch))
    assert revived(log).reset == ["a", "b", "c", "d"]
    task = log.stream.tasks[f"{STREAM}.a.g1"]
    assert (task.parameters, task.needs.queue) == ({"lr": 0.5}, "gpu")
    log.finish("a.g1")
    assert log.submitted[-2:] == ["b.g1", "c.g1"]
    log = failed_leaf()
    log.command(messages.RetryFailedSteps(patch={"c": messages.StepPatch(parameters={"n": "${a.result.n}"})}))
    assert log.stream.tasks[f"{STREAM}.c.g1"].parameters == {"n": 1}


def test_a_patch_that_makes_a_cycle_or_names_no_step_is_refused() -> None:
    log = failed_leaf()
    not_failed = log.command(messages.RetryFailedSteps(steps=["b"]))
    assert refused(not_failed) == ("nothing_failed", "$.steps[0]")
    cycle = {"a": messages.StepPatch(parameters={"x": "${d.result.n}"})}
    assert refused(log.command(messages.RetryFailedSteps(patch=cycle)))[0] == "pipeline_cycle"
    unknown = log.command(messages.RestartFromStep(steps=["a"], patch={"e": messages.StepPatch()}))
    assert refused(unknown) == ("unknown_step", "$.patch.e")
    log.command(messages.RetryFailedSteps())
    assert log.run.status is messages.RunStatus.RUNNING


def test_a_retry_while_a_run_goes_on_or_is_aborted_is_refused() -> None:
    log = started(step("a"))
    log.place("a")
    assert refused(log.command(messages.RetryFailedSteps())) == ("run_not_over", "$partitionkey")
    log.command(messages.AbortPipelineRun())
    assert refused(log.command(messages.RetryFailedSteps())) == ("is_stopping", "$partitionkey")


def test_an_aborted_run_is_continued_where_it_was_and_a_fan_out_with_what_had_not_begun() -> None:
    log = started(step("a"), step("b", "a"), step("c", "b"))
    log.finish("a")
    log.place("b")
    log.command(messages.AbortPipelineRun())
    log.finish("b", end=AttemptEnd.CANCELLED)
    assert log.run.status is messages.RunStatus.ABORTED
    log.command(messages.RetryFailedSteps())
    log.finish("b.g1")
    log.finish("c.g1")
    assert (log.run.status, log.submitted) == (messages.RunStatus.SUCCEEDED, ["a", "b", "b.g1", "c.g1"])
    log = started(step("a", each=[0, 1, 2], at_once=1))
    log.finish("a.0")
    log.place("a.1")
    log.command(messages.AbortPipelineRun())
    log.finish("a.1", end=AttemptEnd.CANCELLED)
    log.command(messages.RetryFailedSteps())
    assert revived(log).indexes == {"a": [1, 2]}
    log.finish("a.1.g1")
    log.finish("a.2.g1")
    assert log.run.status is messages.RunStatus.SUCCEEDED


def test_a_run_is_restarted_from_a_step_that_had_succeeded() -> None:
    log = started(step("a"), step("b", "a"))
    log.finish("a")
    log.finish("b")
    assert refused(log.command(messages.RetryFailedSteps())) == ("nothing_failed", "$")
    log.command(messages.RestartFromStep(steps=["b"]))
    assert (log.submitted, log.run.status) == (["a", "b", "b.g1"], messages.RunStatus.RUNNING)


def test_a_time_limit_counts_from_the_revival() -> None:
    log = started(step("a"), timeout_s=60)
    log.finish("a", end=FAILED)
    log.next_offset += 100_000
    log.command(messages.RetryFailedSteps())
    assert (log.run.due_ms or 0) > log.run.started_ms + 100_000


@pytest.mark.parametrize("by_command", [False, True])
def test_a_run_is_archived_once_it_is_over_and_can_not_be_continued_then(by_command: bool) -> None:
    log = started(step("a"))
    assert refused(log.command(messages.ArchiveRun())) == ("run_not_over", "$partitionkey")
    log.finish("a", end=FAILED)
    due_ms = log.run.due_ms
    assert due_ms == log.run.ended_ms + 30 * DAY_MS
    log.command(messages.ArchiveRun()) if by_command else log.overdue(due_ms)
    assert isinstance(log.records[-1].message, messages.RunArchived)
    assert (log.run.archived, log.run.closed, log.stream.closed) == (True, True, True)
    for again in (messages.RetryFailedSteps(), messages.RestartFromStep(steps=["a"])):
        assert refused(log.command(again)) == ("run_archived", "$partitionkey")


@pytest.mark.parametrize("running", ["finish", "return"])
def test_a_paused_run_begins_nothing_until_it_is_resumed(running: str) -> None:
    log = started(step("a"), step("b", "a"))
    events = log.command("trackside.pause-pipeline-run.v1", {"running": running})
    held = of_kind(TaskHeld, events)
    assert [event.task_id for event in held] == ([f"{STREAM}.a"] if running == "return" else [])
    if running == "finish":
        log.finish("a")
        assert log.states == {"a": "succeeded", "b": "pending"}
    events = log.command(messages.ResumePipelineRun())
    assert of_kind(TaskReleased, events) == [TaskReleased(task_id=event.task_id, hold=1) for event in held]
    if running == "return":
        log.finish("a")
    assert log.states["b"] == "queued"


def test_a_pause_twice_is_one_and_one_that_is_over_is_refused() -> None:
    log = started(step("a"))
    [_, paused] = log.command(messages.PausePipelineRun(reason="the machine is needed"))
    assert isinstance(paused, messages.RunPaused)
    assert (paused.reason, len(log.command(messages.PausePipelineRun()))) == ("the machine is needed", 1)
    log.command(messages.ResumePipelineRun())
    log.finish("a")
    assert refused(log.command(messages.PausePipelineRun())) == ("already_terminal", "$partitionkey")


def test_limits_of_a_run_can_be_changed_while_it_goes_on() -> None:
    log = started(step("a", each=[0, 1, 2, 3]), concurrency=1)
    assert log.submitted == ["a.0"]
    log.command(messages.UpdatePipelineRun(concurrency=2, priority=9, timeout_s=5))
    assert (log.submitted, log.stream.tasks[f"{STREAM}.a.1"].needs.priority) == (["a.0", "a.1"], 9)
    assert log.run.due_ms == log.run.since_ms + 5_000
    assert refused(log.command("trackside.update-pipeline-run.v1", {})) == ("missing_field", "$")


def test_items_of_a_step_without_items_are_refused_and_the_step_is_not_its_own_hint() -> None:
    log = started(step("train"), step("trains", each=[0]))
    log.finish("train", end=FAILED)
    log.finish("trains.0", end=FAILED)
    outcome = log.command(messages.RetryFailedSteps(indexes={"train": [0]}))
    assert refused(outcome) == ("unknown_step", "$.indexes.train")
    [answer] = of_kind(CommandRefused, outcome)
    assert answer.message == f"run {STREAM} has no step 'train' with each; did you mean 'trains'?"
