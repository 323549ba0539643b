"""Opens the store that the settings name, and its copies."""

from trackside.artifacts.blobs import BlobStore
from trackside.artifacts.errors import StoreMissing
from trackside.artifacts.file_blobs import FileBlobs
from trackside.artifacts.settings import StoreSettings
from trackside.artifacts.store import Store
from trackside.artifacts.urls import local_path


def open_store(settings: StoreSettings) -> Store:
    """Returns the store of the installation; StoreMissing if the settings name none. Nothing is read yet."""
    if not settings.store:
        raise StoreMissing(
            "no store for artifacts is set: set TRACKSIDE_STORE to a folder or to s3://bucket/prefix"
        )
    copies = [_open(url) for url in settings.copy_urls]
    return Store(_open(settings.store), copies)


def _open(url: str) -> BlobStore:
    path = local_path(url)
    if path is None:
        raise StoreMissing(f"{url} can't be a store")
    return FileBlobs(path)
