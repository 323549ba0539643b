"""Trainings that continue from a checkpoint: in a later attempt, on another worker, and before preemption."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.integration.worker.given import started, task_of
from tests.integration.worker.harness import of, stream_of
from trackside.contracts.artifacts import ArtifactSaved, CheckpointReference, TaskResumed
from trackside.contracts.message import Message
from trackside.contracts.tasks import AttemptEnd, AttemptEnded, MetricReported

CLASS = "entry: 'script:Training'"
TASK = """
import json, os, time
from pathlib import Path
from trackside.sdk import Task, trial

class Training(Task):
    def train(self, device):
"""
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


def class_of(body: str) -> str:
    """Returns a script with a task class whose `train` has this body."""
    return TASK + "\n".join(f"        {line}" for line in body.strip().splitlines()) + "\n"


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a store, which the worker's environment names."""
    folder = tmp_path / "store"
    folder.mkdir()
    monkeypatch.setenv("TRACKSIDE_STORE", str(folder))
    return folder


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
    await harness.run("t", {"dies_at": step}, task_type="a")
    story = await harness.events_until_end("t")
    assert not of(story, TaskResumed)
    return checkpoints(story)


async def test_a_later_attempt_continues_on_another_worker(tmp_path: Path, store: Path) -> None:
    catalogue = task_of(tmp_path, class_of(STEPS), CLASS)
    async with started(tmp_path, catalogue) as harness:
        saved = await died_at(harness, 4)
    assert [each.step for each in saved] == [4, 2]
    (tmp_path / "other").mkdir()
    async with started(tmp_path / "other", catalogue) as harness:
        await harness.run("t", task_type="a", attempt=2, checkpoints=saved)
        story = await harness.events_until_end("t")
    (resumed,) = of(story, TaskResumed)
    assert (resumed.step, resumed.checkpoint) == (4, saved[0])
    assert [type(event) for event in story].index(TaskResumed) < [type(event) for event in story].index(
        MetricReported
    )
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
    assert end.end is AttemptEnd.FAILED
    assert end.error is not None
    assert (end.error.stage, end.error.type) == ("LOAD", "artifact_damaged")


async def test_a_training_that_ran_out_of_memory_continues_in_its_process(
    tmp_path: Path, store: Path
) -> None:
    script = class_of("""
last = trial.last_checkpoint()
if last is None:
    trial.report(0.5, 0)
    trial.checkpoint(1, {"seen": 1})
    raise MemoryError("too much")
trial.report(0.75)
return {"step": last.step, "seen": last.state["seen"]}
""")
    async with started(tmp_path, task_of(tmp_path, script, CLASS)) as harness:
        await harness.run("t", task_type="a", interrupts=1)
        story = await harness.events_until_end("t")
    assert of(story, AttemptEnded)[0].result == {"step": 1, "seen": 1}
    (resumed,) = of(story, TaskResumed)
    assert (resumed.interrupts, resumed.step) == (1, 1)
    assert reports(story) == [(0, 0.5), (1, 0.75)]


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


async def test_a_program_continues_from_the_file_that_it_is_given(tmp_path: Path, store: Path) -> None:
    async with started(tmp_path, task_of(tmp_path, PROGRAM)) as harness:
        await harness.run("t", task_type="a")
        saved = checkpoints(await harness.events_until_end("t"))
        await harness.run("t", task_type="a", attempt=2, checkpoints=saved)
        story = await harness.events_until_end("t", ends=2)
    assert [end.result for end in of(story, AttemptEnded)] == [{"state": "01"}, {"state": "0123"}]
    assert [event.step for event in of(story, TaskResumed)] == [2]
    assert reports(story) == [(0, 0), (1, 1), (2, 2), (3, 3)]


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


@pytest.mark.parametrize(
    ("body", "seconds", "steps"),
    [(ASKED, 600.0, [1]), (SILENT, 0.3, []), (NEVER, 600.0, [])],
    ids=["saves one when asked", "never answers", "has no checkpoints"],
)
async def test_a_task_is_asked_for_a_checkpoint_before_it_is_preempted(
    tmp_path: Path, store: Path, body: str, seconds: float, steps: list[int]
) -> None:
    async with started(tmp_path, task_of(tmp_path, class_of(body), CLASS)) as harness:
        command = await harness.run("t", task_type="a")
        await harness.first(MetricReported, harness.topics.events, stream_of("t"))
        await harness.stop(command, end="preempted", checkpoint_s=seconds)
        story = await harness.events_until_end("t")
    assert of(story, AttemptEnded)[0].end is AttemptEnd.PREEMPTED
    assert [each.step for each in checkpoints(story)] == steps
