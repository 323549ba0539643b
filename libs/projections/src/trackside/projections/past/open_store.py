"""Chooses where the snapshots of the past of an installation are."""

from pathlib import Path

from trackside.projections.past.postgres_store import PostgresPastStore
from trackside.projections.past.store import FolderPastStore, PastStore


def open_past_store(folder: Path | None, dsn: str) -> PastStore:
    """Returns the store in a folder, without one that in Postgres; connects when it is used."""
    return PostgresPastStore(dsn) if folder is None else FolderPastStore(folder)
