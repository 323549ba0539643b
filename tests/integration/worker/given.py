"""Given: scripts that become tasks of a worker."""

import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.integration.worker.harness import Gate, WorkerHarness, memory_log, running, settings_for
from tests.nvml.standin import GIB
from trackside.contracts.envelope.topics import Topics
from trackside.contracts.tasks.device_commands import RunTask
from trackside.contracts.tasks.tasks import Reservation
from trackside.worker.settings import WorkerSettings

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
SHARES = pytest.mark.asyncio(loop_scope="module")
"""The tests of a module run in one loop: that of the worker that they share."""
HIDDEN = {"TRACKSIDE_POSTGRES_DSN": "postgres://me:secret@host/db", "ELSEWHERE": "1"}
"""What the environment of a shared worker has, and that of a task may not have."""


def task_of(folder: Path, script: str = "", task: str = f"{PYTHON}]", more: str = "") -> Path:
    """Writes a catalogue whose one task type `a` is a script, or what else is given."""
    (folder / "script.py").write_text(SAY + DAEMON + script)
    path = folder / "catalogue.yaml"
    path.write_text(f"tasks: {{a: {{{task}, path: .{more}}}}}\n")
    return path


@dataclass(frozen=True)
class TaskType:
    """A script, what runs it, and what else the catalogue says of it."""

    script: str = ""
    task: str = f"{PYTHON}]"
    more: str = ""


def catalogue_of(folder: Path, types: Mapping[str, TaskType]) -> Path:
    """Writes a catalogue with these task types, each in a folder of its own."""
    lines = ["tasks:"]
    for name, each in types.items():
        (folder / name).mkdir(parents=True)
        (folder / name / "script.py").write_text(SAY + DAEMON + each.script)
        lines.append(f"  {name}: {{{each.task}, path: ./{name}{each.more}}}")
    path = folder / "catalogue.yaml"
    path.write_text("\n".join(lines) + "\n")
    return path


@asynccontextmanager
async def started(folder: Path, catalogue: Path, **more: Any) -> AsyncIterator[WorkerHarness]:
    """Runs a worker with a catalogue while the block runs."""
    async with worker_with(settings_for(folder / "worker", catalogue=catalogue, **more)) as harness:
        yield harness


@asynccontextmanager
async def worker_with(settings: WorkerSettings) -> AsyncIterator[WorkerHarness]:
    """Runs a worker with a log in memory of its own while the block runs."""
    topics = Topics("t.")
    async with running(await memory_log(topics), topics, settings) as harness:
        yield harness


def shared_worker(settings: Callable[[Path], WorkerSettings]) -> Any:
    """Returns the fixture of a worker that the tests of a module share, with these settings in a folder.

    Its environment names a store, and has `HIDDEN`. What a test does to it must not hinder the next one.
    """

    @pytest_asyncio.fixture(scope="module", loop_scope="module", name="worker")
    async def worker(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[WorkerHarness]:
        folder = tmp_path_factory.mktemp("shared")
        (folder / "store").mkdir()
        with pytest.MonkeyPatch.context() as patched:
            for name, value in {**HIDDEN, "TRACKSIDE_STORE": str(folder / "store")}.items():
                patched.setenv(name, value)
            async with worker_with(settings(folder)) as harness:
                yield harness

    return worker


async def on_gpu(
    harness: WorkerHarness, task_id: str, cuda_gib: float, gate: Gate | None = None, **more: Any
) -> RunTask:
    """Runs a task on gpu-0; with a gate it trains until that opens, and this waits until it trains."""
    requested = {**(gate.waits if gate is not None else {}), **more.pop("requested", {})}
    reserved = Reservation(cuda_memory_bytes=int(cuda_gib * GIB))
    more = {"device": "gpu-0", "task_type": "scripted", "reserved": reserved, **more}
    command = await harness.run(task_id, requested, **more)
    if gate is not None and not command.wait:
        await harness.statuses(task_id, 4)
    return command


def shared_types(types: Mapping[str, TaskType], **more: Any) -> Any:
    """Returns the fixture of a shared worker with these task types."""

    def settings(folder: Path) -> WorkerSettings:
        return settings_for(folder / "worker", catalogue=catalogue_of(folder, types), **more)

    return shared_worker(settings)
