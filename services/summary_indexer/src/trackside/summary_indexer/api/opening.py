"""Opens what the pages read with: connections, the curves in memory, the store of the installation."""

from collections.abc import Iterator
from contextlib import contextmanager

import structlog

from trackside.artifacts.errors import ArtifactError
from trackside.artifacts.opening import open_store
from trackside.artifacts.settings import StoreSettings
from trackside.artifacts.store import Store
from trackside.projections.summaries.read_pool import ReadPool
from trackside.summary_indexer.api.reads import ApiReads
from trackside.summary_indexer.detail.cache import DetailCache
from trackside.summary_indexer.detail.loads import CurveReads
from trackside.summary_indexer.settings import SummaryIndexerSettings

LOAD_LIMIT_S = 60.0
"""How long a query of a load may take; the reads of requests have a setting."""

log = structlog.get_logger("trackside.summary_indexer")


@contextmanager
def open_reads(dsn: str, settings: SummaryIndexerSettings, store: StoreSettings) -> Iterator[ApiReads]:
    """Yields the reads of a service; drops their connections at the end."""
    pool = ReadPool(dsn, settings.reads, settings.read_limit_s)
    load_pool = ReadPool(dsn, settings.cache_loads, LOAD_LIMIT_S)
    cache = DetailCache(settings.cache_jobs, settings.cache_bytes)
    try:
        yield ApiReads(CurveReads(cache, pool, load_pool), _opened(store))
    finally:
        pool.close()
        load_pool.close()


def _opened(settings: StoreSettings) -> Store | None:
    """Returns the store; None where there is none, so that only values whose bytes it has are refused."""
    if not settings.store:
        return None
    try:
        return open_store(settings)
    except ArtifactError as error:
        log.error("store not opened", code=error.code, reason=str(error))
        return None
