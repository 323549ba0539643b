"""A running server of summaries over real rows and a store, and requests to it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
from yarl import URL

from tests.integration.summaries.given import Rows, given_tables, reported
from trackside.artifacts.blobs.file_blobs import FileBlobs
from trackside.artifacts.settings import StoreSettings
from trackside.artifacts.store import Store
from trackside.contracts.tasks.summaries import ReportedItem
from trackside.summary_indexer.api.opening import open_reads
from trackside.summary_indexer.api.server import ApiLimits, SummaryApi
from trackside.summary_indexer.settings import SummaryIndexerSettings
from trackside.telemetry.health import Health


@dataclass
class Site:
    """A running server over the rows and the store of a test."""

    rows: Rows
    store: Store
    address: str
    api: SummaryApi
    client: aiohttp.ClientSession

    async def get(self, path: str, **parameters: Any) -> tuple[int, Any]:
        async with self.client.get(f"{self.address}{path}", params=parameters) as answer:
            assert answer.content_type == "application/json"
            return answer.status, await answer.json()

    async def raw(self, target: str) -> tuple[int, Any]:
        """Sends a path as it is, and returns status and JSON."""
        async with self.client.get(URL(f"{self.address}{target}", encoded=True)) as answer:
            return answer.status, await answer.json()

    def item(self, kind: str, value: Any, step: int = 0, tag: str = "a") -> ReportedItem:
        """Returns the record of a value whose bytes are in the store."""
        return reported(self.store, kind, value, step, tag)


@asynccontextmanager
async def served(
    database: str, folder: Path, limits: ApiLimits | None = None, read_limit_s: float = 0.5
) -> AsyncIterator[Site]:
    folder, api = folder / "store", SummaryApi(limits)
    folder.mkdir()
    settings = SummaryIndexerSettings(read_limit_s=read_limit_s)
    async with given_tables(database) as rows, api.serve(Health("summary-indexer"), 0) as port:
        with open_reads(database, settings, StoreSettings(store=str(folder))) as reads:
            api.reads = reads
            async with aiohttp.ClientSession() as client:
                yield Site(rows, Store(FileBlobs(folder)), f"http://127.0.0.1:{port}", api, client)
