"""Stores that are slow, vanish or refuse, and files that change while they are saved, with a real worker."""

import asyncio
import os
from pathlib import Path

import pytest

from tests.integration.artifacts.conftest import ACCESS_KEY, SECRET_KEY, S3Server, write_credentials
from tests.integration.artifacts.slow_server import slow_server
from tests.integration.worker.given import started, task_of
from tests.integration.worker.harness import Gate, error_of, of
from tests.integration.worker.saved import (
    CLASS,
    all_files,
    all_in_store,
    all_records,
    class_of,
    told,
    tried_again,
)
from tests.integration.worker.test_checkpoints import checkpoints
from tests.integration.worker.test_inputs import store_server
from tests.polling import poll_until
from trackside.contracts.envelope.message import Message
from trackside.contracts.tasks.artifacts import ArtifactSaved
from trackside.contracts.tasks.tasks import AttemptEnd, AttemptEnded, MetricReported

LARGE_BYTES = 40 * 2**20
"""More than two parts of an upload to S3."""
SAVES = class_of("""
trial.save("weights", os.urandom(trial.parameters()["bytes"]))
for step in range(50):
    trial.report(float(step))
return {"done": True}
""")


def use_s3(folder: Path, port: int, prefix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the workers of a test save below a prefix of a bucket, by the server on a port."""
    write_credentials(folder / "credentials.toml", f"http://127.0.0.1:{port}")
    monkeypatch.setenv("TRACKSIDE_CREDENTIALS", str(folder / "credentials.toml"))
    monkeypatch.setenv("TRACKSIDE_STORE_CREDENTIAL", "moto")
    monkeypatch.setenv("TRACKSIDE_STORE", f"s3://models/{prefix}")


async def told_and_finished(story: list[Message]) -> list[tuple[int, str, int, str]]:
    """Returns what is in the named store of an attempt that has finished."""
    assert of(story, AttemptEnded)[0].end is AttemptEnd.FINISHED, of(story, AttemptEnded)
    return told(await asyncio.to_thread(all_in_store, os.environ["TRACKSIDE_STORE"], story))


@pytest.mark.long
async def test_a_slow_store_delays_the_end_of_what_saves_but_no_report_and_no_other_task(
    tmp_path: Path, s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with slow_server(s3.port) as server:
        use_s3(tmp_path, server.port, "slow", monkeypatch)
        async with started(tmp_path, task_of(tmp_path, SAVES, CLASS)) as harness:
            await harness.run("large", {"bytes": LARGE_BYTES}, task_type="a")
            await server.came.wait()
            await harness.event(MetricReported, "large", 50)
            await harness.run("other", {"bytes": 0}, task_type="a", device="cpu-1")
            await harness.event(MetricReported, "other", 50)
            for task_id in ("large", "other"):
                assert not of(await harness.events_so_far(task_id), ArtifactSaved)
            server.flow.set()
            for task_id in ("large", "other"):
                story = await harness.events_until_end(task_id)
                assert await told_and_finished(story) == [(1, "weights", 1, "file")]


async def test_a_store_that_is_killed_during_an_upload_and_comes_back_empty_gets_all_of_it(
    tmp_path: Path, s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_s3(tmp_path, s3.port, "killed", monkeypatch)
    server_log = s3.folder / "moto.log"
    async with started(tmp_path, task_of(tmp_path, SAVES, CLASS)) as harness:
        await harness.run("t", {"bytes": LARGE_BYTES}, task_type="a")
        await poll_until(lambda: asyncio.to_thread(lambda: "killed/" in server_log.read_text()))
        await poll_until(lambda: asyncio.to_thread(lambda: "uploadId=" in server_log.read_text()))
        s3.kill()
        await harness.event(MetricReported, "t", 50)
        await tried_again("store_unreachable")
        assert not of(await harness.events_so_far("t"), ArtifactSaved)
        await asyncio.to_thread(s3.start)
        await asyncio.to_thread(s3.make_bucket, "models")
        assert await told_and_finished(await harness.events_until_end("t")) == [(1, "weights", 1, "file")]


RESUMES = class_of("""
last = trial.last_checkpoint()
trial.report(0.5)
if last is None:
    trial.checkpoint(1, {"seen": 1})
return {"step": last.step if last else 0}
""")


@pytest.mark.long
async def test_an_attempt_that_can_not_read_its_checkpoint_fails_to_load_and_a_later_one_resumes(
    tmp_path: Path, store: Path
) -> None:
    catalogue = task_of(tmp_path, RESUMES, CLASS)
    async with started(tmp_path, catalogue) as harness:
        saved = checkpoints(await harness.story("t", task_type="a"))
    async with started(tmp_path, catalogue, upload_timeout_s=0.5) as harness:
        await asyncio.to_thread(store.rename, tmp_path / "elsewhere")
        failed = await harness.ended("t", task_type="a", attempt=2, checkpoints=saved)
        await asyncio.to_thread((tmp_path / "elsewhere").rename, store)
        await harness.run("t", task_type="a", attempt=3, checkpoints=saved)
        resumed = await harness.end("t", nth=2)
    error_of(failed, "LOAD", "store_unreachable")
    assert resumed.result == {"step": 1}


REFUSED = f"<Error><Code>InvalidAccessKeyId</Code><Message>{SECRET_KEY} {ACCESS_KEY}</Message></Error>"
FORBIDDEN = (
    f"HTTP/1.1 403 Forbidden\r\nConnection: close\r\nContent-Length: {len(REFUSED)}\r\n\r\n{REFUSED}"
).encode()


async def test_a_store_that_refuses_fails_the_attempt_by_its_name_and_tells_nobody_the_key(
    tmp_path: Path, gate: Gate, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    async with store_server(FORBIDDEN) as (url, _):
        use_s3(tmp_path, int(url.rpartition(":")[2]), "any", monkeypatch)
        script = class_of(f"trial.save('weights', b'1')\nopen({str(gate.path)!r}).read()")
        async with started(tmp_path, task_of(tmp_path, script, CLASS), upload_timeout_s=0.1) as harness:
            await harness.run("t", task_type="a")
            await tried_again("store_unreachable")
            await gate.pass_one()
            end = await harness.end("t")
            records = await all_records(harness)
    said = error_of(end, "SAVE", "store_unreachable").message
    assert "weights is not in the store: the store s3://models/any refuses access" in said
    written = "\n".join((records, all_files(tmp_path / "worker"), *capfd.readouterr()))
    assert SECRET_KEY not in written and ACCESS_KEY not in written


CHANGES = class_of("""
import threading
done = threading.Event()
def write():
    with open("data/numbers", "r+b", buffering=0) as file:
        while not done.is_set():
            file.seek(0)
            file.write(os.urandom(1_000))
os.mkdir("data")
Path("data/numbers").write_bytes(bytes(64 * 2**20))
Path("data/words").write_bytes(b"one")
writer = threading.Thread(target=write)
writer.start()
codes = []
for path in ("data/numbers", "data"):
    try:
        trial.save("data", path)
    except SaveError as error:
        codes.append([error.code, str(error)])
done.set()
writer.join()
trial.save("data", "data")
return {"codes": codes}
""")


@pytest.mark.long
async def test_a_file_that_changes_while_it_is_saved_is_refused_alone_and_in_a_folder(
    tmp_path: Path, store: Path
) -> None:
    async with started(tmp_path, task_of(tmp_path, CHANGES, CLASS)) as harness:
        story = await harness.story("t", task_type="a")
    end = of(story, AttemptEnded)[0]
    assert end.result is not None, end.error
    assert [code for code, _ in end.result["codes"]] == ["artifact_changed", "artifact_changed"]
    assert all("data/numbers changed while it was saved" in said for _, said in end.result["codes"])
    assert await told_and_finished(story) == [(1, "data", 1, "file")]
