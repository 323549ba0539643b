"""Artifacts as files that users take away: one file as it is, a folder as an archive of tar.

What a task wrote is never shown as a document: it is sent as an attachment of bytes.
"""

import tarfile
from collections.abc import Iterator
from functools import partial
from itertools import chain
from urllib.parse import quote

import structlog
from fastapi import FastAPI
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse

from trackside.artifacts.blobs.blobs import Blob
from trackside.artifacts.blobs.reading import checked_parts
from trackside.artifacts.errors import ArtifactError, BadArtifact, StoreUnreachable
from trackside.artifacts.manifests import ManifestFile
from trackside.artifacts.store import Store
from trackside.console.web.application import Pages, explained
from trackside.console.web.page import PageNotFound, PageRequest
from trackside.console.web.store import OpenedStore
from trackside.contracts.tasks.artifacts import FOLDER_MEDIA_TYPE, STORED, ArtifactReference
from trackside.domain.rows.table import ViewRow

HEADERS = {
    "content-security-policy": "default-src 'none'; sandbox",
    "x-content-type-options": "nosniff",
    "cache-control": "private, no-store",
}
TAR_MODE, TAR_EXECUTABLE_MODE = 0o644, 0o755
logger = structlog.get_logger("trackside.console")


def add_artifacts(app: FastAPI, pages: Pages, store: OpenedStore) -> None:
    """Adds the route of artifacts to an application."""
    app.add_route("/tasks/{stream_id}/{task_id}/artifact", partial(_artifact, pages, store), ["GET"])


async def artifact_row(request: PageRequest) -> ViewRow:
    """Returns the row of the artifact that the query names by `name` and `version`; raises PageNotFound."""
    stream_id, task_id = request.parts["stream_id"], request.parts["task_id"]
    name, version = request.query.get("name", ""), request.number("version", 0, highest=2**53)
    for row in await request.models.rows("artifacts_of_task", task_id, stream_id):
        if row["name"] == name and row["version"] == version:
            return row
    raise PageNotFound(f"{task_id[:200]} has saved no artifact {name[:200]}@{version}")


async def _artifact(pages: Pages, opened: OpenedStore, request: Request) -> Response:
    try:
        row = await pages.read(request, artifact_row)
    except Exception as error:  # noqa: BLE001 - every error becomes an answer
        problem, status = explained(error)
        return PlainTextResponse(problem, status)
    if opened.store is None:
        problem = f"this console can't read artifacts: {opened.problem}. {_other_way(row)}"
        return PlainTextResponse(problem, 503)
    is_folder = row["media_type"] == FOLDER_MEDIA_TYPE
    try:
        parts = await run_in_threadpool(_begun, opened.store, row, is_folder)
    except ArtifactError as error:
        status = 503 if isinstance(error, StoreUnreachable) else 404
        return PlainTextResponse(f"the artifact can't be read: {error}. {_other_way(row)}", status)
    headers = {**HEADERS, "content-disposition": _disposition(row, is_folder)}
    if not is_folder:
        headers["content-length"] = str(row["size_bytes"])
    return StreamingResponse(parts, media_type="application/octet-stream", headers=headers)


def _other_way(row: ViewRow) -> str:
    return f"On a machine with the store: trackside artifacts get {row['source']}"


def _begun(store: Store, row: ViewRow, is_folder: bool) -> Iterator[bytes]:
    """Returns the bytes of an artifact; its first part is read already, so that one that lacks is refused."""
    if not row["uri"].startswith(STORED):
        raise BadArtifact(f"it is outside the store, at {row['uri'][:500]}")
    parts = _tar(store, row) if is_folder else _file(store, row["sha256"], row["size_bytes"])
    return chain([next(parts, b"")], _logged(parts, str(row["uri"])))


def _logged(parts: Iterator[bytes], uri: str) -> Iterator[bytes]:
    """Yields parts; an error breaks the connection off, so that a browser says that the file is not whole."""
    try:
        yield from parts
    except ArtifactError as error:
        logger.error("an artifact was not sent whole", uri=uri, code=error.code, reason=str(error))
        raise


def _file(store: Store, sha256: str, size_bytes: int) -> Iterator[bytes]:
    yield from checked_parts(store.place_of(Blob(sha256, size_bytes)), sha256, size_bytes)


def _tar(store: Store, row: ViewRow) -> Iterator[bytes]:
    """Yields a folder as tar, file by file: none is kept in memory or on disk."""
    names = ("uri", "sha256", "size_bytes", "media_type")
    manifest = store.manifest(ArtifactReference(**{name: row[name] for name in names}))
    for each in manifest.files:
        yield _tar_head(row, each)
        yield from _file(store, each.sha256, each.size_bytes)
        yield bytes(-each.size_bytes % tarfile.BLOCKSIZE)
    yield bytes(2 * tarfile.BLOCKSIZE)


def _tar_head(row: ViewRow, file: ManifestFile) -> bytes:
    entry = tarfile.TarInfo(f"{row['name']}@{row['version']}/{file.path}")
    entry.size = file.size_bytes
    entry.mtime = row["saved_at"].timestamp()
    entry.mode = TAR_EXECUTABLE_MODE if file.executable else TAR_MODE
    return entry.tobuf(tarfile.PAX_FORMAT)


def _disposition(row: ViewRow, is_folder: bool) -> str:
    """Returns the header that names the file; see RFC 6266 for names beyond ASCII."""
    name = f"{row['name']}-{row['version']}{'.tar' if is_folder else ''}"
    plain = "".join(each if each.isascii() and (each.isalnum() or each in "-_.") else "_" for each in name)
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}"
