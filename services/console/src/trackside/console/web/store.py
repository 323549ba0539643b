"""The store of artifacts, as far as this console has access to it."""

from dataclasses import dataclass

import structlog

from trackside.artifacts.errors import ArtifactError
from trackside.artifacts.opening import open_store
from trackside.artifacts.settings import StoreSettings
from trackside.artifacts.store import Store

logger = structlog.get_logger("trackside.console")


@dataclass(frozen=True, slots=True)
class OpenedStore:
    """The store; without one, `problem` is why, and what to do."""

    store: Store | None
    problem: str = ""


def opened_store(settings: StoreSettings) -> OpenedStore:
    """Returns the store that the settings name; nothing is read from it yet."""
    if not settings.store:
        what = "it has no store; set TRACKSIDE_STORE for the console to the store of the workers"
        return OpenedStore(None, what)
    try:
        return OpenedStore(open_store(settings))
    except ArtifactError as error:
        logger.error("store not opened", code=error.code, reason=str(error))
        return OpenedStore(None, str(error))
