"""Signals that come while a service starts end it cleanly, also before it has imported its code."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from tests.polling import poll_until

SERVICES = ("console", "dispatcher", "scheduler", "summary_indexer", "worker")
NOWHERE = {
    "TRACKSIDE_KAFKA_BOOTSTRAP": "127.0.0.1:1",
    "TRACKSIDE_POSTGRES_DSN": "postgresql://nobody@127.0.0.1:1/none",
    "TRACKSIDE_WORKER_CATALOGUE": str(Path("deploy/examples/noop/catalogue.yaml").absolute()),
    "TRACKSIDE_WORKER_PRELOAD": "",
}


async def started(service: str, folder: Path) -> asyncio.subprocess.Process:
    """Starts a service without servers."""
    environment = {**os.environ, **NOWHERE, "TRACKSIDE_WORKER_DATA_DIR": str(folder / "worker")}
    with (folder / service).open("wb") as output:
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", f"trackside.{service}"), env=environment, stdout=output, stderr=output
        )


def handles(pid: int, number: signal.Signals) -> bool:
    """Returns whether a process has a handler for a signal. Source: proc(5)."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    (mask,) = [int(line.split()[1], 16) for line in lines if line.startswith("SigCgt:")]
    return bool(mask >> (number - 1) & 1)


async def ends_with(service: str, number: signal.Signals, folder: Path) -> int:
    """Sends a signal to a service as soon as it handles it; returns its exit code."""
    process = await started(service, folder)

    async def is_there() -> bool:
        return handles(process.pid, number)

    await poll_until(is_there)
    process.send_signal(number)
    return await process.wait()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1], ids=lambda each: each.name)
async def test_a_signal_in_the_first_moment_ends_a_service_cleanly(
    tmp_path: Path, number: signal.Signals
) -> None:
    ends = [ends_with(service, number, tmp_path) for service in SERVICES]
    assert await asyncio.gather(*ends) == [0] * len(SERVICES)


@pytest.mark.parametrize("number", [pytest.param(signal.SIGTERM, marks=pytest.mark.long), signal.SIGUSR1])
async def test_a_signal_while_a_worker_waits_for_the_log_ends_it_cleanly(
    tmp_path: Path, number: signal.Signals
) -> None:
    process = await started("worker", tmp_path)

    async def has_started() -> bool:
        return b"service started" in (tmp_path / "worker").read_bytes()

    await poll_until(has_started)
    process.send_signal(number)
    assert await process.wait() == 0
