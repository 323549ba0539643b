"""An inference service in a worker: its answers, the models that it takes, its counts and hard examples."""

import asyncio
import json
import os
import shutil
import signal
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import pytest_asyncio

from tests.integration.worker.given import SHARES, TaskType, shared_types, started, task_of
from tests.integration.worker.harness import Gate, WorkerHarness, alive, of
from tests.integration.worker.saved import blob, put
from tests.polling import poll_until
from trackside.artifacts.cache import Cache
from trackside.contracts.tasks.artifacts import ArtifactReference, ArtifactSaved
from trackside.contracts.tasks.instructions import Instruction, InstructionAcknowledged, TaskReady
from trackside.contracts.tasks.tasks import AttemptEnd, AttemptEnded, TaskError
from trackside.incremental.serving.serving_load import TimedAnswer, load_service

SCRIPT = """
import os
import threading
from trackside.incremental import InferenceService
from trackside.sdk import trial

class Factor(InferenceService):
    threads = 4

    def load_model(self, path, device):
        model = super().load_model(path, device)
        if gate := model.get("gate"):
            open(gate).read()
        return model["factor"]

    def predict(self, model, inputs):
        if inputs == "pid":
            return os.getpid()
        if inputs == "object":
            return object()
        if isinstance(inputs, str):
            raise RuntimeError("inputs are " + inputs)
        threading.Event().wait(0.002)  # so that models are swapped while answers are computed
        return {"product": model * inputs, "factor": model}

    def scores(self, inputs, outputs):
        return [[0, 0, 1, 1, inputs / 10]]

    def as_sample(self, inputs):
        return str(inputs)
"""
FACTOR = (SCRIPT, "entry: 'script:Factor'", ", runner: service")
pytestmark = SHARES
worker = shared_types({"a": TaskType(*FACTOR)})


class Serving:
    """A service with its task `a`, and what it is given."""

    def __init__(self, harness: WorkerHarness, store: Path) -> None:
        self.harness = harness
        self.store = store
        self.address = ""
        self._given = 0

    def version(self, number: int, **more: Any) -> dict[str, Any]:
        """Puts a model with the factor `number` into the store; returns it as an instruction names it."""
        reference = put(self.store, json.dumps({"factor": number, **more}).encode())
        return self.named(number, reference)

    def named(self, number: int, reference: ArtifactReference, form: str = "json") -> dict[str, Any]:
        artifact = reference.model_dump(mode="json")
        return {"model": "factors", "version": number, "format": form, "artifact": artifact}

    async def begin(self, version: dict[str, Any], attempt: int = 1, **settings: Any) -> TaskReady:
        instruction, inputs = settings.pop("instruction", None), named_input(version)
        service = {"job": "j", "name": "n", "replica": 1, "update": 0, "model": version, **settings}
        more: dict[str, Any] = {"task_type": "a", "service": True, "attempt": attempt, "inputs": inputs}
        self.command = await self.harness.run("a", {"service": service}, instruction=instruction, **more)
        found = await self.ready_after(lambda each: each.attempt == attempt)
        self.address = found.detail["address"]
        return found

    async def ready_after(self, is_it: Any) -> TaskReady:
        """Waits for what the service says of itself."""
        messages = await self.harness.events("a", lambda all_: any(map(is_it, of(all_, TaskReady))))
        return next(each for each in of(messages, TaskReady) if is_it(each))

    async def update(self, number: int, version: dict[str, Any]) -> InstructionAcknowledged:
        """Sends the nth instruction; returns what the service says of it."""
        await self.harness.instruct(self.command, number, update=number, model=version)
        return await self.acknowledged(number)

    async def acknowledged(self, number: int) -> InstructionAcknowledged:
        return await self.harness.event(InstructionAcknowledged, "a", number)

    async def ask(self, inputs: Any) -> dict[str, Any]:
        (answer,) = await self.load(1, inputs, 1)
        return {**answer.body, "status": answer.status}

    async def described(self) -> dict[str, Any]:
        async with aiohttp.ClientSession() as session, session.get(f"{self.address}/model") as answer:
            found: dict[str, Any] = await answer.json()
            return found

    async def load(self, clients: int, inputs: Any, count: int) -> list[TimedAnswer]:
        left = iter([False] * count)
        return await load_service(self.address, clients, lambda _: inputs, lambda: next(left, True))

    async def stop(self, nth: int = 1) -> None:
        await self.harness.stop(self.command)
        assert (await self.harness.end("a", nth)).end is AttemptEnd.CANCELLED

    async def fails(self, settings: dict[str, Any], **more: Any) -> TaskError:
        """Begins a service that can't; returns the error of its end."""
        ended = await self.harness.ended("a", {"service": settings}, task_type="a", service=True, **more)
        assert ended.error is not None
        return ended.error


def named_input(version: dict[str, Any]) -> dict[str, ArtifactReference]:
    return {"model": ArtifactReference.model_validate(version["artifact"])}


@pytest_asyncio.fixture(loop_scope="module")
async def service(harness: WorkerHarness) -> Serving:
    return Serving(harness, harness.data_dir.parent / "store")


async def test_it_begins_with_its_input_and_takes_what_it_is_given(service: Serving) -> None:
    """I28: the answer to an instruction has version and digest; a failed load keeps the model before."""
    first, second = service.version(2), service.version(3)
    ready = await service.begin(first)
    digest = first["artifact"]["sha256"]
    expected = {"update": 0, "version": 2, "sha256": digest, "inferences": 0, "hard": 0}
    assert ready.detail == {"address": service.address, **expected}
    answer = await service.ask(5)
    assert (answer["outputs"], answer["version"]) == ({"product": 10, "factor": 2}, 2)
    assert (answer["sha256"], answer["update"], answer["hard"]) == (digest, 0, False)
    said = await service.update(1, second)
    digest = second["artifact"]["sha256"]
    assert said.ok and said.detail == {"update": 1, "version": 3, "sha256": digest}
    assert (await service.ask(5))["outputs"]["product"] == 15
    ready = await service.ready_after(lambda each: each.detail["update"] == 1)
    assert (ready.detail["sha256"], ready.detail["inferences"]) == (digest, 1)
    for number, (bad, message) in enumerate(bad_versions(service), 2):
        said = await service.update(number, bad)
        assert not said.ok and said.detail["update"] == number
        assert message in said.detail["message"]
        assert (await service.ask(5))["sha256"] == digest, "the one before stays in use"
    await service.stop()


async def test_the_host_keeps_the_live_model_and_the_one_before(tmp_path: Path, store: Path) -> None:
    """Of 10 swaps; a rollback by one version needs no store."""
    cache = Cache(tmp_path / "cache", 1)  # it has room for what is in use only
    async with started(tmp_path, task_of(tmp_path, *FACTOR), cache_dir=cache.folder) as harness:
        service = Serving(harness, store)
        versions = [service.version(number) for number in range(1, 12)]
        digests = [each["artifact"]["sha256"] for each in versions]
        await service.begin(versions[0])
        for number in range(1, 11):
            assert (await service.update(number, versions[number])).ok
            expected = {digests[0], *digests[max(0, number - 1) : number + 1]}  # also its input
            await poll_until(partial(keeps, cache, expected))
        bad = service.named(12, put(store, b"{factor}"))
        assert not (await service.update(11, bad)).ok
        await poll_until(partial(keeps, cache, {digests[0], *digests[9:]}))
        await asyncio.to_thread(shutil.rmtree, store / "blobs")
        assert (await service.update(12, versions[9])).ok
        assert (await service.ask(5))["version"] == 10
        await service.stop()


async def keeps(cache: Cache, digests: set[str]) -> bool:
    """Returns whether a cache has these files after all that is not in use was removed."""
    await asyncio.to_thread(cache.evict)
    return {each.name for each in (cache.folder / "entries").iterdir()} == digests


def bad_versions(service: Serving) -> list[tuple[dict[str, Any], str]]:
    """Returns versions that can't be loaded, each with a part of the reason."""
    store = service.store
    text = put(store, b"{factor}")
    unknown, other = put(store, b"onnx"), service.version(9)
    other["artifact"]["sha256"] = "0" * 64
    other["artifact"]["uri"] = "store:sha256/" + "0" * 64
    return [
        (service.named(4, text), "JSONDecodeError"),
        (service.named(4, unknown, "onnx"), "format 'onnx' can't be read"),
        (service.named(4, put(store, b'{"no": 1}')), "KeyError: 'factor'"),
        (other, "0" * 64),
        ({"model": "factors", "version": 4}, "$.model.artifact: expected a reference"),
        ({**service.version(4), "version": "four"}, "$.model.version"),
    ]


async def test_requests_are_answered_while_a_model_is_loaded(service: Serving, gate: Gate) -> None:
    await service.begin(service.version(2))
    version = service.version(3, gate=str(gate.path))
    await service.harness.instruct(service.command, 1, update=1, model=version)
    opened = asyncio.to_thread(gate.path.open, "w")  # returns once the service waits at the gate
    with await opened as waiting:
        answers = await service.load(4, 5, 40)
        assert {each.body["version"] for each in answers} == {2}
        waiting.write("\n")
    assert (await service.acknowledged(1)).ok
    assert (await service.ask(5))["version"] == 3
    await service.stop()


async def test_no_answer_fails_or_is_mixed_while_twenty_models_are_swapped(service: Serving) -> None:
    versions = {number: service.version(number) for number in range(1, 22)}
    digests = {number: each["artifact"]["sha256"] for number, each in versions.items()}
    await service.begin(versions[1])
    is_over = False
    clients = asyncio.create_task(load_service(service.address, 8, lambda n: n, lambda: is_over))
    for number in range(1, 21):
        assert (await service.update(number, versions[number + 1])).ok
    is_over = True
    answers = await clients
    for each in answers:
        assert each.status == 200, each.body
        version = each.body["version"]
        assert each.body["outputs"] == {"product": version * each.inputs, "factor": version}
        assert each.body["sha256"] == each.sha256 == digests[version]
        assert each.body["update"] == version - 1
    assert len({each.body["version"] for each in answers}) > 10
    await service.stop()


async def test_each_window_reports_counts_and_stores_and_appends_hard_examples(
    service: Serving, tmp_path: Path
) -> None:
    """I40: the miner reads the scores; counts are reported by window, only if they have changed."""
    dataset = tmp_path / "data.txt"
    dataset.write_text("0\n")
    mining = {"miner": "Threshold", "append_to": {"url": dataset.as_uri(), "format": "txt"}}
    await service.begin(service.version(2), window_s=0.1, hard_examples=mining)
    answers = [await service.ask(inputs) for inputs in (1, 9, 3)]
    assert [each["hard"] for each in answers] == [True, False, True]
    ready = await service.ready_after(lambda each: each.detail["inferences"] == 3)
    assert ready.detail["hard"] == 2
    await service.stop()
    saved = of(await service.harness.events_so_far("a"), ArtifactSaved)
    lines = [line for each in saved for line in blob(service.store, each).read_text().splitlines()]
    assert [json.loads(line) for line in lines] == [
        {
            "inputs": inputs,
            "outputs": {"product": 2 * inputs, "factor": 2},
            "scores": [[0, 0, 1, 1, inputs / 10]],
            "version": 2,
        }
        for inputs in (1, 3)
    ]
    assert {(each.kind, each.name) for each in saved} == {("hard-examples", "hard-examples")}
    assert sum(each.metadata["examples"] for each in saved) == 2
    assert dataset.read_text() == "0\n1\n3\n"
    counts = [each.detail["inferences"] for each in of(await service.harness.events_so_far("a"), TaskReady)]
    assert counts == sorted(set(counts)), "nothing is said of a window without requests"


async def test_the_window_that_is_open_when_a_service_is_stopped_is_reported(service: Serving) -> None:
    """I40: before the end of its attempt, with the hard examples that it has saved."""
    mining = {"miner": "Threshold"}
    await service.begin(service.version(2), window_s=3_600, hard_examples=mining)
    for inputs in (1, 9, 3):
        await service.ask(inputs)
    await service.stop()
    said = await service.harness.events_so_far("a")
    last = of(said, TaskReady)[-1]
    assert (last.detail["inferences"], last.detail["hard"]) == (3, 2)
    (saved,) = of(said, ArtifactSaved)
    (ended,) = of(said, AttemptEnded)
    assert saved.metadata["examples"] == 2 and said.index(last) < said.index(ended)


async def test_after_a_kill_the_next_attempt_serves_what_it_was_told_last(service: Serving) -> None:
    first, second = service.version(2), service.version(3)
    await service.begin(first)
    assert (await service.update(1, second)).ok
    pid = (await service.ask("pid"))["outputs"]
    os.kill(pid, signal.SIGKILL)
    assert (await service.harness.end("a")).end is AttemptEnd.FAILED
    assert not alive(pid)
    newest = Instruction(number=1, body={"update": 1, "model": second})
    ready = await service.begin(first, attempt=2, instruction=newest)
    assert (ready.detail["update"], ready.detail["version"]) == (1, 3)
    said = await service.acknowledged(2)
    assert (said.attempt, said.number, said.ok) == (2, 1, True)
    assert (await service.ask(5))["version"] == 3
    await service.stop(nth=2)


async def test_errors_of_predict_are_answered_and_counted_and_end_nothing(service: Serving) -> None:
    mining = {"miner": "CloudOnly"}
    await service.begin(service.version(2), hard_examples=mining)
    for inputs, code, message in (
        ("wrong", "predict_failed", "predict raised RuntimeError: inputs are wrong"),
        ("object", "bad_outputs", "object is not JSON"),
        ("pid", None, None),
    ):
        answer = await service.ask(inputs)
        error = answer.get("error", {})
        assert (error.get("code"), error.get("message")) == (code, message)
        assert answer["status"] == (500 if code else 200)
    assert (answer["hard"], answer["version"]) == (False, 2), "its scores can't be computed"
    found = await service.described()
    counts = [found[name] for name in ("inferences", "hard", "errors", "mining_errors")]
    assert counts == [1, 0, 2, 2]
    assert "script.py" in await service.harness.output("a", lambda text: "inputs are wrong" in text)
    await service.stop()


async def test_an_attempt_that_cannot_load_its_instruction_serves_its_input_and_says_so(
    service: Serving,
) -> None:
    newest = Instruction(number=4, body={"update": 4, "model": service.named(3, put(service.store, b"{"))})
    ready = await service.begin(service.version(2), instruction=newest)
    assert (ready.detail["update"], ready.detail["version"]) == (0, 2)
    said = await service.acknowledged(1)
    assert (said.number, said.ok, said.detail["update"]) == (4, False, 4)
    assert (await service.ask(5))["outputs"]["product"] == 10
    await service.stop()


async def test_an_input_of_another_digest_than_the_parameters_name_ends_the_attempt(service: Serving) -> None:
    version, other = service.version(2), service.version(3)
    asked = {"model": {**version, "artifact": other["artifact"]}}
    error = await service.fails(asked, inputs=named_input(version))
    assert f"expected {other['artifact']['sha256']}" in error.message


async def test_an_unknown_miner_ends_the_attempt_and_the_known_ones_are_named(service: Serving) -> None:
    error = await service.fails({"hard_examples": {"miner": "Treshold"}})
    assert "known: BertRouter, CloudOnly" in error.message
