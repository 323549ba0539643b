"""Scripts of Sedna on a real worker: they train, evaluate two models, and serve the one that is deployed."""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.integration.worker.given import started
from tests.integration.worker.harness import WorkerHarness, of, stream_of
from tests.integration.worker.saved import all_in_store, named_store
from tests.unit.compat.sedna_scripts import write_samples, write_scripts
from trackside.artifacts.opening import open_store
from trackside.artifacts.settings import StoreSettings
from trackside.contracts.artifacts import ArtifactReference
from trackside.contracts.instructions import InstructionAcknowledged, TaskReady
from trackside.contracts.tasks import AttemptEnd, AttemptEnded

SEED = 20
JOB = {"job": "sorter", "number": 1, "lines": 200}


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = named_store(tmp_path, monkeypatch)
    folder.mkdir()
    return folder


@asynccontextmanager
async def scripts(folder: Path) -> AsyncIterator[WorkerHarness]:
    """Runs a worker with the scripts as its task types, as `trackside convert sedna` writes the catalogue."""
    sys.stdout.write(f"seed {SEED}\n")
    write_scripts(folder)
    run = f"{sys.executable}, -m, trackside.compat.sedna"
    tasks = [f"  {name}: {{program: [{run}, ./{name}.py], path: .}}" for name in ("train", "eval")]
    tasks.append(f"  serve: {{program: [{run}, ./serve.py], path: ., runner: service}}")
    catalogue = folder / "catalogue.yaml"
    catalogue.write_text("\n".join(["tasks:", *tasks, ""]))
    async with started(folder, catalogue) as harness:
        yield harness


def put(store: Path, source: Path | bytes) -> ArtifactReference:
    return open_store(StoreSettings(store=str(store))).put(source)


async def trained(harness: WorkerHarness, store: Path, task_id: str, epochs: int, **more: Any) -> Any:
    """Trains a model; returns the event of its artifact, and a reference to it."""
    inputs = {"samples": put(store, more.pop("samples")), "model": put(store, b"none")}
    parameters = {"epochs": epochs, "round": {**JOB, "stage": "train"}, **more}
    await harness.run(task_id, parameters, task_type="train", inputs=inputs)
    story = await harness.events_until_end(task_id)
    end = of(story, AttemptEnded)[0]
    assert end.end is AttemptEnd.FINISHED, end.error
    [saved] = all_in_store(store, story)
    fields = saved.model_dump(include={"uri", "sha256", "size_bytes", "media_type"})
    return saved, ArtifactReference(**fields)


async def test_a_round_of_scripts_trains_two_models_and_compares_them(tmp_path: Path, store: Path) -> None:
    samples = write_samples(tmp_path / "samples", SEED)
    async with scripts(tmp_path) as harness:
        saved, good = await trained(harness, store, "good", 60, samples=samples)
        assert (saved.name, saved.kind, saved.metadata["format"]) == ("model", "model", "npz")
        assert 0 < saved.metadata["metrics"]["loss"] < 0.25
        _, poor = await trained(harness, store, "poor", 2, samples=samples, learning_rate="-1")
        others = put(store, write_samples(tmp_path / "others", SEED + 1))
        inputs = {"samples": others, "trained": good, "deployed": poor}
        await harness.run("eval", {"round": {**JOB, "stage": "eval"}}, task_type="eval", inputs=inputs)
        end = await harness.end("eval")
    assert end.end is AttemptEnd.FINISHED and end.result is not None, end.error
    assert end.result["trained"]["accuracy"] > 0.9 > end.result["deployed"]["accuracy"]
    assert len(end.result["deployed"]["recall"]) == 2


def version(number: int, artifact: ArtifactReference) -> dict[str, Any]:
    reference = artifact.model_dump(mode="json")
    return {"model": "sorter", "version": number, "format": "npz", "artifact": reference}


async def test_a_script_that_serves_takes_the_models_that_it_is_instructed_of(
    tmp_path: Path, store: Path
) -> None:
    """I28: a model that can't be loaded leaves the one before in use."""
    samples = write_samples(tmp_path / "samples", SEED)
    topics_of = stream_of("serve")
    async with scripts(tmp_path) as harness:
        _, first = await trained(harness, store, "first", 1, samples=samples)
        _, second = await trained(harness, store, "second", 60, samples=samples)
        mining = {"miner": "Threshold", "parameters": {"threshold": "0.5"}}
        service = {"job": "sorter", "name": "inference", "update": 0, "model": version(1, first)}
        parameters = {"service": {**service, "hard_examples": mining, "window_s": 0.1}}
        command = await harness.run(
            "serve", parameters, task_type="serve", service=True, inputs={"model": first}
        )
        ready = await harness.first(TaskReady, harness.topics.events, topics_of)
        assert (ready.detail["version"], ready.detail["sha256"]) == (1, first.sha256)
        await harness.instruct(command, 1, update=1, model=version(2, second))
        answer = await harness.first(InstructionAcknowledged, harness.topics.events, topics_of)
        assert (answer.ok, answer.detail) == (True, {"update": 1, "version": 2, "sha256": second.sha256})
        await harness.instruct(command, 2, update=2, model=version(3, put(store, b"no model")))
        answer = await harness.first(InstructionAcknowledged, harness.topics.events, topics_of, 2)
        assert (answer.ok, answer.detail["update"]) == (False, 2) and answer.detail["message"]
        found = await harness.messages(harness.topics.events, topics_of, _counted_after(answer))
        last = of(found, TaskReady)[-1].detail
        assert (last["version"], last["sha256"]) == (2, second.sha256)
        assert last["inferences"] >= last["hard"] >= 0
        await harness.stop(command)
        await harness.end("serve")


def _counted_after(answer: InstructionAcknowledged) -> Any:
    """Says whether a service has counted answers after an instruction."""

    def counted(found: list[Any]) -> bool:
        return answer in found and bool(of(found[found.index(answer) :], TaskReady))

    return counted
