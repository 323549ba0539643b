"""The built-in task that copies models, run by a real worker: its results, and the codes of its errors."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.artifacts.conftest import SECRET_KEY, S3Server
from tests.integration.worker.given import SHARES, shared_worker
from tests.integration.worker.harness import WorkerHarness, settings_for
from tests.integration.worker.saved import put
from trackside.contracts.fleet.fleet import COPY_MODEL
from trackside.contracts.tasks.artifacts import ArtifactReference
from trackside.contracts.tasks.tasks import AttemptEnd, AttemptEnded

MODEL = b"weights of a model"


pytestmark = SHARES


worker = shared_worker(lambda folder: settings_for(folder / "worker"))


@pytest.fixture(scope="module", autouse=True)
def credentials(s3: S3Server) -> Iterator[None]:
    """Makes the worker find the credential of the server."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("TRACKSIDE_CREDENTIALS", str(s3.folder / "credentials.toml"))
        yield


@pytest.fixture(name="model")
def _model(worker: WorkerHarness) -> ArtifactReference:
    return put(worker.data_dir.parent / "store", MODEL)


async def copied(
    harness: WorkerHarness, task_id: str, model: ArtifactReference, **asked: Any
) -> AttemptEnded:
    described = {"model": "digits", "version": 2, "format": "torch", "sha256": model.sha256}
    parameters = {"job": "job", "update": 1, "time_ms": 1, "model": described, **asked}
    inputs = {} if asked["target"] == "removal" else {"model": model}
    more: dict[str, Any] = {"task_type": COPY_MODEL, "device_ids": [], "device": "host"}
    return await harness.ended(task_id, parameters, inputs=inputs, **more)


async def test_a_worker_copies_a_model_with_a_credential_of_its_host_and_removes_what_a_deleted_job_has(
    harness: WorkerHarness, s3: S3Server, model: ArtifactReference, tmp_path: Path
) -> None:
    """I25, I26, I34, I37."""
    files = s3.store().blobs.files  # type: ignore[attr-defined]
    to_store = {"target": "config", "url": "s3://models/by-worker", "credential": "moto"}
    ended = await copied(harness, "a", model, **to_store)
    url = f"s3://models/by-worker/job/digits-v2-{model.sha256[:12]}.pt"
    expected = {"url": url, "sha256": model.sha256, "size_bytes": len(MODEL)}
    assert ended.end is AttemptEnd.FINISHED and ended.result == expected, ended
    assert files.cat_file(url) == MODEL
    ended = await copied(harness, "b", model, target="copy", url=str(tmp_path / "live.pt"))
    assert ended.end is AttemptEnd.FINISHED and (tmp_path / "live.pt").read_bytes() == MODEL
    ended = await copied(harness, "c", model, **{**to_store, "target": "removal"}, time_ms=2)
    assert ended.result == {"url": "s3://models/by-worker/job", "files": 2, "others": 0}, ended
    assert not files.exists("models/by-worker")


async def test_what_hinders_a_copy_is_named_by_a_code(
    harness: WorkerHarness, model: ArtifactReference, tmp_path: Path
) -> None:
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
