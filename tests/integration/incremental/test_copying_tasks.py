"""The built-in task that copies models, run by a real worker: its results, and the codes of its errors."""

from pathlib import Path
from typing import Any

import pytest

from tests.integration.artifacts.conftest import SECRET_KEY, S3Server
from tests.integration.worker.given import started, task_of
from tests.integration.worker.harness import WorkerHarness
from trackside.artifacts.opening import open_store
from trackside.artifacts.settings import StoreSettings
from trackside.contracts.artifacts import ArtifactReference
from trackside.contracts.fleet import COPY_MODEL
from trackside.contracts.tasks import AttemptEnd, AttemptEnded

MODEL = b"weights of a model"


@pytest.fixture(name="model")
def _model(s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ArtifactReference:
    (tmp_path / "store").mkdir()
    monkeypatch.setenv("TRACKSIDE_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("TRACKSIDE_CREDENTIALS", str(s3.folder / "credentials.toml"))
    return open_store(StoreSettings()).put(MODEL)


async def copied(
    harness: WorkerHarness, task_id: str, model: ArtifactReference, **asked: Any
) -> AttemptEnded:
    described = {"model": "digits", "version": 2, "format": "torch", "sha256": model.sha256}
    parameters = {"job": "job", "update": 1, "time_ms": 1, "model": described, **asked}
    more: dict[str, Any] = {"task_type": COPY_MODEL, "device_ids": [], "device": "host"}
    await harness.run(task_id, parameters, inputs={"model": model}, **more)
    return await harness.end(task_id)


async def test_a_worker_copies_a_model_with_a_credential_of_its_host(
    s3: S3Server, model: ArtifactReference, tmp_path: Path
) -> None:
    """I25, I26, I34."""
    async with started(tmp_path, task_of(tmp_path)) as harness:
        to_store = {"target": "config", "url": "s3://models/by-worker", "credential": "moto"}
        ended = await copied(harness, "a", model, **to_store)
        url = f"s3://models/by-worker/job/digits-v2-{model.sha256[:12]}.pt"
        expected = {"url": url, "sha256": model.sha256, "size_bytes": len(MODEL)}
        assert ended.end is AttemptEnd.FINISHED and ended.result == expected, ended
        assert s3.store().blobs.files.cat_file(url) == MODEL  # type: ignore[attr-defined]
        ended = await copied(harness, "b", model, target="copy", url=str(tmp_path / "live.pt"))
        assert ended.end is AttemptEnd.FINISHED and (tmp_path / "live.pt").read_bytes() == MODEL


async def test_a_worker_removes_the_folder_of_a_deleted_job(
    s3: S3Server, model: ArtifactReference, tmp_path: Path
) -> None:
    """I37."""
    hot = tmp_path / "hot"
    hot.mkdir()
    async with started(tmp_path, task_of(tmp_path)) as harness:
        places = {"a": {"url": str(hot)}, "b": {"url": "s3://models/removed", "credential": "moto"}}
        for task_id, place in places.items():
            ended = await copied(harness, task_id, model, target="config", **place)
            assert ended.end is AttemptEnd.FINISHED, ended
            asked = {"target": "removal", "job": "job", "time_ms": 2, **place}
            more: dict[str, Any] = {"task_type": COPY_MODEL, "device_ids": [], "device": "host"}
            await harness.run(f"{task_id}-removal", asked, **more)
            ended = await harness.end(f"{task_id}-removal")
            assert ended.result == {"url": f"{place['url']}/job", "files": 2, "others": 0}, ended
        assert not (hot / "job").exists()
        assert not s3.store().blobs.files.exists("models/removed")  # type: ignore[attr-defined]


async def test_what_hinders_a_copy_is_named_by_a_code(model: ArtifactReference, tmp_path: Path) -> None:
    async with started(tmp_path, task_of(tmp_path)) as harness:
        (tmp_path / "folder").mkdir()
        cases = {
            "not_a_file": {"url": str(tmp_path / "folder")},
            "bucket_missing": {"url": "s3://no-bucket/x", "credential": "moto"},
            "credential_missing": {"url": "s3://models/x", "credential": "other"},
            "bad_parameters": {"url": str(tmp_path / "live"), "update": "first"},
        }
        for code, asked in cases.items():
            ended = await copied(harness, code.replace("_", "-"), model, target="copy", **asked)
            assert ended.end is AttemptEnd.FAILED and ended.error is not None
            assert ended.error.type == code, ended.error
            assert SECRET_KEY not in ended.model_dump_json()
