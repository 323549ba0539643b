"""The example of docs/rounds.md: its stages, called directly, give the numbers that make its story."""

import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from trackside.aggregates.dataset.messages import DatasetSpec
from trackside.aggregates.rounds.job.job_spec import JobSpec
from trackside.aggregates.rounds.job.split import SplitRule, samples, share_of
from trackside.aggregates.rounds.job.trigger_messages import MetricCondition
from trackside.aggregates.rounds.stages import metrics
from trackside.artifacts.formats import check_model
from trackside.sdk import trial
from trackside.sdk.in_task.channel import ScreenChannel

FOLDER = Path(__file__).parents[3] / "deploy" / "examples" / "rounds"
DEPLOYED = [1, 3, 6, 8]
ROLLED_BACK_AFTER = 6


@pytest.fixture(name="example")
def _example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(str(FOLDER))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRACKSIDE_INPUTS", "inputs")
    yield importlib.import_module("digits_rounds")
    for name in ("digits_rounds", "digits_stream"):
        sys.modules.pop(name, None)


def document(name: str) -> dict[str, Any]:
    """Returns what a file of the example says, without its kind."""
    found: dict[str, Any] = yaml.safe_load((FOLDER / name).read_text())
    del found["kind"]
    return found


def run(task: type[Any], monkeypatch: pytest.MonkeyPatch, number: int, **inputs: bytes) -> dict[str, Any]:
    """Runs a task of the example as a round does; what it saves is in `outputs`."""
    Path("inputs").mkdir(exist_ok=True)
    for name, content in inputs.items():
        Path("inputs", name).write_bytes(content)
    monkeypatch.setenv("TRACKSIDE_PARAMETERS", json.dumps({"round": {"number": number}}))
    trial.connect(ScreenChannel())
    running = task()
    running.load()
    result: dict[str, Any] = running.train("cpu")
    return result


def test_eight_rounds_have_deployments_refusals_and_a_model_to_roll_back(
    example: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = JobSpec.model_validate(document("job.yaml"))
    assert DatasetSpec.model_validate(document("dataset.yaml")).format == "csv"
    assert isinstance(job.deploy.trigger, MetricCondition)
    segments = [SplitRule(0, share_of(job.dataset.train_prob))]
    saved = Path("outputs", example.MODEL)
    run(example.First, monkeypatch, 0)
    live = before = saved.read_bytes()
    feed, batches, deployed = Path("samples.csv"), list[list[str]](), []
    deltas = {}
    for number in range(1, 9):
        sys.modules["digits_stream"].append_batch(feed)
        header, *lines = feed.read_text().splitlines(keepends=True)
        arrived = range(200 * (number - 1), len(lines))
        chosen = [lines[at] for at in samples(segments, arrived.start, arrived.stop, "train")]
        batches.append([lines[at] for at in samples(segments, arrived.start, arrived.stop, "eval")])
        newest = [line for batch in batches[-job.dataset.eval_versions :] for line in batch]
        assert len(chosen) == 160 and len(batches[-1]) == 40
        text = {use: "".join([header, *each]).encode() for use, each in (("t", chosen), ("e", newest))}
        run(example.Train, monkeypatch, number, samples=text["t"], model=live)
        check_model(saved, "safetensors")
        trained = saved.read_bytes()
        found = run(example.Evaluate, monkeypatch, number, samples=text["e"], trained=trained, deployed=live)
        deltas[number] = metrics.deltas(found["trained"], found["deployed"])["accuracy_delta"]
        if deltas[number] > job.deploy.trigger.threshold:
            before, live = live, trained
            deployed.append(number)
        if number == ROLLED_BACK_AFTER:
            live = before
    assert deployed == DEPLOYED, deltas
    assert deltas[4] < -0.2  # the labels of this batch are those of other images


def test_training_again_gives_the_same_bytes(example: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    saved = Path("outputs", example.MODEL)
    models = []
    for _ in range(2):
        run(example.First, monkeypatch, 0)
        models.append(saved.read_bytes())
    assert models[0] == models[1]
