"""Folders with `model_config.json` and models for those who read files: where they are, and their removal.

Only what copies have written is removed; files of others stay, and their folder with them.
"""

import errno
from dataclasses import dataclass
from pathlib import Path

from trackside.artifacts.blobs.credentials import Credential
from trackside.artifacts.blobs.file_blobs import sync_folder
from trackside.incremental.model_config import CONFIG_FILE, is_model
from trackside.incremental.outputs import (
    ORDER,
    PREFIX,
    SUFFIX,
    OutputError,
    in_order,
    open_output_store,
    order_of,
    output_errors,
    output_path,
)


@dataclass(frozen=True, slots=True)
class RemovedFiles:
    """How many files were removed, and how many of others are left in their folder."""

    files: int
    others: int


def folder_of(url: str, job: str) -> str:
    """Returns the URL of the folder of a job."""
    return f"{url.rstrip('/')}/{job}"


def remove_published(folder: str, credential: Credential | None, time_ms: int) -> RemovedFiles:
    """Removes `model_config.json`, then the models next to it, then the folder if nothing else is in it.

    A writer that was suspended since before `time_ms`, in ms since 1970, is refused afterwards if the folder
    is one of this host: for that a hidden file of 20 bytes stays next to it. Raises OutputError; what was
    removed already is not restored.
    """
    path = output_path(folder)
    if path is None:
        return _remove_objects(folder, credential)
    with output_errors(folder):
        if not path.parent.is_dir():
            raise OutputError("unreachable", f"there is no folder {path.parent}: see that its disk is there")
        with in_order(order_of(path), folder, time_ms, is_last=True):
            return remove_folder(path, folder)


def remove_folder(path: Path, url: str) -> RemovedFiles:
    """Removes what copies have written into a folder of this host, then the folder if it is empty."""
    with output_errors(url):
        found = sorted(each.name for each in path.iterdir()) if path.is_dir() else []
        ours = [name for name in found if _is_ours(name)]
        for name in _config_first(ours):
            (path / name).unlink(missing_ok=True)
        if path.is_dir():
            _remove_empty(path)
    return RemovedFiles(sum(not name.startswith(PREFIX) for name in ours), len(found) - len(ours))


def _remove_empty(folder: Path) -> None:
    try:
        folder.rmdir()
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):  # files of others, or a link
            raise
        return
    sync_folder(folder.parent)


def _remove_objects(folder: str, credential: Credential | None) -> RemovedFiles:
    store = open_output_store(folder, credential)
    with output_errors(folder):
        try:
            with store.errors():
                found = [each.rpartition("/")[2] for each in store.files.ls(store.root, detail=False)]
        except FileNotFoundError:
            return RemovedFiles(0, 0)
        ours = [name for name in found if _is_ours(name)]
        for name in _config_first(ours):
            with store.errors():
                store.files.rm_file(f"{store.root}/{name}")
    return RemovedFiles(len(ours), len(found) - len(ours))


def _config_first(names: list[str]) -> list[str]:
    """Returns names in the order of removal: a reader never finds a path without a file."""
    return sorted(names, key=lambda name: (name != CONFIG_FILE, name))


def _is_ours(name: str) -> bool:
    temporary = name.startswith(PREFIX) and name.endswith(SUFFIX)  # also those of writers that are suspended
    return name == CONFIG_FILE or is_model(name) or temporary or name.startswith(ORDER)
