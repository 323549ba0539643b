"""A store in S3: created once, read back, and clear about what went wrong; no error has a key in it."""

import hashlib
import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.integration.artifacts.conftest import (
    ACCESS_KEY,
    SECRET_KEY,
    S3Server,
    s3_server,
    write_credentials,
)
from tests.polling import poll_until_sync
from tests.stack import SEED_VARIABLE
from trackside.artifacts.blobs.blobs import blob_path
from trackside.artifacts.blobs.object_blobs import PART_BYTES
from trackside.artifacts.blobs.source_files import SourceFile, open_source
from trackside.artifacts.errors import (
    ArtifactDamaged,
    ArtifactMissing,
    CredentialMissing,
    StoreFull,
    StoreUnreachable,
)
from trackside.artifacts.opening import open_store
from trackside.artifacts.settings import StoreSettings
from trackside.artifacts.store import Store
from trackside.contracts.envelope.ids import new_id
from trackside.contracts.tasks.artifacts import ArtifactReference

Request = Callable[[BaseHTTPRequestHandler], None]


@pytest.fixture(name="url")
def _url() -> str:
    return f"s3://models/{new_id('prefix')}"


@pytest.fixture(name="store")
def _store(s3: S3Server, url: str) -> Store:
    return s3.store(url)


@pytest.fixture(name="content")
def _content() -> Callable[[int], bytes]:
    return random.Random(os.environ[SEED_VARIABLE]).randbytes


def files_of(store: Store) -> Any:
    return store.blobs.files  # type: ignore[attr-defined]


def path_of(store: Store, reference: ArtifactReference) -> str:
    return f"{store.blobs.root}/{blob_path(reference.sha256)}"  # type: ignore[attr-defined]


MORE_SIZES = [pytest.param(size, marks=pytest.mark.long) for size in (1, 4096, PART_BYTES)]


@pytest.mark.parametrize("size", [0, 2 * PART_BYTES + 1, *MORE_SIZES])
def test_a_file_is_read_back_as_it_was_saved(
    store: Store, tmp_path: Path, content: Callable[[int], bytes], size: int
) -> None:
    (tmp_path / "model").write_bytes(written := content(size))
    reference = store.put(tmp_path / "model")
    assert reference.sha256 == hashlib.sha256(written).hexdigest()
    assert store.put(tmp_path / "model", digest=reference.sha256) == reference
    assert [(each.sha256, each.size_bytes) for each in store.list_blobs()] == [(reference.sha256, size)]
    store.get(reference, tmp_path / "got")
    assert (tmp_path / "got").read_bytes() == written
    assert store.verify(reference) == "ok" and store.exists(reference)
    assert list(store.list_unfinished()) == []


@pytest.mark.parametrize("size", [pytest.param(5, marks=pytest.mark.long), PART_BYTES + 1])
def test_a_second_writer_creates_nothing(store: Store, content: Callable[[int], bytes], size: int) -> None:
    source = SourceFile(Path("model"), content=content(size))
    with open_source(source) as opened:
        digest = opened.hash()
        store.blobs._write(f"{store.blobs.root}/{blob_path(digest)}", "xb", opened, digest)  # type: ignore[attr-defined]
        with pytest.raises(FileExistsError):
            store.blobs._write(f"{store.blobs.root}/{blob_path(digest)}", "xb", opened, digest)  # type: ignore[attr-defined]


def test_a_reused_blob_is_young_again(store: Store) -> None:
    reference = store.put(b"model")
    before = store.blobs.find(reference.sha256)
    assert before is not None
    poll_until_sync(lambda: time.time_ns() // 1_000_000 > before.saved_ms + 1_100)  # noqa: TID251 - S3 has seconds
    store.put(b"model")
    after = store.blobs.find(reference.sha256)
    assert after is not None and after.saved_ms > before.saved_ms
    assert not store.delete(reference.sha256, saved_before_ms=after.saved_ms)
    assert store.delete(reference.sha256, saved_before_ms=after.saved_ms + 1)
    assert store.verify(reference) == "missing"


def test_a_changed_byte_is_found_and_mended_with_the_next_save(store: Store, tmp_path: Path) -> None:
    reference = store.put(b"model")
    files_of(store).pipe_file(path_of(store, reference), b"modeL")
    assert store.verify(reference) == "damaged"
    with pytest.raises(ArtifactDamaged, match=reference.sha256):
        store.get(reference, tmp_path / "got")
    assert store.put(b"model") == reference
    assert store.verify(reference) == "ok"


def test_what_is_outside_the_store_is_read_by_its_url(s3: S3Server, store: Store, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "weights").write_bytes(b"weights")
    saved = store.put(tmp_path / "folder")
    inside = f"s3://{path_of(store, saved)}"
    files_of(store).pipe_file("models/plain/model.bin", b"plain")
    (tmp_path / "own").mkdir()
    own = open_store(
        StoreSettings(store=str(tmp_path / "own"), credentials=str(s3.folder / "credentials.toml"))
    )
    own.put(b"anything")
    other = saved.model_copy(update={"uri": inside, "credential": "moto"})
    own.get(other, tmp_path / "got")
    assert (tmp_path / "got" / "weights").read_bytes() == b"weights"
    digest = hashlib.sha256(b"plain").hexdigest()
    plain = ArtifactReference(
        uri="s3://models/plain/model.bin", sha256=digest, size_bytes=5, credential="moto"
    )
    own.get(plain, tmp_path / "plain")
    assert (tmp_path / "plain").read_bytes() == b"plain"
    with pytest.raises(ArtifactMissing):
        own.get(plain.model_copy(update={"uri": "s3://models/plain/none"}), tmp_path / "none")
    with pytest.raises(CredentialMissing, match="'another'"):
        own.get(plain.model_copy(update={"credential": "another"}), tmp_path / "none")


def test_a_missing_bucket_is_an_unreachable_store(s3: S3Server) -> None:
    with pytest.raises(StoreUnreachable, match="no bucket nowhere"):
        s3.store("s3://nowhere/prefix").put(b"model")


@pytest.mark.long
def test_a_store_that_vanishes_during_an_upload_has_nothing_of_it(
    tmp_path: Path, content: Callable[[int], bytes]
) -> None:
    with s3_server(tmp_path) as server, ThreadPoolExecutor(1) as thread:
        (tmp_path / "model").write_bytes(content(6 * PART_BYTES))
        waiting = thread.submit(server.store().put, tmp_path / "model")
        poll_until_sync(lambda: "uploadId=" in (tmp_path / "moto.log").read_text())
        server.kill()
        with pytest.raises(StoreUnreachable, match="try again") as raised:
            waiting.result()
        assert ACCESS_KEY not in str(raised.value) and SECRET_KEY not in str(raised.value)
        server.start()
        server.make_bucket("models")
        assert server.store().verify(server.store().put(tmp_path / "model")) == "ok"


@pytest.fixture(name="serve")
def _serve(tmp_path: Path) -> Iterator[Callable[[Request], Store]]:
    """Serves answers of the test's own in the place of S3; returns a store there."""
    running: list[ThreadingHTTPServer] = []

    def serve(answer: Request) -> Store:
        methods = {
            f"do_{name}": lambda self: answer(self) for name in ("GET", "HEAD", "PUT", "POST", "DELETE")
        }
        quiet = {"log_message": lambda *_: None}
        server = ThreadingHTTPServer(
            ("127.0.0.1", 0), type("Handler", (BaseHTTPRequestHandler,), methods | quiet)
        )
        server.daemon_threads = True
        running.append(server)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        write_credentials(tmp_path / "credentials.toml", f"http://127.0.0.1:{server.server_port}")
        return S3Server(server.server_port, tmp_path).store(store_timeout_s="0.5")

    yield serve
    for server in running:
        server.shutdown()
        server.server_close()


def test_a_store_that_refuses_is_named_with_its_reason_and_no_key(serve: Callable[[Request], Store]) -> None:
    def refuse(request: BaseHTTPRequestHandler) -> None:
        body = f"<Error><Code>AccessDenied</Code><Message>not {SECRET_KEY}</Message></Error>".encode()
        request.send_response(403)
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        if request.command != "HEAD":
            request.wfile.write(body)

    store = serve(refuse)
    for use in (lambda: store.put(b"model"), lambda: list(store.list_blobs())):
        with pytest.raises(
            StoreUnreachable, match=r"s3://models/prefix refuses access.*credential"
        ) as raised:
            use()
        assert SECRET_KEY not in str(raised.value) and raised.value.__cause__ is None
    assert SECRET_KEY not in repr(store)


def test_a_store_that_does_not_answer_is_unreachable_after_the_time_limit(
    serve: Callable[[Request], Store],
) -> None:
    never = threading.Event()

    def wait(_: BaseHTTPRequestHandler) -> None:
        never.wait(60)

    store = serve(wait)
    with pytest.raises(StoreUnreachable, match="s3://models/prefix can't be used"):
        store.put(b"model")
    never.set()


def test_a_store_whose_quota_is_used_up_is_full(serve: Callable[[Request], Store]) -> None:
    def full(request: BaseHTTPRequestHandler) -> None:
        body = b"<ListBucketResult></ListBucketResult>"
        if request.command in ("PUT", "POST"):
            body = b"<Error><Code>XMinioStorageFull</Code><Message>no room</Message></Error>"
        request.rfile.read(int(request.headers.get("Content-Length", 0)))
        is_object = request.command == "HEAD" and request.path.strip("/") != "models"
        request.send_response({"PUT": 507, "POST": 507}.get(request.command, 404 if is_object else 200))
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        if request.command != "HEAD":
            request.wfile.write(body)

    with pytest.raises(StoreFull, match=r"the store s3://models/prefix is full.*quota"):
        serve(full).put(b"model")
