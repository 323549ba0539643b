"""Services on a real worker: ready, instructed, hanging, stopped, and with no device at all."""

import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.integration.worker.given import PYTHON, started, task_of
from tests.integration.worker.harness import WorkerHarness, alive, of, stream_of
from trackside.contracts.instructions import Instruction, InstructionAcknowledged, TaskReady
from trackside.contracts.tasks import AttemptEnd, TaskError, TaskRefused, TaskStatusChanged

CLASS = """
from trackside.sdk import Service, trial

class Echo(Service):
    def serve(self, device):
        asked = trial.parameters()
        if asked.get("ends"):
            return
        if asked.get("stays"):
            trial.should_stop()  # before it is ready: SIGTERM ends a task that has never asked
        trial.ready(pid=os.getpid(), device=device)
        if asked.get("hangs") or asked.get("stays"):
            while True:
                time.sleep(600)
        while not trial.should_stop():
            found = trial.instruction(wait_s=0.2)
            if found is not None:
                found.acknowledge(ok=not found.body.get("bad"), pid=os.getpid(), body=found.body)
"""
PROGRAM = """
number = 0
say(ready={"pid": os.getpid()})
while True:
    found = instruction_after(number)
    number = found["number"]
    say(acknowledge={"number": number, "detail": {"pid": os.getpid(), "body": found["body"]}})
"""
BY_SDK = CLASS + "\nif __name__ == '__main__':\n    Echo().serve('cpu')\n"
KINDS = {
    "class": (CLASS, "entry: 'script:Echo'"),
    "program": (PROGRAM, f"{PYTHON}]"),
    "program-with-sdk": (BY_SDK, f"{PYTHON}]"),
}
SERVICE = ", runner: service"


@asynccontextmanager
async def serving(folder: Path, kind: str = "class", **more: Any) -> AsyncIterator[WorkerHarness]:
    script, task = KINDS[kind]
    async with started(folder, task_of(folder, script, task, SERVICE), **more) as harness:
        yield harness


async def ready(harness: WorkerHarness, nth: int = 1, task_id: str = "a") -> TaskReady:
    return await harness.first(TaskReady, harness.topics.events, stream_of(task_id), nth)


async def acknowledged(harness: WorkerHarness, nth: int = 1) -> InstructionAcknowledged:
    return await harness.first(InstructionAcknowledged, harness.topics.events, stream_of("a"), nth)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_service_is_ready_and_acknowledges_the_newest_instruction(tmp_path: Path, kind: str) -> None:
    async with serving(tmp_path, kind) as harness:
        first = Instruction(number=3, body={"model": "a"})
        command = await harness.run("a", task_type="a", service=True, instruction=first)
        pid = (await ready(harness)).detail["pid"]
        answer = await acknowledged(harness)
        assert (answer.number, answer.ok, answer.detail) == (3, True, {"pid": pid, "body": {"model": "a"}})
        await harness.instruct(command, 4, model="b")
        answer = await acknowledged(harness, 2)
        assert (answer.number, answer.detail["body"]) == (4, {"model": "b"})
        assert ("instruction-acknowledged", 40) in await harness.causes("a")
        await harness.stop(command)
        assert (await harness.end("a")).end is AttemptEnd.CANCELLED
        assert not alive(pid)


async def test_a_repeated_instruction_is_answered_from_memory_and_an_older_one_not_at_all(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path) as harness:
        command = await harness.run("a", task_type="a", service=True)
        await ready(harness)
        await harness.instruct(command, 2, bad=True)
        first = await acknowledged(harness)
        assert not first.ok
        await harness.instruct(command, 1)
        await harness.instruct(command, 2, bad=True)
        assert await acknowledged(harness, 2) == first
        await harness.instruct(command, 3)
        assert (await acknowledged(harness, 3)).number == 3


async def test_a_service_that_hangs_is_killed_and_one_that_asks_is_not(tmp_path: Path) -> None:
    async with serving(tmp_path) as harness:
        again = await harness.run(
            "b", task_type="a", service=True, unresponsive_s=0.5, device_ids=[], device="host"
        )
        await ready(harness, task_id="b")
        command = await harness.run("a", {"hangs": True}, task_type="a", service=True, unresponsive_s=0.5)
        ended = await harness.end("a")
        assert ended.end is AttemptEnd.FAILED
        assert ended.error is not None
        assert (ended.error.stage, ended.error.type) == ("TRAIN", "service_unresponsive")
        assert "no sign of life for 0.5 s" in await harness.output("a", bool)
        await harness.instruct(again, 1, device="host")
        await harness.first(InstructionAcknowledged, harness.topics.events, stream_of("b"))
        assert command.unresponsive_s == 0.5


async def test_a_service_that_stays_after_sigterm_is_killed_after_the_grace_time(tmp_path: Path) -> None:
    async with serving(tmp_path, stop_grace_s=0.5) as harness:
        command = await harness.run("a", {"stays": True}, task_type="a", service=True)
        pid = (await ready(harness)).detail["pid"]
        await harness.stop(command)
        assert (await harness.end("a")).end is AttemptEnd.CANCELLED
        assert "still there 0.5 s after SIGTERM: killed" in await harness.output("a", bool)
        assert not alive(pid)


async def test_a_service_that_returns_has_failed(tmp_path: Path) -> None:
    async with serving(tmp_path) as harness:
        await harness.run("a", {"ends": True}, task_type="a", service=True)
        ended = await harness.end("a")
        assert ended.end is AttemptEnd.FAILED
        assert ended.error is not None
        assert ended.error.type == "service_exited"


async def test_a_program_that_is_a_service_and_ends_has_failed_with_its_exit_code(tmp_path: Path) -> None:
    async with started(tmp_path, task_of(tmp_path, "", more=SERVICE)) as harness:
        await harness.run("a", task_type="a", service=True)
        error = (await harness.end("a")).error
        assert isinstance(error, TaskError)
        assert error.type == "service_exited"


async def test_a_service_without_devices_runs_next_to_a_full_slot(tmp_path: Path) -> None:
    async with serving(tmp_path, cpu_slots=1) as harness:
        await harness.run("a", task_type="a", service=True)
        assert (await ready(harness)).detail["device"] == "cpu"
        more = await harness.run("b", task_type="a", service=True, device_ids=[], device="host")
        assert (await ready(harness, task_id="b")).detail["device"] == "cpu"
        await harness.stop(more, device="host")
        assert (await harness.end("b")).end is AttemptEnd.CANCELLED


@pytest.mark.parametrize(("service", "code"), [(True, "not_a_service"), (False, "service_expected")])
async def test_a_task_that_the_catalogue_has_as_another_kind_is_refused(
    tmp_path: Path, service: bool, code: str
) -> None:
    more = "" if service else SERVICE
    async with started(tmp_path, task_of(tmp_path, CLASS, "entry: 'script:Echo'", more)) as harness:
        joined = await harness.joined()
        assert joined.services == ([] if service else ["a"])
        await harness.run("a", task_type="a", service=service)
        refused = await harness.first(TaskRefused, harness.topics.events, stream_of("a"))
        assert refused.code == code


async def test_a_killed_service_has_failed_and_its_next_attempt_gets_the_newest_instruction_again(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path) as harness:
        command = await harness.run("a", task_type="a", service=True)
        os.kill((await ready(harness)).detail["pid"], signal.SIGKILL)
        assert (await harness.end("a")).end is AttemptEnd.FAILED
        await harness.instruct(command, 1)
        newest = Instruction(number=1, body={"model": "b"})
        await harness.run("a", task_type="a", service=True, attempt=2, instruction=newest)
        answer = await acknowledged(harness)
        assert (answer.attempt, answer.number) == (2, 1)
        assert len(of(await harness.events_so_far("a"), TaskStatusChanged)) >= 4
