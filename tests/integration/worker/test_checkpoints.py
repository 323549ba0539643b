"""Trainings that continue from a checkpoint: in a later attempt, on another worker, and before preemption."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.integration.worker.given import SHARES, TaskType, shared_types, started, task_of
from tests.integration.worker.harness import WorkerHarness, error_of, of
from tests.integration.worker.saved import CLASS, class_of
from trackside.contracts.envelope.message import Message
from trackside.contracts.tasks.artifacts import ArtifactSaved, CheckpointReference, TaskResumed
from trackside.contracts.tasks.tasks import AttemptEnd, AttemptEnded, MetricReported

STEPS = """
last = trial.last_checkpoint()
state = {"sum": 0} if last is None else last.state
for step in range(0 if last is None else last.step, 6):
    state["sum"] += step
    trial.report(state["sum"], step)
    if step % 2:
        trial.checkpoint(step + 1, state)
    if step == trial.parameters().get("dies_at"):
        os.kill(os.getpid(), 9)
return state
"""


def checkpoints(story: Sequence[Message]) -> list[CheckpointReference]:
    """Returns the checkpoints that were saved, the newest first, as the scheduler names them."""
    fields = {"uri", "sha256", "size_bytes", "media_type"}
    return [
        CheckpointReference(**event.model_dump(include=fields), step=event.step)
        for event in reversed(of([*story], ArtifactSaved))
        if event.kind == "checkpoint" and event.step is not None
    ]


def reports(story: Sequence[Message]) -> list[tuple[int, float | None]]:
    return [(event.step, event.value) for event in of([*story], MetricReported)]


def damage(store: Path, checkpoint: CheckpointReference) -> None:
    """Overwrites the bytes of a checkpoint in the store."""
    blob = next(store.rglob(checkpoint.sha256))
    blob.chmod(0o600)
    blob.write_bytes(b"x" * checkpoint.size_bytes)


async def died_at(harness: Any, step: int) -> list[CheckpointReference]:
    """Runs an attempt that dies after a step; returns its checkpoints."""
    story = await harness.story("t", {"dies_at": step}, task_type="a")
    assert not of(story, TaskResumed)
    return checkpoints(story)


TRAINING = """
import sys
sys.modules["matplotlib"] = None  # it takes long to import
import torch
from trackside.sdk.training import Training as Saved
""" + class_of("""
asked = trial.parameters()
torch.manual_seed(7)
model = torch.nn.Linear(asked["width"], 1)
training = Saved("run", model, objective="loss", checkpoint_every=2)
for epoch in range(training.resume(), 6):
    loss = (model(torch.rand(8, asked["width"])) - 1).square().mean()
    weights = list(model.parameters())
    for weight, slope in zip(weights, torch.autograd.grad(loss, weights)):
        weight.data -= 0.1 * slope
    training.record({"loss": loss})
    if epoch == asked.get("dies_at"):
        os.kill(os.getpid(), 9)
return {"weights": model.weight.flatten().tolist(), "losses": [row["loss"] for row in training.history]}
""")


@pytest.mark.long
async def test_a_training_continues_on_another_worker_as_if_it_had_never_stopped_and_with_no_other_model(
    tmp_path: Path, store: Path
) -> None:
    pytest.importorskip("torch", reason="the training is one of torch")
    catalogue = task_of(tmp_path, TRAINING, CLASS)
    async with started(tmp_path, catalogue, preload="torch") as harness:
        whole = await harness.ended("whole", {"width": 2}, task_type="a")
        saved = checkpoints(await harness.story("t", {"width": 2, "dies_at": 4}, task_type="a"))
    assert [each.step for each in saved] == [4, 2]
    (tmp_path / "other").mkdir()
    async with started(tmp_path / "other", catalogue, preload="torch") as harness:
        story = await harness.story("t", {"width": 2}, task_type="a", attempt=2, checkpoints=saved)
        refused = await harness.ended("wider", {"width": 3}, task_type="a", checkpoints=saved)
        await harness.run("wider", {"width": 3}, task_type="a", attempt=2)
        anew = await harness.end("wider", nth=2)
    assert [event.step for event in of(story, TaskResumed)] == [4]
    assert [step for step, _ in reports(story)] == [4, 5]
    assert of(story, AttemptEnded)[0].result == whole.result, whole.error
    assert "size mismatch for weight" in error_of(refused, "TRAIN", "RuntimeError").message
    assert anew.end is AttemptEnd.FINISHED, anew.error


async def test_a_later_attempt_continues_on_another_worker(tmp_path: Path, store: Path) -> None:
    catalogue = task_of(tmp_path, class_of(STEPS), CLASS)
    async with started(tmp_path, catalogue) as harness:
        saved = await died_at(harness, 4)
    assert [each.step for each in saved] == [4, 2]
    (tmp_path / "other").mkdir()
    async with started(tmp_path / "other", catalogue) as harness:
        story = await harness.story("t", task_type="a", attempt=2, checkpoints=saved)
    (resumed,) = of(story, TaskResumed)
    assert (resumed.step, resumed.checkpoint) == (4, saved[0])
    kinds = [type(event) for event in story]
    assert kinds.index(TaskResumed) < kinds.index(MetricReported)
    assert reports(story) == [(4, 10), (5, 15)]
    assert of(story, AttemptEnded)[0].result == {"sum": 15}


async def test_a_damaged_checkpoint_is_passed_over_and_without_any_the_attempt_fails_to_load(
    tmp_path: Path, store: Path
) -> None:
    async with started(tmp_path, task_of(tmp_path, class_of(STEPS), CLASS)) as harness:
        saved = await died_at(harness, 4)
        damage(store, saved[0])
        await harness.run("t", task_type="a", attempt=2, checkpoints=saved)
        story = await harness.events_until_end("t", ends=2)
        assert [event.step for event in of(story, TaskResumed)] == [2]
        assert reports(story)[-4:] == [(2, 3), (3, 6), (4, 10), (5, 15)]
        damage(store, saved[0])  # the second attempt has saved the same bytes, which mended it
        await harness.run("t", task_type="a", attempt=3, checkpoints=saved[:1])
        end = of(await harness.events_until_end("t", ends=3), AttemptEnded)[-1]
    error_of(end, "LOAD", "artifact_damaged")


FORGETS = class_of("""
last = trial.last_checkpoint()
if last is None:
    trial.report(0.5, 0)
    trial.checkpoint(1, {"seen": 1})
    raise MemoryError("too much")
trial.report(0.75)
return {"step": last.step, "seen": last.state["seen"]}
""")
PROGRAM = """
step = int(os.environ.get("TRACKSIDE_CHECKPOINT_STEP", 0))
if step:
    state = open(os.environ["TRACKSIDE_CHECKPOINT"]).read()
    say(resumed=True)
else:
    state = ""
for number in range(step, step + 2):
    state += str(number)
    say(report=number)
open("state.txt", "w").write(state)
say(checkpoint={"step": step + 2, "path": "state.txt"})
say(result={"state": state})
"""
REFUSES = class_of("""
if trial.last_checkpoint():
    raise RuntimeError("size mismatch")
trial.report(0.5, 0)
trial.checkpoint(1, {"seen": 1})
""")
ASKED = """
trial.last_checkpoint()
trial.report(0.5, 0)
while not trial.should_checkpoint():
    time.sleep(0.01)
trial.checkpoint(1, {"seen": 1})
time.sleep(600)
"""
SILENT = """
trial.last_checkpoint()
trial.report(0.5, 0)
time.sleep(600)
"""
NEVER = """
trial.report(0.5, 0)
time.sleep(600)
"""
TYPES = {
    "forgets": TaskType(FORGETS, CLASS),
    "refuses": TaskType(REFUSES, CLASS),
    "program": TaskType(PROGRAM),
    "asked": TaskType(class_of(ASKED), CLASS),
    "silent": TaskType(class_of(SILENT), CLASS),
    "never": TaskType(class_of(NEVER), CLASS),
}
pytestmark = SHARES
worker = shared_types(TYPES)


async def test_a_training_that_ran_out_of_memory_continues_in_its_process(harness: WorkerHarness) -> None:
    story = await harness.story("t", task_type="forgets", interrupts=1)
    assert of(story, AttemptEnded)[0].result == {"step": 1, "seen": 1}
    (resumed,) = of(story, TaskResumed)
    assert (resumed.interrupts, resumed.step) == (1, 1)
    assert reports(story) == [(0, 0.5), (1, 0.75)]


async def test_a_training_that_fails_with_its_checkpoint_before_its_first_report_is_told_how_to_go_without(
    harness: WorkerHarness,
) -> None:
    saved = checkpoints(await harness.story("t", task_type="refuses"))
    refused = await harness.ended("u", task_type="refuses", checkpoints=saved)
    said = error_of(refused, "TRAIN", "RuntimeError").message
    assert "size mismatch" in said
    assert "before its first report, after it was given the checkpoint of step 1" in said
    assert "`resume: false`" in said


async def test_a_program_continues_from_the_file_that_it_is_given(harness: WorkerHarness) -> None:
    saved = checkpoints(await harness.story("t", task_type="program"))
    await harness.run("t", task_type="program", attempt=2, checkpoints=saved)
    story = await harness.events_until_end("t", ends=2)
    assert [end.result for end in of(story, AttemptEnded)] == [{"state": "01"}, {"state": "0123"}]
    assert [event.step for event in of(story, TaskResumed)] == [2]
    assert reports(story) == [(0, 0), (1, 1), (2, 2), (3, 3)]


@pytest.mark.parametrize(
    ("kind", "seconds", "steps"), [("asked", 600.0, [1]), ("silent", 0.3, []), ("never", 600.0, [])]
)
async def test_a_task_is_asked_for_a_checkpoint_before_it_is_preempted(
    harness: WorkerHarness, kind: str, seconds: float, steps: list[int]
) -> None:
    command = await harness.run("t", task_type=kind)
    await harness.event(MetricReported, "t")
    await harness.stop(command, end="preempted", checkpoint_s=seconds)
    story = await harness.events_until_end("t")
    assert of(story, AttemptEnded)[0].end is AttemptEnd.PREEMPTED
    assert [each.step for each in checkpoints(story)] == steps
