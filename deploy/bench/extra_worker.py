"""A second worker for the stack, in a process of its own."""

import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from tempfile import TemporaryDirectory

from bench.fresh_stack import SLOTS, TASKS
from bench.log_watch import watch_topic
from trackside.contracts.envelope.message import Record
from trackside.contracts.envelope.topics import Topics
from trackside.contracts.fleet.fleet import WorkerJoined, WorkerLeft
from trackside.embedded.stack import Stack
from trackside.eventlog.log import Log

WORKER = "second"
LIMIT_S = 60


@dataclass(frozen=True, slots=True)
class JoinedWorker:
    """A worker that has joined."""

    pid: int
    incarnation: str


@asynccontextmanager
async def worker(
    stack: Stack, log: Log, topics: Topics, slots: int = SLOTS, queues: str = "default"
) -> AsyncIterator[JoinedWorker]:
    """Runs a worker while the block runs, on the given topics, with so many slots, for these queues."""
    with TemporaryDirectory(prefix="trackside-bench-worker-") as folder:
        variables = {
            **os.environ,
            "TRACKSIDE_KAFKA_BOOTSTRAP": stack.bootstrap_servers,
            "TRACKSIDE_POSTGRES_DSN": stack.postgres_dsn,
            "TRACKSIDE_TOPIC_PREFIX": topics.prefix,
            "TRACKSIDE_WORKER_ID": WORKER,
            "TRACKSIDE_WORKER_CATALOGUE": str(TASKS),
            "TRACKSIDE_WORKER_CPU_SLOTS": str(slots),
            "TRACKSIDE_WORKER_QUEUES": queues,
            "TRACKSIDE_WORKER_DATA_DIR": folder,
        }
        async with watch_topic(log, topics.fleet) as watch:
            process = subprocess.Popen(  # noqa: ASYNC220
                [sys.executable, "-m", "trackside.worker"], env=variables, stderr=subprocess.DEVNULL
            )
            try:
                joined = (await watch.until(lambda record: _is(record, WorkerJoined), LIMIT_S)).record
                assert isinstance(joined.message, WorkerJoined)
                yield JoinedWorker(process.pid, joined.message.incarnation)
                process.terminate()
                await watch.until(lambda record: _is(record, WorkerLeft), LIMIT_S)
            finally:
                process.kill()
                process.wait()


def _is(record: Record, kind: type[WorkerJoined] | type[WorkerLeft]) -> bool:
    message = record.message
    return isinstance(message, kind) and message.worker_id == WORKER
