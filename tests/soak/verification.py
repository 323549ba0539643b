"""The log is verified by `trackside verify-log`, in a process of its own, again and again."""

import asyncio
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.chaos.random_faults import pause

NOT_READ = 3
"""The exit code of `verify-log` where the log could not be read."""
SHARE = 0.05
"""At most so much of the time a verification runs: each reads the whole log."""
RETRY_S = 10.0


@dataclass(frozen=True)
class Verified:
    """How many events were read, and what was found."""

    events: int
    findings: list[str]


async def verify_log(folder: Path, *, complete: bool = False) -> Verified | None:
    """Verifies the log of the stack in a folder; None if it can't be read now."""
    arguments = ["verify-log", "--json", *(["--complete"] if complete else [])]
    running = await asyncio.create_subprocess_exec(
        str(Path(sys.executable).parent / "trackside"),
        *arguments,
        cwd=folder,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        out, err = await running.communicate()
    finally:
        if running.returncode is None:
            running.kill()
            await running.wait()
    try:
        report = json.loads(out)
    except ValueError:
        report = None
    if report is None:
        return None if running.returncode in (NOT_READ, 1) else _broken(running.returncode, err)
    return Verified(report["events"], [_as_text(each) for each in report["findings"]])


def _broken(code: int | None, err: bytes) -> Verified:
    return Verified(0, [f"verify-log ended with {code}: {err.decode('utf-8', 'replace')[-2_000:]}"])


def _as_text(finding: dict[str, Any]) -> str:
    return json.dumps(finding, sort_keys=True)


async def next_pause(took_s: float, every_s: float) -> None:
    """Waits until the next verification is due: the longer one takes, the later is the next."""
    await pause(max(every_s, took_s / SHARE))
