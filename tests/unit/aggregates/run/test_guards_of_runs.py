"""What the guards of a run's own events refuse, one condition after another."""

from tests.unit.aggregates.run.given import started, step
from tests.unit.aggregates.run.proofs import (
    end_task,
    ending,
    over,
    pass_until,
    proves,
    refuses,
    task_of,
    waiting,
    write,
)
from trackside.aggregates.run.messages import (
    RunAbortRequested,
    RunArchived,
    RunEnded,
    RunPaused,
    RunResumed,
    RunRevived,
    RunStarted,
    RunStatus,
    RunTimeLimitReached,
    RunUpdated,
)
from trackside.aggregates.run.step_messages import StepReady, StepSkipped
from trackside.contracts.fleet import CHECK_ARTIFACTS
from trackside.contracts.parts import Part
from trackside.domain.outcome import Outcome
from trackside.domain.pipelines.definition import CACHE

ABORT = RunAbortRequested(command_id="c-9")
AGAIN = RunRevived(command_id="c-9", revival=1, reset=["a"])
KEPT = {"keep_days": 1 / 86_400}


def paused(change: int) -> RunPaused:
    return RunPaused(command_id="c-9", change=change)


@proves("evolve", "handler is None")
def test_a_run_that_has_started_does_not_start_again() -> None:
    log = started(step("a"))
    again = next(record.message for record in log.records if isinstance(record.message, RunStarted))
    refuses(log, again, Outcome.DUPLICATE)


@proves("_abort_run", "run.over")
def test_a_run_that_is_over_is_not_aborted() -> None:
    refuses(over(), ABORT)


@proves("_abort_run", "run.stopping")
def test_a_run_that_reached_its_time_limit_is_not_aborted_besides() -> None:
    log = started(step("a"), timeout_s=1.0)
    pass_until(log, log.run.due_ms)
    write(log, RunTimeLimitReached(due_ms=log.run.due_ms or 0))
    refuses(log, ABORT)
    assert log.run.status is RunStatus.TIMING_OUT


@proves("_archived", "not run.over")
def test_a_run_that_goes_on_is_not_archived() -> None:
    refuses(started(step("a")), RunArchived(command_id="c-9"))


@proves("_archived", "event.due_ms != run.due_ms")
def test_a_run_is_not_archived_for_a_time_limit_that_it_does_not_have() -> None:
    log = over(**KEPT)
    due_ms = log.run.due_ms or 0
    pass_until(log, due_ms)
    refuses(log, RunArchived(due_ms=due_ms - 1))


@proves("_archived", "record.append_time_ms < event.due_ms")
def test_a_run_is_not_archived_before_its_time() -> None:
    log = over(**KEPT)
    refuses(log, RunArchived(due_ms=log.run.due_ms))


@proves("_changed", "change <= run.changes")
def test_two_dispatchers_that_pause_a_run_pause_it_once() -> None:
    log = write(started(step("a")), paused(1))
    refuses(log, paused(1), Outcome.DUPLICATE)


@proves("_changed", "change != run.changes + 1")
def test_a_change_that_leaves_one_out_has_no_effect() -> None:
    refuses(started(step("a")), paused(2))


@proves("_changed", "run.over")
def test_a_run_that_is_over_is_not_paused() -> None:
    refuses(over(), paused(1))


@proves("_changed", "run.stopping")
def test_a_run_that_is_stopped_is_not_paused() -> None:
    refuses(write(started(step("a")), ABORT), paused(1))


@proves("_paused", "_changed(run, event.change, record)")
def test_a_pause_that_came_before_the_resumption_does_not_pause_again() -> None:
    log = write(started(step("a")), paused(1), RunResumed(command_id="c-8", change=2))
    refuses(log, paused(1), Outcome.DUPLICATE)


@proves("_resumed", "_changed(run, event.change, record)")
def test_a_resumption_that_came_before_another_pause_does_not_end_it() -> None:
    resumed = RunResumed(command_id="c-8", change=2)
    log = write(started(step("a")), paused(1), resumed, paused(3))
    refuses(log, resumed, Outcome.DUPLICATE)


@proves("_updated", "found is not None")
def test_limits_that_were_set_before_others_are_not_set_again() -> None:
    first = RunUpdated(command_id="c-8", change=1, concurrency=2)
    log = write(started(step("a")), first, RunUpdated(command_id="c-9", change=2, concurrency=5))
    refuses(log, first, Outcome.DUPLICATE)


@proves("_ended", "run.over")
def test_a_run_ends_once() -> None:
    log, end = ending()
    refuses(write(log, end), end, Outcome.DUPLICATE)


@proves("_ended", "event.revival < run.revival")
def test_the_end_of_a_run_before_it_was_continued_does_not_end_it_again() -> None:
    log = write(over(), AGAIN)
    refuses(log, RunEnded(status=RunStatus.SUCCEEDED), Outcome.DUPLICATE)


@proves("_ended", "run.unended")
def test_a_run_does_not_end_before_its_steps() -> None:
    refuses(started(step("a")), RunEnded(status=RunStatus.SUCCEEDED))


@proves("_ended", "run.checks")
def test_a_run_does_not_end_while_artifacts_are_checked() -> None:
    log = waiting(step("a", "x", cache=True), ready=["a"])
    part = Part(kind=CACHE, number=0, name="a")
    write(log, task_of(log, "a", task_id=log.run.check_id("a"), task_type=CHECK_ARTIFACTS, part=part))
    write(log, StepSkipped(step="a", by="operator"))
    refuses(log, RunEnded(status=RunStatus.SUCCEEDED))


@proves("_ended", "event.revival != run.revival")
def test_a_run_does_not_end_for_a_revival_that_has_not_been() -> None:
    log, end = ending(revival=1)
    refuses(log, end)


@proves("_ended", "event.status is not end_of(run)")
def test_a_run_all_of_whose_steps_succeeded_does_not_end_as_failed() -> None:
    log, _ = ending()
    refuses(log, RunEnded(status=RunStatus.FAILED))


@proves("_revived", "event.revival <= run.revival")
def test_two_dispatchers_that_continue_a_run_continue_it_once() -> None:
    refuses(write(over(), AGAIN), AGAIN, Outcome.DUPLICATE)


@proves("_revived", "not run.over")
def test_a_run_that_goes_on_is_not_continued() -> None:
    refuses(started(step("a")), AGAIN)


@proves("_revived", "event.revival != run.revival + 1")
def test_a_revival_that_leaves_one_out_has_no_effect() -> None:
    refuses(over(), AGAIN.model_copy(update={"revival": 2}))


@proves("_revived", "set(event.reset) - run.steps.keys()")
def test_a_run_is_not_continued_with_a_step_that_it_does_not_have() -> None:
    refuses(over(), AGAIN.model_copy(update={"reset": ["a", "zz"]}))


@proves("_time_limit", "run.over")
def test_a_run_that_is_over_reaches_no_time_limit() -> None:
    log = over(**KEPT)
    pass_until(log, log.run.due_ms)
    refuses(log, RunTimeLimitReached(due_ms=log.run.due_ms or 0))


@proves("_time_limit", "event.due_ms != run.due_ms")
def test_a_run_does_not_reach_a_time_limit_that_was_changed() -> None:
    log = started(step("a"), timeout_s=1.0)
    before = log.run.due_ms or 0
    write(log, RunUpdated(command_id="c-9", change=1, timeout_s=2.0))
    pass_until(log, before)
    refuses(log, RunTimeLimitReached(due_ms=before))


@proves("_time_limit", "record.append_time_ms < event.due_ms")
def test_a_clock_that_is_ahead_does_not_stop_a_run() -> None:
    log = started(step("a"), timeout_s=1.0)
    refuses(log, RunTimeLimitReached(due_ms=log.run.due_ms or 0))


def test_a_run_that_is_archived_takes_nothing_more() -> None:
    """The stream of an archived run is closed: no guard of the run is asked."""
    log = write(over(), RunArchived(command_id="c-9"))
    for event in (AGAIN, paused(1), ABORT, StepReady(step="a")):
        refuses(log, event)


def test_a_run_that_is_stopped_reaches_no_time_limit() -> None:
    log = end_task(started(step("a"), timeout_s=1.0), "a")
    due_ms = log.run.due_ms or 0
    write(log, ABORT)
    pass_until(log, due_ms)
    refuses(log, RunTimeLimitReached(due_ms=due_ms))
