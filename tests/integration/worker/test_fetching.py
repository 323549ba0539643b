"""What a running task fetches, such as the model that an instruction names: by classes and programs."""

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.integration.worker.given import PYTHON, SHARES, TaskType, shared_types, started, task_of
from tests.integration.worker.harness import WorkerHarness
from tests.integration.worker.saved import blob, put
from tests.integration.worker.test_inputs import (
    FORBIDDEN,
    WORDS,
    outside,
    remote,
    store_server,
    with_credentials,
)
from tests.polling import poll_until
from trackside.artifacts.cache import Cache
from trackside.contracts.tasks.artifacts import ArtifactReference
from trackside.contracts.tasks.instructions import InstructionAcknowledged, TaskReady
from trackside.contracts.tasks.tasks import AttemptEnd, AttemptEnded
from trackside.worker.artifacts import inputs

CLASS = """
from concurrent.futures import ThreadPoolExecutor
from trackside.sdk import FetchError, Service, trial

class Reader(Service):
    def serve(self, device):
        trial.ready()
        with ThreadPoolExecutor() as threads:
            while not trial.should_stop():
                found = trial.instruction(wait_s=0.1)
                if found is None:
                    continue
                for each in found.body.get("releases", ()):
                    trial.release(each)
                try:
                    [*paths] = threads.map(trial.fetch, found.body["references"])
                except FetchError as error:
                    found.acknowledge(ok=False, code=error.code, problem=str(error))
                else:
                    modes = [oct(path.stat().st_mode)[-3:] for path in paths]
                    found.acknowledge(texts=[path.read_text() for path in paths], modes=modes)
"""
PROGRAM = """
say(ready={})
answers, number = open(int(os.environ["TRACKSIDE_ANSWERS_FD"])), 0
while True:
    found = instruction_after(number)
    number, said = found["number"], []
    for reference in found["body"].get("releases", ()):
        say(release=reference)
    for reference in found["body"]["references"]:
        say(fetch=reference)
        said.append(json.loads(answers.readline()))
    wrong = next((each for each in said if "code" in each), {})
    texts = [] if wrong else [open(each["path"]).read() for each in said]
    detail = wrong or {"texts": texts, "modes": ["444"] * len(said)}
    say(acknowledge={"number": number, "ok": not wrong, "detail": detail})
"""
BY_SDK = CLASS + "\nif __name__ == '__main__':\n    Reader().serve('cpu')\n"
KINDS = {
    "class": (CLASS, "entry: 'script:Reader'"),
    "program": (PROGRAM, f"{PYTHON}]"),
    "program-with-sdk": (BY_SDK, f"{PYTHON}]"),
}


SERVICE = ", runner: service"
pytestmark = SHARES
worker = shared_types({kind: TaskType(*of_kind, SERVICE) for kind, of_kind in KINDS.items()})


class Instructed:
    """A service that is told what to fetch."""

    def __init__(self, harness: WorkerHarness) -> None:
        self._harness = harness
        self._number = 0

    async def begin(self, **more: Any) -> None:
        self._command = await self._harness.run("a", service=True, **{"task_type": "a", **more})
        await self._harness.event(TaskReady, "a")

    async def fetch(self, *references: ArtifactReference | dict[str, Any]) -> InstructionAcknowledged:
        """Returns what the service says of what it was told to fetch."""
        await self.tell(*references)
        return await self.answer()

    async def release(self, *references: ArtifactReference) -> None:
        """Makes the service release artifacts."""
        await self.tell(releases=references)
        assert (await self.answer()).ok

    async def tell(
        self,
        *references: ArtifactReference | dict[str, Any],
        releases: Iterable[ArtifactReference] = (),
    ) -> None:
        self._number += 1
        plain = [
            each.model_dump(mode="json") if isinstance(each, ArtifactReference) else each
            for each in references
        ]
        freed = [each.model_dump(mode="json") for each in releases]
        await self._harness.instruct(self._command, self._number, references=plain, releases=freed)

    async def answer(self) -> InstructionAcknowledged:
        return await self._harness.event(InstructionAcknowledged, "a", self._number)

    async def stop(self) -> AttemptEnded:
        await self._harness.stop(self._command)
        return await self._harness.end("a")


@pytest.mark.parametrize("kind", KINDS)
async def test_a_service_fetches_what_an_instruction_names(
    harness: WorkerHarness, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inputs, "RETRY_AFTER_S", (0.1,))
    store, service = harness.data_dir.parent / "store", Instructed(harness)
    lost = put(store, f"nobody has these {kind}".encode())
    blob(store, lost).unlink()
    await service.begin(task_type=kind)
    words, other = put(store, WORDS), outside(tmp_path / "other", b"four")
    answer = await service.fetch(words, other)
    assert answer.ok, answer.detail
    assert answer.detail == {"texts": [WORDS.decode(), "four"], "modes": ["444", "444"]}
    answer = await service.fetch(words, lost)
    assert (answer.ok, answer.detail["code"]) == (False, "artifact_missing")
    assert lost.sha256 in answer.detail["problem"]
    blob(store, lost).write_bytes(f"nobody has this! {kind}".encode())
    answer = await service.fetch(lost)
    assert (answer.ok, answer.detail["code"]) == (False, "artifact_damaged")
    answer = await service.fetch({"uri": "s3://user:secret-word@models/a", "sha256": "0" * 64})
    assert (answer.ok, answer.detail["code"]) == (False, "bad_artifact")
    assert "size_bytes" in answer.detail["problem"] and "secret-word" not in answer.detail["problem"]
    assert (await service.fetch(words)).ok, "it goes on"
    assert (await service.stop()).end is AttemptEnd.CANCELLED


@pytest.mark.parametrize(
    "kind",
    ["class", *(pytest.param(kind, marks=pytest.mark.long) for kind in ("program", "program-with-sdk"))],
)
async def test_what_was_fetched_stays_in_the_cache_until_it_is_released_or_the_attempt_ends(
    tmp_path: Path, store: Path, kind: str
) -> None:
    cache = Cache(tmp_path / "cache", 1)
    catalogue = task_of(tmp_path, *KINDS[kind], SERVICE)
    async with started(tmp_path, catalogue, cache_dir=cache.folder) as harness:
        service = Instructed(harness)
        await service.begin()
        words, others = put(store, WORDS), put(store, b"other words")
        assert (await service.fetch(words, others)).ok
        entries = cache.folder / "entries"
        cache.evict()
        assert len(list(entries.iterdir())) == 2, "it is in use, although there is room for one byte only"
        await service.release(words, put(store, b"never fetched"))

        async def one_is_left() -> bool:
            cache.evict()
            return [each.name for each in entries.iterdir()] == [others.sha256]

        await poll_until(one_is_left)
        await service.release(words)  # a second time
        assert (await service.fetch(words)).detail["texts"] == [WORDS.decode()], "it is fetched again"
        await service.stop()
        await asyncio.to_thread(cache.evict)
        assert not list(entries.iterdir())


async def test_a_service_that_waits_for_an_artifact_does_not_count_as_hung(
    tmp_path: Path, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inputs, "RETRY_AFTER_S", (1.0, 0.1))
    async with store_server(FORBIDDEN) as (url, asked):
        with_credentials(tmp_path, monkeypatch, url)
        async with started(tmp_path, task_of(tmp_path, *KINDS["class"], SERVICE)) as harness:
            service = Instructed(harness)
            await service.begin(unresponsive_s=0.5)
            await service.tell(remote())
            await asked.wait()
            answer = await service.answer()
            assert (answer.ok, answer.detail["code"]) == (False, "store_unreachable")
            put(store, WORDS)
            assert (await service.fetch(remote())).ok
