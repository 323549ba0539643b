"""What a store process does for its worker: one function for each operation, by its name."""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from trackside.artifacts.blobs.source_files import SourceFile
from trackside.artifacts.cache import Cache
from trackside.artifacts.errors import ArtifactChanged, ArtifactError
from trackside.artifacts.store import ReportBytes, Store, stored_uri
from trackside.contracts.envelope.message import Json
from trackside.contracts.tasks.artifacts import FOLDER_MEDIA_TYPE, ArtifactReference

Operation = Callable[[Store, Json, ReportBytes], Json]
"""Carries out an operation with its arguments; returns its result. Raises ArtifactError."""


def put(store: Store, arguments: Json, _report: ReportBytes) -> Json:
    """Saves files and folders, each `{path, sha256, media_type}`, which the store may share.

    Returns `{"items": [...]}` in the same order: the reference of each, or its `{"code", "message"}`.
    """
    return {"items": put_items(store, arguments["items"])}


def get(store: Store, arguments: Json, report: ReportBytes) -> Json:
    """Fetches the artifact of a `reference` to the path `target`, which must not exist."""
    store.get(ArtifactReference.model_validate(arguments["reference"]), Path(arguments["target"]), report)
    return {}


def put_items(store: Store, items: Sequence[Json]) -> list[Json]:
    """Saves files together, which is faster; one by one where that fails, and folders."""
    files = [item for item in items if not _is_folder(item)]
    together: dict[str, ArtifactReference] = {}
    if len(files) > 1:
        # On an error, which one is at fault is seen one by one; what has been written is not written again.
        with contextlib.suppress(ArtifactError):
            together = dict(zip((item["path"] for item in files), _put_files(store, files), strict=True))
    return [_put_item(store, item, together.get(item["path"])) for item in items]


def _put_item(store: Store, item: Json, saved: ArtifactReference | None) -> Json:
    try:
        if saved is None:
            saved = _put_folder(store, item) if _is_folder(item) else _put_files(store, [item])[0]
    except ArtifactError as error:
        return problem_of(error)
    return saved.model_dump(mode="json") | {"media_type": item["media_type"]}


def _is_folder(item: Json) -> bool:
    return bool(item["media_type"] == FOLDER_MEDIA_TYPE)


def _put_files(store: Store, items: Sequence[Json]) -> list[ArtifactReference]:
    return store.put_files(
        [SourceFile(Path(item["path"]), digest=item["sha256"], give=True) for item in items]
    )


def _put_folder(store: Store, item: Json) -> ArtifactReference:
    saved = store.put_folder(Path(item["path"]), give=True)
    if saved.sha256 != item["sha256"]:
        raise ArtifactChanged(f"{item['path']} changed after it was handed over: it has another digest")
    return saved


def problem_of(error: ArtifactError) -> Json:
    """Returns an error as the fields of a problem."""
    return {"code": error.code, "message": str(error)}


def fetch(store: Store, arguments: Json, report: ReportBytes) -> Json:
    """Fetches an artifact, `{reference, folder, max_bytes, max_entries}`, into the cache in that folder."""
    cache = Cache(Path(arguments["folder"]), arguments["max_bytes"], arguments["max_entries"])
    cache.fetch(ArtifactReference.model_validate(arguments["reference"]), store, report)
    return {}


def missing(store: Store, arguments: Json, _report: ReportBytes) -> Json:
    """Returns `{"missing": [names]}` of `artifacts`, each `{name, sha256, size_bytes, media_type}`.

    One with another size is missing too. Nothing but the manifests of folders is read.
    """
    store.check_reachable()
    wanted = {each["name"]: _reference_of(each) for each in arguments["artifacts"]}
    return {
        "missing": [name for name, each in wanted.items() if store.verify(each, digests=False) != "ok"],
    }


def _reference_of(described: Json) -> ArtifactReference:
    return ArtifactReference(
        uri=stored_uri(described["sha256"]),
        sha256=described["sha256"],
        size_bytes=described["size_bytes"],
        media_type=described["media_type"],
    )


OPERATIONS: Mapping[str, Operation] = {"put": put, "get": get, "fetch": fetch, "missing": missing}
