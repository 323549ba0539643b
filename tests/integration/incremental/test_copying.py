"""Outputs and copies of models in an object store."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.artifacts.conftest import ACCESS_KEY, SECRET_KEY, S3Server, write_credentials
from tests.unit.incremental.copies import copy_model
from trackside.artifacts.blobs.credentials import Credential
from trackside.artifacts.blobs.object_blobs import PART_BYTES
from trackside.embedded.ports import free_ports
from trackside.incremental.outputs import (
    OutputError,
    named_credential,
    open_output_store,
    write_object,
    write_output,
)


@pytest.fixture(name="credential")
def _credential(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> Credential:
    monkeypatch.setenv("TRACKSIDE_CREDENTIALS", str(s3.folder / "credentials.toml"))
    found = named_credential("moto")
    assert found is not None
    return found


def files_of(s3: S3Server) -> Any:
    return s3.store().blobs.files  # type: ignore[attr-defined]


def test_a_shorter_object_over_a_longer_one_leaves_no_tail(s3: S3Server, credential: Credential) -> None:
    """I29, I33."""
    url = "s3://models/copy/live.bin"
    large = bytes(range(256)) * (PART_BYTES // 128)  # of two parts
    written = write_output(url, credential, [large[:5], large[5:]])
    assert (written.sha256, written.size_bytes) == (hashlib.sha256(large).hexdigest(), len(large))
    assert write_output(url, credential, [b"new"]).size_bytes == 3
    assert files_of(s3).cat_file("models/copy/live.bin") == b"new"


def test_a_source_that_fails_leaves_the_old_object(s3: S3Server, credential: Credential) -> None:
    def source() -> Iterator[bytes]:
        yield bytes(2 * PART_BYTES)
        raise OSError("the source is gone")

    url = "s3://models/failing/live.bin"
    write_output(url, credential, [b"old"])
    with pytest.raises(OSError, match="the source is gone"):
        write_output(url, credential, source())
    assert files_of(s3).cat_file("models/failing/live.bin") == b"old"
    assert not files_of(s3).list_multipart_uploads("models")


@pytest.mark.parametrize(
    ("url", "code"), [("s3://nowhere/x", "bucket_missing"), ("s3://models", "not_a_file")]
)
def test_what_is_missing_is_named(s3: S3Server, credential: Credential, url: str, code: str) -> None:
    with pytest.raises(OutputError) as caught:
        write_output(url, credential, [b"new"])
    assert caught.value.code == code and url in str(caught.value)


def test_a_model_is_published_in_an_object_store_and_old_ones_are_removed(
    s3: S3Server, credential: Credential, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I26, I33."""
    asked = {"target": "config", "url": "s3://models/hot/", "credential": "moto"}
    for version in range(1, 6):
        result = copy_model(tmp_path, monkeypatch, b"model %d" % version, version, **asked)
    found = json.loads(files_of(s3).cat_file("models/hot/Job-1/model_config.json"))["model_config"]
    assert found["model_path"] == result["url"] and result["url"].startswith(
        "s3://models/hot/Job-1/digits-v5-"
    )
    assert files_of(s3).cat_file(result["url"]) == b"model 5"
    names = sorted(each.rpartition("/")[2] for each in files_of(s3).ls("models/hot/Job-1", detail=False))
    # Times of an object store have no more than seconds: which of the old ones stay is not told by them.
    assert len(names) <= 5 and names[-1] == "model_config.json"


def test_the_objects_of_a_deleted_job_are_removed_and_those_of_others_stay(
    s3: S3Server, credential: Credential, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I37: twice does no harm."""
    asked = {"url": "s3://models/deleted", "credential": "moto"}
    copy_model(tmp_path, monkeypatch, b"model", 1, target="config", **asked)
    files_of(s3).pipe_file("models/deleted/Job-1/notes.txt", b"of a person")
    for files in (2, 0):
        removed = copy_model(tmp_path, monkeypatch, b"", 1, target="removal", **asked)
        assert removed == {"url": "s3://models/deleted/Job-1", "files": files, "others": 1}
    assert files_of(s3).ls("models/deleted/Job-1", detail=False) == ["models/deleted/Job-1/notes.txt"]


@pytest.mark.long
def test_a_copy_to_an_object_store_that_was_suspended_does_not_undo_a_later_one(
    s3: S3Server, credential: Credential, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I25, I26: nor does it remove what a person has put there, whose object has no time."""
    urls = {"copy": "s3://models/order/live.bin", "config": "s3://models/order"}
    files_of(s3).pipe_file("models/order/live.bin", b"of a person")
    for target, url in urls.items():
        asked = {"target": target, "url": url, "credential": "moto"}
        for _ in range(2):
            copy_model(tmp_path, monkeypatch, b"second", 2, **asked)
        with pytest.raises(OutputError, match="was written with a later time") as caught:
            copy_model(tmp_path, monkeypatch, b"first", 1, **asked)
        assert caught.value.code == "superseded"
    assert files_of(s3).cat_file(urls["copy"]) == b"second"
    config = json.loads(files_of(s3).cat_file("models/order/Job-1/model_config.json"))["model_config"]
    assert "digits-v2" in config["model_path"]


@pytest.mark.parametrize("before", [b"older", pytest.param(b"", marks=pytest.mark.long)])
@pytest.mark.parametrize(("time_ms", "result"), [(1, "superseded"), (3, b"mine")])
def test_a_writer_that_another_one_overtakes_looks_again(
    s3: S3Server, credential: Credential, before: bytes, time_ms: int, result: str | bytes
) -> None:
    """The other one writes while this one reads its source, which is when it was suspended."""
    url = f"s3://models/overtaken/{len(before)}-{time_ms}.bin"
    if before:
        write_object(url, open_output_store(url, credential), [before], 0)

    class Suspended:
        reads = 0

        def __iter__(self) -> Iterator[bytes]:
            self.reads += 1
            if self.reads == 1:
                write_object(url, open_output_store(url, credential), [b"newer"], 2)
            yield b"mine"

    source = Suspended()
    if isinstance(result, bytes):
        write_object(url, open_output_store(url, credential), source, time_ms)
        assert source.reads == 2
    else:
        with pytest.raises(OutputError) as caught:
            write_object(url, open_output_store(url, credential), source, time_ms)
        assert caught.value.code == result
    assert files_of(s3).cat_file(url) == (result if isinstance(result, bytes) else b"newer")


def test_a_store_that_is_not_there_is_unreachable_and_no_key_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I34."""
    write_credentials(tmp_path / "credentials.toml", f"http://127.0.0.1:{free_ports(1)[0]}")
    monkeypatch.setenv("TRACKSIDE_CREDENTIALS", str(tmp_path / "credentials.toml"))
    with pytest.raises(OutputError) as caught:
        write_output("s3://models/x", named_credential("moto"), [b"new"])
    assert caught.value.code == "unreachable"
    assert ACCESS_KEY not in str(caught.value) and SECRET_KEY not in str(caught.value)
