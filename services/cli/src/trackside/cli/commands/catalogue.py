"""Makes the worker of this folder's stack read its catalogue again: `trackside up` while the stack runs."""

import asyncio
import os
import signal
from pathlib import Path

from trackside.cli.commands.stack_process import WORKER
from trackside.cli.render import screen
from trackside.cli.runtime.failures import CommandFailed
from trackside.cli.runtime.run import run
from trackside.contracts.wire.topic_rights import PUBLISHER
from trackside.domain.fleet.fleet import Worker
from trackside.embedded.folder import read_plan
from trackside.embedded.stack import Stack
from trackside.sdk.client import Client
from trackside.worker.catalogue.catalogue_watch import KnownTypes, known_types
from trackside.worker.catalogue.task_catalogue import CatalogueError, read_catalogue

READ_S = 15.0
POLL_S = 0.1


def read_again(found: Stack, given: Path | None) -> None:
    """Waits until the worker runs the task types of its catalogue, and prints them.

    Raises CommandFailed if the catalogue is invalid, or is another one than the stack was started with.
    """
    [spec] = [spec for spec in read_plan(found.folder).processes if spec.name == WORKER]
    path = Path(spec.env["TRACKSIDE_WORKER_CATALOGUE"])
    if given is not None and given.resolve() != path:
        raise CommandFailed(
            f"the worker of this stack runs the tasks of {path}; for another catalogue stop the stack first "
            "with `trackside down`"
        )
    try:
        wanted = known_types(read_catalogue(path))
    except CatalogueError as error:
        raise CommandFailed(f"{error}; the worker continues with the catalogue as it was before") from error
    run(_until_known(found, wanted))
    screen.say(f"its worker runs the tasks of {path.name}: {', '.join(wanted['task_types']) or 'none'}")


async def _until_known(found: Stack, wanted: KnownTypes) -> None:
    """Waits until the log says that the worker has these types."""
    async with Client(found.kafka(PUBLISHER), name="cli") as client:
        worker, pid = (await client.fleet()).workers.get(WORKER), found.pid(WORKER)
        if worker is not None and pid is not None and not _knows(worker, wanted):
            os.kill(pid, signal.SIGHUP)  # at once: else it looks at the file twice a second
        try:
            async with asyncio.timeout(READ_S):
                while worker is None or not _knows(worker, wanted):
                    await asyncio.sleep(POLL_S)
                    worker = (await client.fleet()).workers.get(WORKER)
        except TimeoutError as error:
            raise CommandFailed(
                f"the worker hasn't read its catalogue again within {READ_S:.0f} s; see `trackside status`"
            ) from error


def _knows(worker: Worker, wanted: KnownTypes) -> bool:
    known = worker.max_memory_bytes, worker.max_cuda_memory_bytes, worker.digests
    return (sorted(worker.task_types), *known) == (
        wanted["task_types"],
        wanted["max_memory_bytes"],
        wanted["max_cuda_memory_bytes"],
        wanted["digests"],
    )
