from pathlib import Path
from typing import Any

import pytest

from tests.unit.aggregates.run.given import DIGEST, RunLog, step
from tests.unit.domain.given import STREAM
from tests.unit.replay.given import ELSEWHERE
from tests.unit.replay.recorded_runs import ONE, RecordedRun, finished_chain, recorded
from tests.unit.replay.test_transfer import imported, written
from trackside.aggregates.run.messages import RestartFromStep
from trackside.aggregates.run.state import Run, run_of
from trackside.contracts.streams.commands import CommandRefused
from trackside.contracts.tasks.tasks import AttemptEnd, TaskSubmitted
from trackside.eventlog.memory import MemoryLog
from trackside.replay.derive.fork import parse_changes
from trackside.replay.derive.run_copy import end_of_step, fork_run, rerun_run
from trackside.replay.find_stream import find_stream
from trackside.replay.history.errors import BadRangeError, BadScenarioError
from trackside.replay.history.recorded_stream import state_at


async def at(log: RecordedRun, offset: int | None = None) -> Run:
    found = run_of((await log.past(offset)).stream)
    assert found is not None
    return found


def begun(command: Any) -> RunLog:
    """Lets a dispatcher begin the run of a command, in a log of its own under the same name."""
    log = RunLog()
    log.command(command)
    assert [event for event in log.written if isinstance(event, CommandRefused)] == []
    return log


def forked(run: Run, *changes: str) -> RunLog:
    return begun(fork_run(run, "first", 50, parse_changes(changes, ())).command)


async def test_a_run_is_run_again_with_its_references_and_its_seed() -> None:
    log = finished_chain()
    command = rerun_run(await at(log), STREAM, 40)
    assert command.copy_of is not None and command.copy_of.kind == "rerun"
    again = begun(command)
    assert again.states == {"prepare": "queued", "train": "pending", "report": "pending"}
    again.finish("prepare", {"rows": 4})
    submitted = [event for event in again.written if isinstance(event, TaskSubmitted)]
    assert submitted[-1].parameters == {"rows": 4}
    assert again.run.seed == log.run.seed


async def test_a_rerun_of_an_imported_run_is_the_same(elsewhere: MemoryLog, tmp_path: Path) -> None:
    log = finished_chain()
    await written(await log.write(), ONE, STREAM, tmp_path / "f")
    await imported(elsewhere, tmp_path / "f", STREAM)
    past = await state_at(await find_stream(elsewhere, ELSEWHERE, f"imported/{STREAM}"))
    found = run_of(past.stream)
    assert found is not None
    assert rerun_run(found, STREAM, 40) == rerun_run(await at(log), STREAM, 40)


async def test_a_fork_takes_over_what_had_ended_with_its_results_and_artifacts() -> None:
    log = finished_chain()
    run = await at(log, log.run.steps["prepare"].changed_at)
    fork = forked(run)
    assert fork.states == {"prepare": "cached", "train": "queued", "report": "pending"}
    assert (fork.submitted, fork.run.steps["prepare"].kind) == (["train"], "taken")
    (submitted,) = [event for event in fork.written if isinstance(event, TaskSubmitted)]
    assert submitted.parameters == {"rows": 3}
    output = fork.run.steps["prepare"].outputs[0]
    assert output.task == f"{STREAM}.prepare"
    assert output.artifacts["table"].reference.sha256 == DIGEST
    fork.finish("train")
    fork.finish("report")
    assert fork.run.status.value == "SUCCEEDED"


async def test_a_changed_step_and_what_comes_after_it_run_again_or_nothing_if_nothing_is_left() -> None:
    run = await at(finished_chain())
    fork = forked(run, "train.parameters.lr=0.5")
    assert fork.states == {"prepare": "cached", "train": "queued", "report": "pending"}
    (submitted,) = [event for event in fork.written if isinstance(event, TaskSubmitted)]
    assert submitted.parameters == {"rows": 3, "lr": 0.5}
    fork = forked(run)
    assert (fork.submitted, fork.run.status.value) == ([], "SUCCEEDED")
    fork.command(RestartFromStep(steps=["train"]))
    assert fork.states == {"prepare": "cached", "train": "queued", "report": "pending"}


async def test_a_changed_parameter_of_the_pipeline_runs_the_steps_that_refer_to_it() -> None:
    schema = {"n": {"type": "integer"}, "m": {"type": "integer", "default": 1}}
    log = RecordedRun()
    steps = [step("a"), step("b", parameters={"n": "${pipeline.n}"}), step("c", when="pipeline.n > 0")]
    body = {"pipeline": {"steps": [*steps, step("d", "c")], "parameters": schema}, "parameters": {"n": 3}}
    log.command("trackside.start-pipeline-run.v1", body)
    for name in "abcd":
        log.finish(name)
    run = await at(log)
    assert fork_run(run, "first", 50, {}).to_run == []
    assert fork_run(run, "first", 50, {"pipeline.m": 2}).to_run == []
    made = fork_run(run, "first", 50, {"pipeline.n": 4})
    assert (made.taken, made.to_run) == (["a"], ["b", "c", "d"])
    assert made.command.parameters == {"n": 4, "m": 1}


async def test_what_failed_was_skipped_or_came_after_it_is_decided_again() -> None:
    never = step("never", "good", when="good.result.n > 5")
    last = step("last", needs={"all_ended": ["never"]})
    log = recorded(step("good"), step("bad", on_end="continue"), step("after", "bad"), never, last)
    log.finish("good", {"n": 1})
    log.finish("bad", end=AttemptEnd.FAILED)
    log.finish("after")
    log.finish("last")
    made = fork_run(await at(log), "first", 50, {})
    assert (made.taken, made.to_run) == (["good", "last"], ["bad", "after", "never"])
    fork = begun(made.command)
    assert fork.states["never"] == "skipped" and fork.submitted == ["bad"]


async def test_the_items_of_a_fan_out_are_taken_over_by_their_indexes() -> None:
    log = recorded(
        step("each", each=[1, 2, 3], parameters={"n": "${item}"}, collect="succeeded > 1"),
        step("join", parameters={"all": "${each.result}", "ns": "${each.parameters.n}", "ids": "${each.id}"}),
    )
    log.finish("each.0", {"n": 10})
    log.finish("each.1", {"n": 20}, end=AttemptEnd.FAILED)
    log.finish("each.2", {"n": 30})
    fork = forked(await at(log))
    (submitted,) = [event for event in fork.written if isinstance(event, TaskSubmitted)]
    assert submitted.parameters["all"] == [{"n": 10}, None, {"n": 30}]
    assert submitted.parameters["ids"][2] == f"{STREAM}.each.2"


async def test_the_end_of_a_step_is_a_moment_to_fork_at() -> None:
    log = recorded(step("a"), step("b", "a"))
    log.finish("a")
    run = await at(log)
    assert end_of_step(run, "a") == run.steps["a"].changed_at
    with pytest.raises(BadRangeError, match=r"step b .* has not ended: it is queued"):
        end_of_step(run, "b")
    with pytest.raises(BadRangeError, match="has no step 'aa'"):
        end_of_step(run, "aa")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("trian.parameters.lr=1", "did you mean 'train'"),
        ("pipeline.epochs=1", "no parameter 'epochs'"),
        ("train.paramters.lr=1", "paramters"),
        ("train.parameters.rows=${nothing.result}", "nothing"),
        ("train.task_type.x=1", "no fields"),
        ("steps=[]", "expected STEP.FIELD"),
    ],
)
async def test_a_wrong_change_is_answered_with_its_place(change: str, message: str) -> None:
    run = await at(finished_chain())
    with pytest.raises(BadScenarioError, match=message):
        fork_run(run, "first", 50, parse_changes([change], ()))


def test_a_run_that_takes_over_a_step_that_it_lacks_or_changes_is_refused() -> None:
    taken = {"stream": "first", "offset": 3}
    log = RunLog()
    steps, overrides = [step("a"), step("b")], {"a": {"parameters": {"x": 1}}}
    body = {"pipeline": {"steps": steps}, "taken": {"a": taken, "c": taken}, "overrides": overrides}
    (event,) = log.command("trackside.start-pipeline-run.v1", body)
    assert isinstance(event, CommandRefused)
    found = [(problem.code, problem.path) for problem in event.problems]
    assert found == [("bad_step", "$.taken.a"), ("unknown_step", "$.taken.c")]
