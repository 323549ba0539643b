"""Artifacts that a service fetches one after another, of which only the newest are to stay on its host."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import trackside.sdk.trial as trial


class RecentArtifacts:
    """Fetches artifacts; the last `kept` ones that came into use are held, and the cache may remove others.

    The one that came into use before the last can thus be read again at once, for a rollback.
    """

    def __init__(self, kept: int = 2) -> None:
        self._kept = kept
        self._used: list[Mapping[str, Any]] = []

    def fetch(self, reference: Mapping[str, Any]) -> Path:
        """Returns the path of an artifact, as `trial.fetch` does; `use` or `drop` has to follow."""
        return trial.fetch(reference)

    def use(self, reference: Mapping[str, Any]) -> None:
        """Takes an artifact that was fetched as the newest one in use; releases the older ones."""
        self._used = [*(each for each in self._used if not _same(each, reference)), reference]
        while len(self._used) > self._kept:
            trial.release(self._used.pop(0))

    def drop(self, reference: Mapping[str, Any]) -> None:
        """Releases an artifact that was fetched and does not come into use, unless it is held already."""
        if not any(_same(each, reference) for each in self._used):
            trial.release(reference)


def _same(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return one.get("sha256") == other.get("sha256") and one.get("media_type") == other.get("media_type")
