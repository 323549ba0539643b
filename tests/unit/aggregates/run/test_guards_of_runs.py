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
from trackside.aggregates.run import messages
from trackside.aggregates.run.step_messages import StepReady, StepSkipped
from trackside.contracts.envelope.parts import Part
from trackside.contracts.fleet.fleet import CHECK_ARTIFACTS
from trackside.domain.outcome import Outcome
from trackside.domain.pipelines.definition import CACHE

ABORT = messages.RunAbortRequested(command_id="c-9")
AGAIN = messages.RunRevived(command_id="c-9", revival=1, reset=["a"])
SUCCEEDED = messages.RunEnded(status=messages.RunStatus.SUCCEEDED)
KEPT = {"keep_days": 1 / 86_400}


def paused(change: int) -> messages.RunPaused:
    return messages.RunPaused(command_id="c-9", change=change)


@proves("evolve", "handler is None")
def test_a_run_that_has_started_does_not_start_again() -> None:
    log = started(step("a"))
    again = next(record.message for record in log.records if isinstance(record.message, messages.RunStarted))
    refuses(log, again, Outcome.DUPLICATE)


@proves("_abort_run", "run.over", "run.stopping")
@proves("_time_limit", "record.append_time_ms < event.due_ms")
def test_a_run_is_stopped_once_by_a_command_or_by_its_time_limit_and_not_before_that() -> None:
    refuses(over(), ABORT)
    log = started(step("a"), timeout_s=1.0)
    limit = messages.RunTimeLimitReached(due_ms=log.run.due_ms or 0)
    refuses(log, limit)
    pass_until(log, log.run.due_ms)
    write(log, limit)
    refuses(log, ABORT)
    assert log.run.status is messages.RunStatus.TIMING_OUT


@proves("_archived", "not run.over", "event.due_ms != run.due_ms", "record.append_time_ms < event.due_ms")
@proves("_time_limit", "run.over")
def test_a_run_is_archived_only_once_it_is_over_and_by_its_own_limit_when_that_is_reached() -> None:
    refuses(started(step("a")), messages.RunArchived(command_id="c-9"))
    log = over(**KEPT)
    due_ms = log.run.due_ms or 0
    refuses(log, messages.RunArchived(due_ms=due_ms))
    pass_until(log, due_ms)
    refuses(log, messages.RunArchived(due_ms=due_ms - 1))
    refuses(log, messages.RunTimeLimitReached(due_ms=due_ms))


@proves("_changed", "change != run.changes + 1", "run.over", "run.stopping")
def test_a_run_that_is_over_or_stopped_is_not_paused_nor_one_by_a_change_that_leaves_one_out() -> None:
    refuses(started(step("a")), paused(2))
    refuses(over(), paused(1))
    refuses(write(started(step("a")), ABORT), paused(1))


@proves("_changed", "change <= run.changes")
@proves("_paused", "_changed(run, event.change, record)")
@proves("_resumed", "_changed(run, event.change, record)")
def test_each_pause_and_resumption_counts_once_and_in_its_order() -> None:
    log, resumed = write(started(step("a")), paused(1)), messages.RunResumed(command_id="c-8", change=2)
    refuses(log, paused(1), Outcome.DUPLICATE)
    refuses(write(log, resumed), paused(1), Outcome.DUPLICATE)
    refuses(write(log, paused(3)), resumed, Outcome.DUPLICATE)


@proves("_updated", "found is not None")
def test_limits_that_were_set_before_others_are_not_set_again() -> None:
    first = messages.RunUpdated(command_id="c-8", change=1, concurrency=2)
    log = write(started(step("a")), first, messages.RunUpdated(command_id="c-9", change=2, concurrency=5))
    refuses(log, first, Outcome.DUPLICATE)


@proves("_ended", "run.over", "event.revival < run.revival")
def test_a_run_ends_once_and_not_again_by_an_end_of_before_it_was_continued() -> None:
    log, end = ending()
    refuses(write(log, end), end, Outcome.DUPLICATE)
    refuses(write(over(), AGAIN), SUCCEEDED, Outcome.DUPLICATE)


@proves("_ended", "run.unended", "event.revival != run.revival", "event.status is not end_of(run)")
def test_a_run_ends_only_after_its_steps_as_they_did_and_in_its_own_revival() -> None:
    refuses(started(step("a")), SUCCEEDED)
    refuses(*ending(revival=1))
    refuses(ending()[0], messages.RunEnded(status=messages.RunStatus.FAILED))


@proves("_ended", "run.checks")
def test_a_run_does_not_end_while_artifacts_are_checked() -> None:
    log = waiting(step("a", "x", cache=True), ready=["a"])
    part = Part(kind=CACHE, number=0, name="a")
    write(log, task_of(log, "a", task_id=log.run.check_id("a"), task_type=CHECK_ARTIFACTS, part=part))
    write(log, StepSkipped(step="a", by="operator"))
    refuses(log, SUCCEEDED)


@proves("_revived", "event.revival <= run.revival")
def test_two_dispatchers_that_continue_a_run_continue_it_once() -> None:
    refuses(write(over(), AGAIN), AGAIN, Outcome.DUPLICATE)


@proves("_revived", "not run.over", "event.revival != run.revival + 1")
@proves("_revived", "set(event.reset) - run.steps.keys()")
def test_only_a_run_that_is_over_is_continued_by_the_next_revival_and_with_its_own_steps() -> None:
    refuses(started(step("a")), AGAIN)
    for changed in ({"revival": 2}, {"reset": ["a", "zz"]}):
        refuses(over(), AGAIN.model_copy(update=changed))


@proves("_time_limit", "event.due_ms != run.due_ms")
def test_a_run_does_not_reach_a_time_limit_that_was_changed() -> None:
    log = started(step("a"), timeout_s=1.0)
    before = log.run.due_ms or 0
    write(log, messages.RunUpdated(command_id="c-9", change=1, timeout_s=2.0))
    pass_until(log, before)
    refuses(log, messages.RunTimeLimitReached(due_ms=before))


def test_a_run_that_is_archived_takes_nothing_more_and_one_that_is_stopped_reaches_no_time_limit() -> None:
    """The stream of an archived run is closed: no guard of the run is asked."""
    log = write(over(), messages.RunArchived(command_id="c-9"))
    for event in (AGAIN, paused(1), ABORT, StepReady(step="a")):
        refuses(log, event)
    log = end_task(started(step("a"), timeout_s=1.0), "a")
    due_ms = log.run.due_ms or 0
    write(log, ABORT)
    pass_until(log, due_ms)
    refuses(log, messages.RunTimeLimitReached(due_ms=due_ms))
