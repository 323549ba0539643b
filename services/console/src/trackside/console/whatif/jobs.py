"""The what-ifs that were asked for: one runs at a time, others wait; the newest results are kept."""

import asyncio
import json
import secrets
import sys
from collections import OrderedDict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import structlog

from trackside.eventlog.background import cancel_and_wait
from trackside.eventlog.clock import monotonic_s

LIMIT_S = 120.0
"""How long one may take from its start, s."""
MOST_WAITING = 20
KEPT = 50
"""How many results are kept, in memory: the oldest ones are dropped."""
MAX_LINE_BYTES = 64 * 1024 * 1024

logger = structlog.get_logger("trackside.console")


class TooManyWaiting(Exception):
    """So many what-ifs wait already that no other one is taken."""


@dataclass(slots=True)
class WhatIfJob:
    """One what-if: what was asked for, and how far it is; at the end a result or an error."""

    id: str
    stream_id: str
    kind: str
    at: str
    fields: Mapping[str, str]
    phase: str = "waiting for others"
    result: dict[str, Any] | None = None
    error: str = ""
    started_s: float | None = None
    took_s: float = 0.0
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def is_over(self) -> bool:
        """Whether there is a result or an error."""
        return self.result is not None or bool(self.error)

    @property
    def elapsed_s(self) -> float:
        """How long it has run, s."""
        if self.is_over or self.started_s is None:
            return self.took_s
        return monotonic_s() - self.started_s

    def change(self, phase: str) -> None:
        """Sets the phase, and wakes those who wait for one."""
        self.phase = phase
        self.changed.set()
        self.changed = asyncio.Event()


class WhatIfJobs:
    """Runs what-ifs in the order in which they are asked for, each in a process."""

    def __init__(self, bootstrap: str, prefix: str, limit_s: float = LIMIT_S) -> None:
        self._bootstrap, self._prefix, self._limit_s = bootstrap, prefix, limit_s
        self._jobs: OrderedDict[str, WhatIfJob] = OrderedDict()
        self._tasks: set[asyncio.Task[None]] = set()
        self._one = asyncio.Lock()

    def start(self, stream_id: str, kind: str, at: str, fields: Mapping[str, str]) -> WhatIfJob:
        """Returns a job that runs now or later; the same one if the same was asked for and is not over.

        Raises TooManyWaiting.
        """
        open_jobs = [each for each in self._jobs.values() if not each.is_over]
        for each in open_jobs:
            if (each.stream_id, each.at, each.fields) == (stream_id, at, fields):
                return each
        if len(open_jobs) >= MOST_WAITING:
            raise TooManyWaiting(f"{len(open_jobs)} others wait; try again when some of them have ended")
        job = WhatIfJob(secrets.token_urlsafe(9), stream_id, kind, at, dict(fields))
        self._jobs[job.id] = job
        over = [each.id for each in self._jobs.values() if each.is_over]
        for key in over[: max(0, len(self._jobs) - KEPT)]:
            del self._jobs[key]
        task = asyncio.create_task(self._run(job))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return job

    def find(self, job_id: str, stream_id: str) -> WhatIfJob | None:
        """Returns a job of a stream, or None if there is none, or its result is not kept any more."""
        job = self._jobs.get(job_id)
        return job if job is not None and job.stream_id == stream_id else None

    async def close(self) -> None:
        """Ends all processes."""
        await cancel_and_wait(*self._tasks)

    async def _run(self, job: WhatIfJob) -> None:
        async with self._one:
            job.started_s = monotonic_s()
            job.change("starting")
            try:
                async with asyncio.timeout(self._limit_s):
                    await self._in_process(job)
            except TimeoutError:
                job.error = f"it took longer than {self._limit_s:.0f} s; ask for fewer scenarios"
            except (OSError, ValueError) as error:
                logger.error("a what-if failed", stream=job.stream_id, exc_info=error)
                job.error = "its process failed; the log of the console has the reason"
            job.took_s = monotonic_s() - job.started_s
            job.change("over")

    async def _in_process(self, job: WhatIfJob) -> None:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "trackside.console.whatif.process"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=MAX_LINE_BYTES,
        )
        assert process.stdin is not None and process.stdout is not None  # both are pipes
        request = {
            "bootstrap": self._bootstrap,
            "prefix": self._prefix,
            "stream": job.stream_id,
            "at": job.at,
            "fields": dict(job.fields),
        }
        try:
            process.stdin.write(json.dumps(request).encode() + b"\n")
            await process.stdin.drain()
            while line := await process.stdout.readline():
                said = json.loads(line)
                job.result, job.error = said.get("result"), said.get("error", "")
                if job.is_over:
                    return
                job.change(said["phase"])
            job.error = f"its process ended with exit code {await process.wait()}"
        finally:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
