"""Tasks that save artifacts, and what the store and the log must have of them then."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.integration.worker.harness import WorkerHarness, of
from tests.polling import poll_until
from trackside.artifacts.opening import open_store
from trackside.artifacts.settings import StoreSettings
from trackside.contracts.envelope.message import Message
from trackside.contracts.tasks.artifacts import ArtifactReference, ArtifactSaved
from trackside.contracts.tasks.summaries import ReportedItem
from trackside.contracts.tasks.tasks import AttemptEnded
from trackside.telemetry import metrics

CLASS = "entry: 'script:Saving'"
TASK = """
from pathlib import Path
from trackside.sdk import SaveError, Task, trial

class Saving(Task):
    def train(self, device):
"""


def class_of(body: str) -> str:
    """Returns a script with a task class whose `train` has this body."""
    return TASK + "\n".join(f"        {line}" for line in body.strip().splitlines()) + "\n"


def put(store: Path, source: Path | bytes) -> ArtifactReference:
    return open_store(StoreSettings(store=str(store))).put(source)


def blob(store: Path, saved: ArtifactReference | ArtifactSaved) -> Path:
    """Returns the file in which a store has an artifact."""
    return store / "blobs" / "sha256" / saved.sha256[:2] / saved.sha256


async def all_records(harness: WorkerHarness) -> str:
    """Returns all records of all topics of the log as a text, without escapes of JSON."""
    found = list[str]()
    for topic in harness.topics.shared:
        ends = await harness.log.ends(topic.name)
        reader = harness.log.reader({(topic.name, partition): 0 for partition in ends})
        left = sum(ends.values())
        while left:
            entries = await reader.read(1.0)
            left -= len(entries)
            found += [repr(entry.headers) + (entry.value or b"").decode() for entry in entries]
        await reader.close()
    return "\n".join(found)


def all_files(folder: Path) -> str:
    """Returns the content of all files below a folder."""
    return "\n".join(path.read_text(errors="replace") for path in folder.rglob("*") if path.is_file())


def named_store(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Returns the folder of a store, which isn't made, and which the worker's environment names."""
    store = folder / "store"
    monkeypatch.setenv("TRACKSIDE_STORE", str(store))
    return store


def all_in_store(folder: Path | str, story: Sequence[Message]) -> list[ArtifactSaved]:
    """Returns what was saved: a store has the bytes of each, and the end of the attempt lies behind."""
    saved, store = of([*story], ArtifactSaved), open_store(StoreSettings(store=str(folder)))
    for event in saved:
        reference = ArtifactReference(
            **event.model_dump(include={"uri", "sha256", "size_bytes", "media_type"})
        )
        assert store.verify(reference) == "ok", event
    ends = [number for number, event in enumerate(story) if isinstance(event, AttemptEnded)]
    assert not of([*story[max(ends) :]], ArtifactSaved)
    return saved


def bytes_of(item: ReportedItem, folder: Path) -> bytes:
    """Returns the bytes of a reported value, which the store has."""
    assert item.artifact is not None
    sha256, size_bytes = item.artifact.sha256, item.artifact.size_bytes
    reference = ArtifactReference(uri=f"store:sha256/{sha256}", sha256=sha256, size_bytes=size_bytes)
    target = folder.parent / f"read-{sha256}"
    open_store(StoreSettings(store=str(folder))).get(reference, target)
    return target.read_bytes()


def told(saved: Sequence[ArtifactSaved]) -> list[tuple[int, str, int, str]]:
    return [(event.number, event.name, event.version, event.kind) for event in saved]


async def tried_again(code: str) -> None:
    """Waits until another upload of a worker in this process has failed with a code."""
    failed = metrics.counter("trackside.worker.failed.uploads").labels(code=code)
    before = failed._value.get()

    async def rose() -> bool:
        return bool(failed._value.get() > before)

    await poll_until(rose)
