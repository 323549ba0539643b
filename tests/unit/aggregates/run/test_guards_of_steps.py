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
from trackside.contracts.tasks.tasks import AttemptEnd
from trackside.domain.outcome import Outcome

REPEAT = {"until": "index > 5", "times": 3}
PAUSE = RunPaused(command_id="c-9", change=1)
ABORT_RUN = RunAbortRequested(command_id="c-9")
SKIP = StepSkipped(step="a", by="operator")
RESOLVED = StepResolved(step="a", values={}, sources={})
SUCCEEDED = StepEnded(step="a", status=StepState.SUCCEEDED)
APPROVED = GateDecided(step="a", decision="approved")
GATE = {"name": "a", "gate": {"timeout_s": 1.0}}


def abort(request: int = 1, index: int | None = None, name: str = "a") -> StepAbortRequested:
    return StepAbortRequested(command_id="c-9", step=name, request=request, index=index)


@proves("_step_in", "step is None", "run.over", "generation > step.generation", "step.state in states")
@proves("_ready", "(StepState.PENDING,)", "not step.wait.met", "run.status is not RunStatus.RUNNING")
def test_a_step_is_ready_only_while_it_and_its_run_wait_for_that() -> None:
    refuses(started(step("a")), StepReady(step="zz"))
    refuses(over(), StepReady(step="a"))
    refuses(waiting(step("a", "x")), StepReady(step="a", generation=1))
    refuses(started(step("a")), StepReady(step="a"))
    refuses(started(step("x"), step("a", "x")), StepReady(step="a"))
    refuses(write(waiting(step("a", "x")), PAUSE), StepReady(step="a"))


@proves("_step_in", "generation < step.generation")
def test_a_step_that_begins_again_is_not_ready_by_an_event_of_before() -> None:
    log = write(over(), RunRevived(command_id="c-9", revival=1, reset=["a"]))
    refuses(log, StepReady(step="a"), Outcome.DUPLICATE)


@proves("_step_in", "step.over")
def test_a_step_ends_once() -> None:
    log = write(end_task(started(step("a")), "a"), SUCCEEDED)
    refuses(log, SUCCEEDED, Outcome.DUPLICATE)


@proves("_resolved", "(StepState.READY,)", "step.resolved is not None")
def test_a_step_gets_its_values_once_and_only_when_it_is_ready() -> None:
    refuses(waiting(step("a", "x")), RESOLVED)
    first = RESOLVED.model_copy(update={"values": {"${x.result.n}": 1}})
    log = write(waiting(step("a", "x"), ready=["a"]), first)
    refuses(log, RESOLVED, Outcome.DUPLICATE)


@proves("_expanded", "(StepState.READY,)", "run.spec_of(event.step).each is None", "step.items is not None")
def test_a_step_with_each_gets_its_items_once_and_only_when_it_is_ready() -> None:
    one, two = StepExpanded(step="a", items=[1]), StepExpanded(step="a", items=[1, 2])
    refuses(waiting(step("a", "x", each=[1])), one)
    refuses(waiting(step("a", "x"), ready=["a"]), two, Outcome.DUPLICATE)
    refuses(write(waiting(step("a", "x", each=[1]), ready=["a"]), one), two, Outcome.DUPLICATE)


@proves("_repeated", "event.index < step.count")
def test_two_dispatchers_that_repeat_a_step_repeat_it_once() -> None:
    log = end_task(started(step("a", repeat=REPEAT)), "a.0")
    write(log, StepRepeated(step="a", index=1))
    refuses(log, StepRepeated(step="a", index=1), Outcome.DUPLICATE)


@proves("_repeated", "rule is None", "event.step not in run.finished", "event.index != step.count")
@proves("_repeated", "run.stopping", "step.unsuccessful", "event.index >= rule.times", "step.aborted")
def test_a_step_is_repeated_only_by_its_rule_in_order_and_while_nothing_stops_it() -> None:
    repeated = StepRepeated(step="a", index=1)
    refuses(end_task(started(step("a")), "a"), repeated)
    refuses(started(step("a", repeat=REPEAT)), repeated)
    refuses(end_task(started(step("a", repeat=REPEAT)), "a.0"), StepRepeated(step="a", index=2))
    refuses(write(end_task(started(step("a", repeat=REPEAT)), "a.0"), ABORT_RUN), repeated)
    refuses(end_task(started(step("a", repeat=REPEAT)), "a.0", AttemptEnd.FAILED), repeated)
    refuses(end_task(started(step("a", repeat={**REPEAT, "times": 1})), "a.0"), repeated)
    refuses(end_task(write(started(step("a", repeat=REPEAT)), abort()), "a.0"), repeated)


@proves("_skipped", "(StepState.PENDING, StepState.READY)", "step.begun", "run.stopping")
def test_a_step_that_has_begun_or_whose_run_is_stopped_is_not_skipped() -> None:
    refuses(started(GATE), SKIP)
    refuses(end_task(started(step("a", repeat=REPEAT)), "a.0"), SKIP)
    log = write(waiting(step("a", "x", each=[]), ready=["a"]), StepExpanded(step="a", items=[]))
    refuses(write(log, ABORT_RUN), SKIP)


@proves("_skipped", "bool(step.wait.blocked_by)", "not allowed[event.by]")
def test_a_step_is_not_omitted_for_one_before_it_that_has_not_failed() -> None:
    refuses(started(step("x"), step("a", "x")), StepSkipped(step="a", by="upstream", cause="x"))


@proves("_skipped", "step.wait.met and step.state is StepState.PENDING")
def test_a_step_is_skipped_by_its_expression_only_after_those_that_it_needs_and_before_it_is_ready() -> None:
    refuses(started(step("x"), step("a", "x")), StepSkipped(step="a", by="when"))
    refuses(waiting(step("a", "x"), ready=["a"]), StepSkipped(step="a", by="when"))


@proves("_abort_requested", "event.request <= step.aborts")
def test_two_dispatchers_that_ask_a_step_to_end_ask_it_once() -> None:
    refuses(write(started(step("a")), abort()), abort(), Outcome.DUPLICATE)


@proves("_abort_requested", "WORKING", "event.request != step.aborts + 1", "event.step in run.finished")
@proves("_abort_requested", "event.index is not None and event.index not in step.open")
def test_only_what_is_open_is_asked_to_end_and_by_the_next_request() -> None:
    refuses(started(step("x"), step("a", "x")), abort())
    refuses(started(step("a")), abort(request=2))
    refuses(end_task(started(step("a")), "a"), abort())
    refuses(started(step("a", each=[1, 2])), abort(index=2))


@proves("_step_ended", "WORKING")
def test_a_step_fails_of_an_error_of_its_own_only_when_it_is_ready() -> None:
    failed = StepEnded(step="a", status=StepState.FAILED, error=StepError(code="ref_error", message=""))
    refuses(waiting(step("a", "x")), failed)
    refuses(started(step("a")), failed)


@proves("_step_ended", "event.step not in run.finished and (not own_error)")
@proves("_step_ended", "not own_error and event.status not in possible_ends(run, event.step)")
def test_a_step_does_not_end_while_its_task_runs_nor_succeed_if_that_failed() -> None:
    refuses(started(step("a")), SUCCEEDED)
    refuses(end_task(started(step("a")), "a", AttemptEnd.FAILED), SUCCEEDED)


@proves("_gate_opened", "(StepState.READY,)", "kind_of(run.spec_of(event.step)) != GATE")
@proves("_gate_opened", "run.status is not RunStatus.RUNNING")
def test_only_a_gate_that_is_ready_opens_and_not_while_its_run_is_paused() -> None:
    gate = {**GATE, "needs": ["x"]}
    refuses(waiting(gate), GateOpened(step="a"))
    refuses(waiting(step("a", "x"), ready=["a"]), GateOpened(step="a"))
    refuses(write(waiting(gate, ready=["a"]), PAUSE), GateOpened(step="a"))


@proves("_gate_decided", "(StepState.RUNNING,)", "event.step not in run.open_gates")
def test_a_gate_that_is_not_open_or_is_to_end_takes_no_decision() -> None:
    refuses(waiting({**GATE, "needs": ["x"]}, ready=["a"]), APPROVED)
    refuses(write(started(GATE), abort()), APPROVED)


@proves("_gate_decided", "gate is None", "gate.decision")
def test_a_gate_is_decided_once_and_a_task_never() -> None:
    log = started(step("a"))
    log.place("a")
    refuses(log, APPROVED, Outcome.DUPLICATE)
    refuses(write(started(GATE), APPROVED), GateDecided(step="a", decision="rejected"), Outcome.DUPLICATE)


@proves("_gate_decided", "expired is not late", "expired and event.due_ms != due_ms")
def test_a_gate_takes_no_decision_after_its_time_limit_and_does_not_expire_before_or_by_another() -> None:
    log = started(GATE)
    gate = log.run.steps["a"].gate
    assert gate is not None and gate.due_ms is not None
    refuses(log, GateDecided(step="a", decision="expired", due_ms=gate.due_ms))
    pass_until(log, gate.due_ms)
    refuses(log, APPROVED)
    refuses(log, GateDecided(step="a", decision="expired", due_ms=gate.due_ms - 1))
