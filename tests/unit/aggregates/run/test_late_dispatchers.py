"""What dispatchers write that have read less than the log has: it counts whole, or not at all."""

from tests.unit.aggregates.run.given import started, step
from tests.unit.domain.given import STREAM
from trackside.aggregates.registry import AGGREGATES
from trackside.aggregates.run import step_messages
from trackside.aggregates.run.decide import lacking
from trackside.aggregates.run.messages import AbortPipelineRun, RestartFromStep, RetryFailedSteps, RunStatus
from trackside.contracts.tasks.tasks import AttemptEnd, AttemptEnded, TaskSubmitted
from trackside.domain.commands import stream_commands
from trackside.domain.folding.lookup import NO_LOOKUP
from trackside.domain.folding.streams import Streams

BATCH = {"groups": [{"tasks": [{"task_type": "noop"}]}]}


def test_a_step_none_of_whose_items_failed_is_retried_whole() -> None:
    log = started(step("a", each=[], collect="succeeded > 0"), step("b", "a"))
    assert log.states == {"a": "failed", "b": "omitted"}
    log.command(RetryFailedSteps())
    assert (log.states, log.run.revival, log.run.over) == ({"a": "failed", "b": "omitted"}, 1, True)


def test_a_task_is_a_decision_of_its_own_for_a_rival_may_have_taken_its_room() -> None:
    log = started(step("a"), step("b", parameters={"n": "${a.result.n}"}), step("c", "a"), concurrency=2)
    token = log.place("a")
    log.tell(AttemptEnded.model_validate({**token, "end": "finished", "result": {"n": 1}}), role="worker")
    ready, resolved = step_messages.StepReady, step_messages.StepResolved
    decisions = [[type(event) for event in proposal.events] for proposal in lacking(log.stream, NO_LOOKUP)]
    after = [[ready, resolved], [TaskSubmitted], [ready], [TaskSubmitted]]
    assert decisions == [[step_messages.StepEnded], *after]


def test_nothing_is_proposed_behind_the_end_that_stops_the_run() -> None:
    log = started(step("a", on_end="fail"), step("b"), step("c", "b"))
    tokens = [log.place(name) for name in ("a", "b")]
    for token, end in zip(tokens, (AttemptEnd.FAILED, AttemptEnd.FINISHED), strict=True):
        log.tell(AttemptEnded.model_validate({**token, "end": end}), role="worker")
    (only,) = lacking(log.stream, NO_LOOKUP)
    assert [type(event) for event in only.events] == [step_messages.StepEnded]
    log.settle()
    assert log.states == {"a": "failed", "b": "succeeded", "c": "omitted"}


def test_a_run_does_not_succeed_while_a_step_is_kept_that_failed_as_it_was_stopped() -> None:
    log = started(step("a"), step("b"))
    log.command(AbortPipelineRun())
    log.command(RestartFromStep(steps=["b"]))
    log.finish("b.g1")
    assert log.states == {"a": "aborted", "b": "succeeded"}
    assert (log.run.status, log.run.causes) == (RunStatus.FAILED, ["a"])


def test_a_child_whose_answer_is_read_and_its_beginning_is_not_lacks_nothing_yet() -> None:
    log = started(step("a", kind="batch", spec=BATCH))
    late = Streams(AGGREGATES)
    for record in log.records:
        stream, _ = late.fold(record)
        if stream.stream_id != STREAM and not stream.unanswered:
            break
    assert stream.root is None
    assert list(stream_commands.pending(late.by_id[STREAM], late.find, AGGREGATES, "events")) == []
