"""What the guards of the events of steps and gates refuse, one condition after another."""

from tests.unit.aggregates.run.given import started, step
from tests.unit.aggregates.run.proofs import end_task, over, pass_until, proves, refuses, waiting, write
from trackside.aggregates.run.messages import RunAbortRequested, RunPaused, RunRevived
from trackside.aggregates.run.step_messages import (
    GateDecided,
    GateOpened,
    StepAbortRequested,
    StepEnded,
    StepError,
    StepExpanded,
    StepReady,
    StepRepeated,
    StepResolved,
    StepSkipped,
    StepState,
)
from trackside.contracts.tasks import AttemptEnd
from trackside.domain.outcome import Outcome

REPEAT = {"until": "index > 5", "times": 3}
PAUSE = RunPaused(command_id="c-9", change=1)
ABORT_RUN = RunAbortRequested(command_id="c-9")
SKIP = StepSkipped(step="a", by="operator")
RESOLVED = StepResolved(step="a", values={}, sources={})
SUCCEEDED = StepEnded(step="a", status=StepState.SUCCEEDED)
APPROVED = GateDecided(step="a", decision="approved")


def abort(request: int = 1, index: int | None = None, name: str = "a") -> StepAbortRequested:
    return StepAbortRequested(command_id="c-9", step=name, request=request, index=index)


@proves("_step_in", "step is None")
def test_an_event_of_a_step_that_the_run_does_not_have_has_no_effect() -> None:
    refuses(started(step("a")), StepReady(step="zz"))


@proves("_step_in", "run.over")
def test_no_step_is_ready_once_its_run_is_over() -> None:
    refuses(over(), StepReady(step="a"))


@proves("_step_in", "generation > step.generation")
def test_a_step_is_not_ready_in_a_generation_that_has_not_begun() -> None:
    refuses(waiting(step("a", "x")), StepReady(step="a", generation=1))


@proves("_step_in", "generation < step.generation")
def test_a_step_that_begins_again_is_not_ready_by_an_event_of_before() -> None:
    log = write(over(), RunRevived(command_id="c-9", revival=1, reset=["a"]))
    refuses(log, StepReady(step="a"), Outcome.DUPLICATE)


@proves("_step_in", "step.over")
def test_a_step_ends_once() -> None:
    log = write(end_task(started(step("a")), "a"), SUCCEEDED)
    refuses(log, SUCCEEDED, Outcome.DUPLICATE)


@proves("_ready", "(StepState.PENDING,)")
@proves("_step_in", "step.state in states")
def test_a_step_that_has_begun_is_not_ready_again() -> None:
    refuses(started(step("a")), StepReady(step="a"))


@proves("_ready", "not step.wait.met")
def test_a_step_is_not_ready_before_those_that_it_needs() -> None:
    refuses(started(step("x"), step("a", "x")), StepReady(step="a"))


@proves("_ready", "run.status is not RunStatus.RUNNING")
def test_no_step_is_ready_while_its_run_is_paused() -> None:
    refuses(write(waiting(step("a", "x")), PAUSE), StepReady(step="a"))


@proves("_resolved", "(StepState.READY,)")
def test_a_step_that_is_not_ready_gets_no_values() -> None:
    refuses(waiting(step("a", "x")), RESOLVED)


@proves("_resolved", "step.resolved is not None")
def test_the_values_of_a_step_stay_as_they_are() -> None:
    first = RESOLVED.model_copy(update={"values": {"${x.result.n}": 1}})
    log = write(waiting(step("a", "x"), ready=["a"]), first)
    refuses(log, RESOLVED, Outcome.DUPLICATE)


@proves("_expanded", "(StepState.READY,)")
def test_a_step_that_is_not_ready_gets_no_items() -> None:
    refuses(waiting(step("a", "x", each=[1])), StepExpanded(step="a", items=[1]))


@proves("_expanded", "run.spec_of(event.step).each is None")
def test_a_step_without_each_gets_no_items() -> None:
    log = waiting(step("a", "x"), ready=["a"])
    refuses(log, StepExpanded(step="a", items=[1, 2]), Outcome.DUPLICATE)


@proves("_expanded", "step.items is not None")
def test_the_items_of_a_step_stay_as_they_are() -> None:
    log = write(waiting(step("a", "x", each=[1]), ready=["a"]), StepExpanded(step="a", items=[1]))
    refuses(log, StepExpanded(step="a", items=[1, 2]), Outcome.DUPLICATE)


@proves("_repeated", "event.index < step.count")
def test_two_dispatchers_that_repeat_a_step_repeat_it_once() -> None:
    log = end_task(started(step("a", repeat=REPEAT)), "a.0")
    write(log, StepRepeated(step="a", index=1))
    refuses(log, StepRepeated(step="a", index=1), Outcome.DUPLICATE)


@proves("_repeated", "rule is None")
def test_a_step_without_repeat_is_not_repeated() -> None:
    refuses(end_task(started(step("a")), "a"), StepRepeated(step="a", index=1))


@proves("_repeated", "event.step not in run.finished")
def test_a_step_is_not_repeated_while_its_task_runs() -> None:
    refuses(started(step("a", repeat=REPEAT)), StepRepeated(step="a", index=1))


@proves("_repeated", "event.index != step.count")
def test_no_repetition_of_a_step_is_left_out() -> None:
    refuses(end_task(started(step("a", repeat=REPEAT)), "a.0"), StepRepeated(step="a", index=2))


@proves("_repeated", "run.stopping")
def test_a_step_is_not_repeated_once_its_run_is_stopped() -> None:
    log = write(end_task(started(step("a", repeat=REPEAT)), "a.0"), ABORT_RUN)
    refuses(log, StepRepeated(step="a", index=1))


@proves("_repeated", "step.unsuccessful")
def test_a_step_that_failed_is_not_repeated() -> None:
    log = end_task(started(step("a", repeat=REPEAT)), "a.0", AttemptEnd.FAILED)
    refuses(log, StepRepeated(step="a", index=1))


@proves("_repeated", "event.index >= rule.times")
def test_a_step_is_not_repeated_more_often_than_its_rule_says() -> None:
    log = end_task(started(step("a", repeat={**REPEAT, "times": 1})), "a.0")
    refuses(log, StepRepeated(step="a", index=1))


@proves("_repeated", "step.aborted")
def test_a_step_that_was_asked_to_end_is_not_repeated() -> None:
    log = end_task(write(started(step("a", repeat=REPEAT)), abort()), "a.0")
    refuses(log, StepRepeated(step="a", index=1))


@proves("_skipped", "(StepState.PENDING, StepState.READY)")
def test_a_gate_that_is_open_is_not_skipped() -> None:
    refuses(started({"name": "a", "gate": {}}), SKIP)


@proves("_skipped", "step.begun")
def test_a_step_that_is_between_two_repetitions_is_not_skipped() -> None:
    refuses(end_task(started(step("a", repeat=REPEAT)), "a.0"), SKIP)


@proves("_skipped", "run.stopping")
def test_a_step_is_not_skipped_once_its_run_is_stopped() -> None:
    log = write(waiting(step("a", "x", each=[]), ready=["a"]), StepExpanded(step="a", items=[]))
    refuses(write(log, ABORT_RUN), SKIP)


@proves("_skipped", "bool(step.wait.blocked_by)", "not allowed[event.by]")
def test_a_step_is_not_omitted_for_one_before_it_that_has_not_failed() -> None:
    refuses(started(step("x"), step("a", "x")), StepSkipped(step="a", by="upstream", cause="x"))


@proves("_skipped", "step.wait.met and step.state is StepState.PENDING")
def test_a_step_is_not_skipped_by_its_expression_before_those_that_it_needs() -> None:
    refuses(started(step("x"), step("a", "x")), StepSkipped(step="a", by="when"))


def test_a_step_that_is_ready_is_not_skipped_by_its_expression() -> None:
    refuses(waiting(step("a", "x"), ready=["a"]), StepSkipped(step="a", by="when"))


@proves("_abort_requested", "WORKING")
def test_a_step_that_has_not_begun_is_not_asked_to_end() -> None:
    refuses(started(step("x"), step("a", "x")), abort())


@proves("_abort_requested", "event.request <= step.aborts")
def test_two_dispatchers_that_ask_a_step_to_end_ask_it_once() -> None:
    refuses(write(started(step("a")), abort()), abort(), Outcome.DUPLICATE)


@proves("_abort_requested", "event.request != step.aborts + 1")
def test_a_request_to_end_that_leaves_one_out_has_no_effect() -> None:
    refuses(started(step("a")), abort(request=2))


@proves("_abort_requested", "event.step in run.finished")
def test_a_step_whose_task_has_succeeded_is_not_asked_to_end() -> None:
    refuses(end_task(started(step("a")), "a"), abort())


@proves("_abort_requested", "event.index is not None and event.index not in step.open")
def test_an_item_that_is_not_open_is_not_asked_to_end() -> None:
    refuses(started(step("a", each=[1, 2])), abort(index=2))


@proves("_step_ended", "WORKING")
def test_a_step_does_not_fail_of_an_error_before_it_is_ready() -> None:
    error = StepError(code="ref_error", message="")
    refuses(waiting(step("a", "x")), StepEnded(step="a", status=StepState.FAILED, error=error))


@proves("_step_ended", "event.step not in run.finished and (not own_error)")
def test_a_step_does_not_end_while_its_task_runs() -> None:
    refuses(started(step("a")), SUCCEEDED)


@proves("_step_ended", "not own_error and event.status not in possible_ends(run, event.step)")
def test_a_step_does_not_succeed_if_its_task_has_failed() -> None:
    refuses(end_task(started(step("a")), "a", AttemptEnd.FAILED), SUCCEEDED)


def test_a_step_that_has_begun_does_not_fail_of_an_error_of_its_own() -> None:
    error = StepError(code="ref_error", message="")
    refuses(started(step("a")), StepEnded(step="a", status=StepState.FAILED, error=error))


@proves("_gate_opened", "(StepState.READY,)")
def test_a_gate_does_not_open_before_it_is_ready() -> None:
    refuses(waiting({"name": "a", "gate": {}, "needs": ["x"]}), GateOpened(step="a"))


@proves("_gate_opened", "kind_of(run.spec_of(event.step)) != GATE")
def test_a_step_that_is_no_gate_does_not_open() -> None:
    refuses(waiting(step("a", "x"), ready=["a"]), GateOpened(step="a"))


@proves("_gate_opened", "run.status is not RunStatus.RUNNING")
def test_no_gate_opens_while_its_run_is_paused() -> None:
    log = waiting({"name": "a", "gate": {}, "needs": ["x"]}, ready=["a"])
    refuses(write(log, PAUSE), GateOpened(step="a"))


@proves("_gate_decided", "(StepState.RUNNING,)")
def test_a_gate_that_is_not_open_takes_no_decision() -> None:
    refuses(waiting({"name": "a", "gate": {}, "needs": ["x"]}, ready=["a"]), APPROVED)


@proves("_gate_decided", "gate is None")
def test_a_task_takes_no_decision_of_a_gate() -> None:
    log = started(step("a"))
    log.place("a")
    refuses(log, APPROVED, Outcome.DUPLICATE)


@proves("_gate_decided", "gate.decision")
def test_a_gate_is_decided_once() -> None:
    log = write(started({"name": "a", "gate": {}}), APPROVED)
    refuses(log, GateDecided(step="a", decision="rejected"), Outcome.DUPLICATE)


@proves("_gate_decided", "event.step not in run.open_gates")
def test_a_gate_that_is_to_end_takes_no_decision() -> None:
    refuses(write(started({"name": "a", "gate": {}}), abort()), APPROVED)


@proves("_gate_decided", "expired is not late")
def test_a_gate_takes_no_decision_after_its_time_limit_and_does_not_expire_before() -> None:
    log = started({"name": "a", "gate": {"timeout_s": 1.0}})
    gate = log.run.steps["a"].gate
    assert gate is not None
    refuses(log, GateDecided(step="a", decision="expired", due_ms=gate.due_ms))
    pass_until(log, gate.due_ms)
    refuses(log, APPROVED)


@proves("_gate_decided", "expired and event.due_ms != due_ms")
def test_a_gate_does_not_expire_by_a_time_limit_that_it_does_not_have() -> None:
    log = started({"name": "a", "gate": {"timeout_s": 1.0}})
    gate = log.run.steps["a"].gate
    assert gate is not None and gate.due_ms is not None
    pass_until(log, gate.due_ms)
    refuses(log, GateDecided(step="a", decision="expired", due_ms=gate.due_ms - 1))
