"""Given: scripts that become tasks of a worker."""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.integration.worker.harness import WorkerHarness, memory_log, running, settings_for
from trackside.contracts.topics import Topics

SAY = """
import json, os, signal, sys, time
def say(**word):
    os.write(int(os.environ["TRACKSIDE_METRICS_FD"]), (json.dumps(word) + "\\n").encode())
def instruction_after(number):
    "Waits for an instruction with a higher number."
    while True:
        time.sleep(0.01)
        try:
            with open(os.environ["TRACKSIDE_INSTRUCTION_FILE"]) as file:
                found = json.load(file)
        except FileNotFoundError:
            continue
        if found["number"] > number:
            return found
"""
DAEMON = """
def daemon():
    "Starts a process that hides as well as one can, waits until it has become `sleep`, and gives its pid."
    hears, tells = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.write(tells, str(os.getpid()).encode())
            for descriptor in {*range(3, 256)} - {tells}:
                try:
                    os.close(descriptor)
                except OSError:
                    pass
            os.execve("/bin/sleep", ["sleep", "600"], {})
        os._exit(0)
    os.wait()
    os.close(tells)
    with os.fdopen(hears) as told:
        return int(told.read())
"""
PYTHON = f"program: [{sys.executable}, ./script.py"


def task_of(folder: Path, script: str = "", task: str = f"{PYTHON}]", more: str = "") -> Path:
    """Writes a catalogue whose one task type `a` is a script, or what else is given."""
    (folder / "script.py").write_text(SAY + DAEMON + script)
    path = folder / "catalogue.yaml"
    path.write_text(f"tasks: {{a: {{{task}, path: .{more}}}}}\n")
    return path


@asynccontextmanager
async def started(folder: Path, catalogue: Path, **more: Any) -> AsyncIterator[WorkerHarness]:
    """Runs a worker with a catalogue while the block runs."""
    topics = Topics("t.")
    settings = settings_for(folder / "worker", catalogue=catalogue, **more)
    async with running(await memory_log(topics), topics, settings) as harness:
        yield harness
