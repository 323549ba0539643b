"""The task that writes manifests on a real worker, to files and to an object store."""

from pathlib import Path
from typing import Any

import pytest

from tests.integration.artifacts.conftest import S3Server
from tests.integration.incremental.harness import dataset_worker, seen_up_to, watch, write_manifest
from tests.unit.incremental.given import end_of
from trackside.contracts.tasks.tasks import AttemptEnd

LINES = b"img/0.jpg 0\nimg/1.jpg 1\nimg/2.jpg 0\nimg/3.jpg 1\nimg/4.jpg 0\n"
TRAINED = b"img/1.jpg 1\nimg/2.jpg 0\nimg/3.jpg 1\nimg/4.jpg 0\n"


def parameters(dataset: dict[str, Any], octets: bytes, output: dict[str, Any], **more: Any) -> dict[str, Any]:
    end = end_of(octets, octets.count(b"\n"))
    return {
        "dataset": {"format": "txt", **dataset},
        "end": {"size": end.size, "sha256": end.sha256},
        "segments": [{"begin": 0, "share": "4/5", "carry": "0"}],
        "ranges": [[0, octets.count(b"\n")]],
        "use": "train",
        "output": output,
        "path": "data/train/3/data.txt",
        **more,
    }


async def test_a_manifest_that_can_not_be_written_says_why_and_leaves_nothing(tmp_path: Path) -> None:
    """I21: what hinders a stage has a code, and a sentence."""
    (tmp_path / "data.txt").write_bytes(LINES)
    dataset, output = {"url": str(tmp_path / "data.txt")}, {"url": str(tmp_path / "output")}
    (tmp_path / "file").write_bytes(b"")
    cases = {
        "dataset_changed": parameters(dataset, LINES.upper(), output),
        "dataset_truncated": parameters(dataset, LINES * 2, output),
        "dataset_missing": parameters({"url": str(tmp_path / "no.txt")}, LINES, output),
        "credential_missing": parameters({"url": "s3://b/d.txt", "credential": "moto"}, LINES, output),
        "not_a_file": parameters(dataset, LINES, {"url": str(tmp_path / "file")}),
    }
    async with dataset_worker(tmp_path, cpu_slots=1) as harness:
        for code, given in cases.items():
            await write_manifest(harness, given, task_id=code)
        for code in cases:
            ended = await harness.end(code)
            assert (ended.end, ended.error and ended.error.type) == (AttemptEnd.FAILED, code)
    assert not [path for path in (tmp_path / "output").rglob("*") if path.is_file()]


async def test_a_dataset_in_an_object_store_is_watched_and_its_manifest_names_its_files(
    tmp_path: Path, s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I30, I31, I33: an object is another one after each write, and only growth is reported."""
    monkeypatch.setenv("TRACKSIDE_CREDENTIALS", str(s3.folder / "credentials.toml"))
    files = s3.store().blobs.files  # type: ignore[attr-defined]
    dataset = {"url": "s3://models/watched/data.txt", "credential": "moto"}
    first = LINES[:24]
    async with dataset_worker(tmp_path) as harness:
        command = await watch(harness, {**dataset, "format": "txt", "look_s": 0.05})
        assert "missing: there is no object" in await harness.output("a", bool)
        files.pipe_file("models/watched/data.txt", first + b"half a line")
        assert await seen_up_to(harness, command, 2) == end_of(first, 2)
        files.pipe_file("models/watched/data.txt", LINES)
        assert await seen_up_to(harness, command, 5) == end_of(LINES, 5)
        output = {"url": "s3://models/out", "credential": "moto"}
        await write_manifest(harness, parameters(dataset, LINES, output))
        ended = await harness.end("m")
    digest = end_of(TRAINED, 0)
    assert ended.result == {
        "url": "s3://models/out/data/train/3/data.txt",
        "sha256": digest.sha256,
        "size_bytes": digest.size,
        "lines": 4,
    }
    assert files.cat_file("models/out/data/train/3/data.txt") == TRAINED
    index = b"s3://models/watched/\nimg/1.jpg\nimg/2.jpg\nimg/3.jpg\nimg/4.jpg\n"
    assert files.cat_file("models/out/data/train/3/dataIndex.txt") == index
