"""Wires a worker together and runs it until it is stopped."""

import asyncio
import signal
import sys

import structlog

from trackside.eventlog.keys.record_writer import RecordWriter
from trackside.eventlog.reactor.service_context import ServiceContext
from trackside.eventlog.reactor.serving import run_service, wait_for_topics
from trackside.eventlog.settings.settings import StackSettings, read_settings
from trackside.telemetry.metrics import declare
from trackside.worker.catalogue.task_catalogue import CatalogueError, TaskCatalogue, read_catalogue
from trackside.worker.host.shared_folder import SharedFolder, SharedFolderError
from trackside.worker.settings import WorkerSettings
from trackside.worker.worker_runner import HandedOver, WorkerRunner

log = structlog.get_logger("trackside.worker")


def main() -> None:
    """Runs a worker until it is stopped; exits with 2 if its catalogue or its shared folder is invalid."""
    settings = read_settings(WorkerSettings)
    try:
        catalogue = read_catalogue(settings.catalogue)
        SharedFolder(settings.host_dir)
    except (CatalogueError, SharedFolderError) as error:
        sys.stderr.write(f"{error}\n")
        raise SystemExit(2) from error
    run_service(
        "worker",
        read_settings(StackSettings),
        lambda service: _run(service, settings, catalogue),
        principal=f"worker-{settings.id}",
    )


async def _run(service: ServiceContext, settings: WorkerSettings, catalogue: TaskCatalogue) -> None:
    topics = service.topics
    if await wait_for_topics(
        service, [topics.events, topics.fleet, topics.heartbeats, topics.metrics, topics.logs]
    ):
        declare("trackside.worker.dropped.batches", topic=[topics.metrics.name, topics.logs.name])
        limits, own = service.settings.disk_limits, RecordWriter("worker", settings.id, service.writer.signer)
        worker = WorkerRunner(service.log, topics, settings, catalogue, service.health, limits, own)

        def hand_over() -> None:
            worker.hands_over = settings.adopt
            service.stop.set()

        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, hand_over)
        try:
            await run_until_stopped(worker, service.stop)
        except* HandedOver:
            log.info("handed over", worker=worker.id)


async def run_until_stopped(worker: WorkerRunner, leaving: asyncio.Event) -> None:
    """Runs a worker until `leaving` is set; cancels it at once if it hasn't joined by then."""
    running = asyncio.create_task(worker.run(leaving))
    told_to_leave = asyncio.create_task(leaving.wait())
    await asyncio.wait({running, told_to_leave}, return_when=asyncio.FIRST_COMPLETED)
    if not worker.joined and not running.done():
        running.cancel()
    told_to_leave.cancel()
    try:
        await running
    except asyncio.CancelledError:
        log.info("left before joining", worker=worker.id)
