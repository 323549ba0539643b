"""Which sessions hold the locks that a transaction waits for."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

ASK_AFTER_S = 5.0
"""How long a transaction has lasted before it is asked what it waits for, and how often it is asked then."""
_BLOCKERS = """
SELECT
    pid, usename, application_name, left(query, 100) AS query,
    extract(epoch FROM now() - xact_start) AS since_s
FROM pg_stat_activity
WHERE pid = ANY(pg_blocking_pids($1))
ORDER BY xact_start
LIMIT 3
"""


@dataclass(slots=True)
class Blockers:
    """Who blocked a transaction when that was asked last, or before: sentences, or "" if nobody did."""

    text: str = ""


@contextmanager
def noted_blockers(found: Blockers, pid: int, connect: Callable[[], Awaitable[Any]]) -> Iterator[None]:
    """Notes in `found` while the block runs, from its sixth second on, whom the backend `pid` waits for.

    Nothing is asked in a short one. `connect` opens another connection to the same server.
    """
    loop = asyncio.get_running_loop()
    asking: list[asyncio.Task[None]] = []
    timer = loop.call_later(ASK_AFTER_S, lambda: asking.append(loop.create_task(_ask(pid, connect, found))))
    try:
        yield
    finally:
        timer.cancel()
        for task in asking:
            task.cancel()


async def _ask(pid: int, connect: Callable[[], Awaitable[Any]], found: Blockers) -> None:
    with suppress(Exception):  # what blocks can't be said then, and the transaction says what it fails with
        session = await connect()
        try:
            before = ""
            while True:
                now = "; ".join(map(_sentence, await session.fetch(_BLOCKERS, pid)))
                # Nobody blocks a statement that has just failed: its error may come after this answer.
                found.text, before = now or before, now
                await asyncio.sleep(ASK_AFTER_S)
        finally:
            session.terminate()


def _sentence(row: Mapping[str, Any]) -> str:
    application = row["application_name"] or "no application name"
    since = "" if row["since_s"] is None else f", whose transaction has lasted {row['since_s']:.0f} s"
    last = " ".join((row["query"] or "").split())
    who = f"blocked by process {row['pid']} of user {row['usename']} ({application}){since}"
    return f"{who}: {last}" if last else who
