"""Opens the store that the settings name, and its copies."""

from pathlib import Path

from trackside.artifacts.blobs.blobs import BlobReader, BlobStore
from trackside.artifacts.blobs.credentials import Credential, Credentials
from trackside.artifacts.blobs.file_blobs import FileBlobs
from trackside.artifacts.blobs.object_blobs import open_object_blobs
from trackside.artifacts.blobs.outside import open_outside
from trackside.artifacts.blobs.urls import local_path
from trackside.artifacts.errors import StoreMissing
from trackside.artifacts.settings import StoreSettings
from trackside.artifacts.store import Store


def open_store(settings: StoreSettings) -> Store:
    """Returns the store of the installation; nothing is read from it yet.

    StoreMissing if the settings name none; CredentialMissing if this host doesn't have its credential.
    """
    if not settings.store:
        raise StoreMissing(
            "no store for artifacts is set: set TRACKSIDE_STORE to a folder or to s3://bucket/prefix"
        )
    credentials = load_credentials(settings)
    timeout_s = settings.store_timeout_s
    places = [(settings.store, settings.store_credential), *settings.copies]
    blobs, *copies = [
        open_blobs(url, credentials.get(name) if name else None, timeout_s) for url, name in places
    ]

    def outside(url: str, name: str | None) -> BlobReader:
        return open_outside(url, credentials.get(name) if name else None, timeout_s)

    return Store(blobs, copies, outside)


def load_credentials(settings: StoreSettings) -> Credentials:
    """Reads the credentials of this host; CredentialMissing if their file can't be used."""
    return Credentials.load(Path(settings.credentials) if settings.credentials else None)


def open_blobs(url: str, credential: Credential | None, timeout_s: float) -> BlobStore:
    """Returns the blobs below a URL."""
    path = local_path(url)
    return FileBlobs(path) if path is not None else open_object_blobs(url, credential, timeout_s)
