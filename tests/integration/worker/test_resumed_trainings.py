"""Trainings of torch that continue from the store on another worker, and with another model."""

from pathlib import Path

import pytest

from tests.integration.worker.given import started, task_of
from tests.integration.worker.harness import of
from tests.integration.worker.saved import named_store
from tests.integration.worker.test_checkpoints import CLASS, checkpoints, class_of, reports
from trackside.contracts.artifacts import TaskResumed
from trackside.contracts.tasks import AttemptEnd, AttemptEnded

HEAD = """
import sys
sys.modules["matplotlib"] = None  # it takes long to import
import torch
from trackside.sdk.training import Training as Saved
"""
TRAINING = HEAD + class_of("""
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


async def test_a_training_continues_on_another_worker_as_if_it_had_never_stopped_and_with_no_other_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named_store(tmp_path, monkeypatch).mkdir()
    catalogue = task_of(tmp_path, TRAINING, CLASS)
    async with started(tmp_path, catalogue, preload="torch") as harness:
        await harness.run("whole", {"width": 2}, task_type="a")
        whole = await harness.end("whole")
        await harness.run("t", {"width": 2, "dies_at": 4}, task_type="a")
        saved = checkpoints(await harness.events_until_end("t"))
    assert [each.step for each in saved] == [4, 2]
    (tmp_path / "other").mkdir()
    async with started(tmp_path / "other", catalogue, preload="torch") as harness:
        await harness.run("t", {"width": 2}, task_type="a", attempt=2, checkpoints=saved)
        story = await harness.events_until_end("t")
        await harness.run("wider", {"width": 3}, task_type="a", checkpoints=saved)
        refused = await harness.end("wider")
        await harness.run("wider", {"width": 3}, task_type="a", attempt=2)
        anew = await harness.end("wider", nth=2)
    assert [event.step for event in of(story, TaskResumed)] == [4]
    assert [step for step, _ in reports(story)] == [4, 5]
    assert of(story, AttemptEnded)[0].result == whole.result, whole.error
    assert refused.end is AttemptEnd.FAILED and refused.error is not None
    assert (refused.error.stage, refused.error.type) == ("TRAIN", "RuntimeError")
    assert "size mismatch for weight" in refused.error.message
    assert "before its first report, after it was given the checkpoint of step 4" in refused.error.message
    assert "`resume: false`" in refused.error.message
    assert anew.end is AttemptEnd.FINISHED, anew.error
