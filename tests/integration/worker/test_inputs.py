"""What a task is given: fetched into the cache of the host and checked before the task loads."""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.integration.worker.given import started, task_of
from tests.integration.worker.harness import WorkerHarness, error_of
from tests.integration.worker.processes import kill_store_process
from tests.integration.worker.saved import all_files, all_records, blob, put
from trackside.contracts.tasks.artifacts import ArtifactReference
from trackside.contracts.tasks.tasks import AttemptEnd, AttemptEnded
from trackside.worker.artifacts import inputs

CLASS = "entry: 'script:Reading'"
READING = """
from trackside.sdk import Task, trial

class Reading(Task):
    def load(self):
        self.text = trial.input("words").read_text()
        self.names = sorted(path.name for path in trial.input("folder").iterdir())
        self.modes = [oct(trial.input(name).stat().st_mode)[-3:] for name in ("words", "folder")]

    def train(self, device):
        try:
            trial.input("other")
        except ValueError as error:
            said = str(error)
        return {"text": self.text, "names": self.names, "modes": self.modes, "said": said}
"""
SHOWING = """
from pathlib import Path
folder = Path(os.environ["TRACKSIDE_INPUTS"])
say(result={"text": (folder / "words").read_text()})
"""
FORBIDDEN = b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
WORDS = b"one two three"
SECRET = "canary+secret/of/the/host/0123456789abcdef"


def outside(path: Path, content: bytes, credential: str | None = None) -> ArtifactReference:
    """Writes a file that is in no store, and refers to it."""
    path.write_bytes(content)
    return ArtifactReference(
        uri=path.as_uri(),
        sha256=hashlib.sha256(content).hexdigest(),
        size_bytes=len(content),
        credential=credential,
    )


async def ended(harness: WorkerHarness, task_id: str = "t", **given: ArtifactReference) -> AttemptEnded:
    return await harness.ended(task_id, task_type="a", inputs=given)


def remote() -> ArtifactReference:
    """Refers to the words as an object of a store that needs the credential `datasets`."""
    digest = hashlib.sha256(WORDS).hexdigest()
    return ArtifactReference(
        uri="s3://data/words", sha256=digest, size_bytes=len(WORDS), credential="datasets"
    )


async def test_a_task_reads_its_inputs_when_it_loads(tmp_path: Path, store: Path) -> None:
    (tmp_path / "folder").mkdir()
    for name in ("b.txt", "a.txt"):
        (tmp_path / "folder" / name).write_text(name)
    folder, words = put(store, tmp_path / "folder"), outside(tmp_path / "words", WORDS)
    async with started(tmp_path, task_of(tmp_path, READING, CLASS)) as harness:
        end = await ended(harness, words=words, folder=folder)
        assert end.end is AttemptEnd.FINISHED, end.error
        assert end.result is not None
        assert (end.result["text"], end.result["names"]) == (WORDS.decode(), ["a.txt", "b.txt"])
        assert end.result["modes"] == ["444", "555"]
        assert "no input 'other', it has: folder, words" in end.result["said"]
        (tmp_path / "words").unlink()
        again = await ended(harness, "again", words=words, folder=folder)
        assert again.end is AttemptEnd.FINISHED, "it is in the cache"


async def test_a_program_finds_its_inputs_in_a_folder(tmp_path: Path, store: Path) -> None:
    async with started(tmp_path, task_of(tmp_path, SHOWING)) as harness:
        end = await ended(harness, words=put(store, WORDS))
    assert end.result == {"text": WORDS.decode()}, end.error


@pytest.mark.parametrize(
    "code", [pytest.param("artifact_missing", marks=pytest.mark.long), "artifact_damaged"]
)
async def test_an_input_that_no_copy_has_whole_ends_the_attempt_while_it_loads(
    tmp_path: Path, store: Path, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    words, copy = put(store, WORDS), tmp_path / "copy"
    copy.mkdir()
    lost = blob(store, words)
    lost.unlink()
    if code == "artifact_damaged":
        lost.write_bytes(WORDS.replace(b"two", b"2wo"))
    monkeypatch.setenv("TRACKSIDE_STORE_COPIES", str(copy))
    async with started(tmp_path, task_of(tmp_path, SHOWING)) as harness:
        end = await ended(harness, words=words)
        error = error_of(end, "LOAD", code)
        for said in ("input 'words'", words.sha256, str(store), str(copy)):
            assert said in error.message
        put(copy, WORDS)
        again = await ended(harness, "again", words=words)
        assert again.result == {"text": WORDS.decode()}, "the copy has it"


async def test_a_task_that_needs_a_credential_of_another_host_is_refused_by_name(
    tmp_path: Path, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_credentials(tmp_path, monkeypatch, "http://127.0.0.1:9")
    async with started(tmp_path, task_of(tmp_path, SHOWING)) as harness:
        assert (await harness.joined()).credentials == ["datasets"]
        words = outside(tmp_path / "words", WORDS, credential="models")
        refused = await harness.refused("t", task_type="a", inputs={"words": words})
    assert refused.code == "credential_missing"
    assert "input 'words'" in refused.message and "'models'" in refused.message


def with_credentials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, endpoint: str) -> None:
    """Adds a credential `datasets` to this host."""
    path = tmp_path / "credentials.toml"
    path.touch(mode=0o600)
    path.write_text(
        f'[datasets]\nendpoint_url = "{endpoint}"\n'
        f'access_key_id = "canary-key"\nsecret_access_key = "{SECRET}"\n'
    )
    monkeypatch.setenv("TRACKSIDE_CREDENTIALS", str(path))


@asynccontextmanager
async def store_server(answer: bytes = b"") -> AsyncIterator[tuple[str, asyncio.Event]]:
    """A store that gives each request an answer, or none; the event is set when one has come."""
    asked = asyncio.Event()

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        is_head = (await reader.readline()).startswith(b"HEAD")
        while await reader.readline() not in (b"\r\n", b""):
            pass
        asked.set()
        writer.write(answer[: answer.find(b"\r\n\r\n") + 4] if is_head else answer)
        if not answer:
            await reader.read()
        writer.close()

    server = await asyncio.start_server(take, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", asked
    finally:
        server.close()


async def test_a_task_that_is_stopped_while_an_input_is_fetched_ends_at_once(
    tmp_path: Path, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with store_server() as (url, asked):
        with_credentials(tmp_path, monkeypatch, url)
        async with started(tmp_path, task_of(tmp_path, SHOWING)) as harness:
            command = await harness.run("t", task_type="a", inputs={"words": remote()})
            await asked.wait()
            await harness.stop(command)
            assert (await harness.end("t")).end is AttemptEnd.CANCELLED


async def test_an_input_is_fetched_again_by_another_store_process_after_a_kill(
    tmp_path: Path, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with store_server() as (url, asked):
        with_credentials(tmp_path, monkeypatch, url)
        async with started(tmp_path, task_of(tmp_path, SHOWING)) as harness:
            await harness.run("t", task_type="a", inputs={"words": remote()})
            await asked.wait()
            put(store, WORDS)  # now the store has these bytes, which is tried first
            assert kill_store_process()
            end = await harness.end("t")
    assert end.result == {"text": WORDS.decode()}, end.error


async def test_the_key_of_a_credential_is_in_no_topic_output_or_file_of_the_worker(
    tmp_path: Path, store: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(inputs, "RETRY_AFTER_S", (0.1,))
    async with store_server(FORBIDDEN) as (url, asked):
        with_credentials(tmp_path, monkeypatch, url)
        async with started(tmp_path, task_of(tmp_path, SHOWING)) as harness:
            error_of(await ended(harness, words=remote()), "LOAD", "store_unreachable")
            assert "trying again" in await harness.output("t", bool)
            records = await all_records(harness)
    assert asked.is_set()
    written = "\n".join((records, all_files(tmp_path / "worker"), *capfd.readouterr()))
    assert SECRET not in written and "canary-key" not in written
