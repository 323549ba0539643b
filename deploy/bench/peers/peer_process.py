"""Runs one program of a peer, and measures the processor time of all of its processes."""

import asyncio
import json
import os
import shutil
import subprocess
import tempfile
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from bench.peers.environment import PeerMissingError
from bench.peers.process_times import ProcessTimes, watched

LIMIT_S = 300.0
ISOLATED = ("unshare", "--net", "--pid", "--mount-proc", "--fork", "--kill-child")
"""Ray's servers listen on all addresses; here they get a network of their own that only has the loopback."""
WITH_LOOPBACK = ("sh", "-c", 'ip link set lo up && exec "$@"', "sh")
KEPT_OUTPUT = 1_000


@dataclass(frozen=True, slots=True)
class PeerResult:
    """Trials per second, and ms of processor time a trial, of a program and of what it used beside itself."""

    rate: float
    cpu_ms: float


def isolation() -> list[str]:
    """Returns the words before a command that give it a network of its own; PeerMissingError if none do."""
    reason = "unshare or ip is not installed"
    if shutil.which("unshare") and shutil.which("ip"):
        for extra in ((), ("--map-root-user",)):
            words = [*ISOLATED, *extra, *WITH_LOOPBACK]
            done = subprocess.run([*words, "true"], capture_output=True, text=True, check=False)
            if done.returncode == 0:
                return words
            reason = done.stderr.strip()
    raise PeerMissingError(f"its servers can't be given a network of their own: {reason}")


async def run(
    command: Sequence[str], environment: Mapping[str, str], used_ms: Callable[[], float]
) -> PeerResult:
    """Runs a program until it has ended; `used_ms` is processor time that is counted too.

    Raises PeerMissingError with the end of its output if it fails.
    """
    with tempfile.TemporaryFile() as errors:
        process = await asyncio.create_subprocess_exec(
            *command, stdin=PIPE, stdout=PIPE, stderr=errors, env={**_environment(), **environment}
        )
        try:
            async with asyncio.timeout(LIMIT_S), watched(process.pid) as times:
                result = await _measured(process, times, used_ms)
                await process.wait()
        except TimeoutError:
            raise PeerMissingError(f"{command[-2:]} did not end within {LIMIT_S:g} s") from None
        finally:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
        if result is None:
            errors.seek(0)
            text = errors.read().decode("utf-8", "replace").strip()
            raise PeerMissingError(f"it ended with {process.returncode}: {text[-KEPT_OUTPUT:]}")
        return result


async def _measured(process: Process, times: ProcessTimes, used_ms: Callable[[], float]) -> PeerResult | None:
    assert process.stdin is not None
    before = 0.0
    while (line := await _next_line(process)) is not None:
        now = times.used_ms() + used_ms()
        process.stdin.write(b"\n")
        if line["at"] == "began":
            before = now
            continue
        process.stdin.close()
        return PeerResult(line["trials"] / line["seconds"], (now - before) / line["trials"])
    return None


async def _next_line(process: Process) -> dict[str, Any] | None:
    """Returns the next JSON object that the program writes, or None if it writes none any more."""
    assert process.stdout is not None
    async for line in process.stdout:
        if line.startswith(b'{"at"'):
            found: dict[str, Any] = json.loads(line)
            return found
    return None


def _environment() -> dict[str, str]:
    return {
        name: value
        for name, value in os.environ.items()
        if name not in ("VIRTUAL_ENV", "PYTHONPATH") and not name.startswith(("TRACKSIDE_", "RAY_"))
    }
