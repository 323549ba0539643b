"""The dispatchers that others publish to: the same as for its own tests, and ones with more settings."""

import asyncio
import secrets
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from tests.integration.dispatcher.conftest import dispatcher, prepare_stack, publisher
from tests.integration.dispatcher.harness import RunningDispatcher
from tests.integration.installed import variables_of
from tests.service_processes import service_process
from tests.stack import Servers
from trackside.eventlog.settings.settings import StackSettings

__all__ = ["dispatcher", "publisher"]


@contextmanager
def dispatcher_with(
    stack: Servers, database: str, folder: Path, variables: dict[str, str]
) -> Iterator[RunningDispatcher]:
    """Runs a dispatcher over a database with these variables; `{prefix}` in them is that of its topics."""
    settings = StackSettings(
        kafka_bootstrap=stack.kafka_bootstrap,
        postgres_dsn=database,
        topic_prefix=f"t{secrets.token_hex(4)}.",
    )
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, prepare_stack(settings)).result()
    more = {name: text.replace("{prefix}", settings.topic_prefix) for name, text in variables.items()}
    with service_process("dispatcher", {**variables_of(settings), **more}, folder) as running:
        yield RunningDispatcher(settings, running)
