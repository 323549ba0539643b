"""Worker, scheduler and dispatcher are replaced while eight tasks train: none notices."""

import asyncio
import signal
import sys
from functools import partial
from pathlib import Path

import pytest

from tests.e2e.next_build import NEXT, python_path
from tests.e2e.test_rolling_upgrade import WAIT_S, Installation, is_up, running
from tests.integration.installed import prepared
from tests.polling import poll_until
from tests.service_processes import ServiceProcess
from tests.stack import Servers
from trackside.aggregates.batch.messages import GroupSpec, SubmitTasks, TaskSpec
from trackside.sdk.async_client import AsyncClient

pytestmark = pytest.mark.timeout(900)
TASKS, STEPS, STEP_S = 8, 300, 0.05
CATALOGUE = Path(__file__).parents[1] / "chaos" / "kills" / "catalogue.yaml"
TRAINING = {"rate": 0.1, "steps": STEPS, "every": STEPS + 1, "seconds": STEP_S, "waits": True}


def start_worker(on: Installation, folder: Path, build: str) -> ServiceProcess:
    """Starts the worker of a build: always the same one, in the same folder."""
    return on.start(
        "worker",
        build,
        TRACKSIDE_WORKER_ID="w1",
        TRACKSIDE_WORKER_CPU_SLOTS=str(TASKS),
        TRACKSIDE_WORKER_DATA_DIR=str(folder / "worker"),
        TRACKSIDE_WORKER_CATALOGUE=str(CATALOGUE),
    )


def task_id(number: int) -> str:
    """Returns the id of a task of the batch, counted from 0."""
    return f"upgraded.1.{number + 1}"


def steps_of(folder: Path, number: int) -> list[str]:
    """Returns what a task has noted: its attempt and the step, for each step that it has begun."""
    notes = folder / "worker" / "home" / f"{task_id(number)}.notes"
    return notes.read_text().splitlines() if notes.exists() else []


async def test_no_task_is_repeated_or_waits_while_worker_scheduler_and_dispatcher_are_replaced(
    stack: Servers, database: str, tmp_path: Path
) -> None:
    path = python_path(tmp_path / "next", new_tables=False)
    settings = await asyncio.to_thread(prepared, stack, database)
    async with (
        running(settings, tmp_path, path) as on,
        AsyncClient(settings.kafka_bootstrap, settings.topic_prefix) as client,
    ):
        on.env["TRACKSIDE_SCHEDULER_LEASE_S"] = "60"  # a worker is back before, on a busy machine too
        old = {name: on.start(name, "") for name in ("dispatcher", "scheduler")}
        worker = start_worker(on, tmp_path, "")
        try:
            tasks = [TaskSpec(task_type="training", parameters=TRAINING) for _ in range(TASKS)]
            group = GroupSpec(tasks=tasks)
            await on.until("worker-joined", 1)
            await client.send(SubmitTasks(groups=[group]), "upgraded")
            await on.until("task-accepted", TASKS)
            for name in ("scheduler", "dispatcher"):
                following = on.start(name, NEXT)
                await poll_until(
                    partial(lambda each: asyncio.to_thread(lambda: each.is_up), following), WAIT_S
                )
                assert await asyncio.to_thread(old[name].stop) == 0
            following = start_worker(on, tmp_path, NEXT)  # it waits for the folder
            await poll_until(partial(is_up, following), WAIT_S)
            worker.process.send_signal(signal.SIGUSR1)
            assert await asyncio.to_thread(worker.process.wait, WAIT_S) == 0
            worker = following
            await on.until("attempt-adopted", TASKS)
            await asyncio.to_thread(worker.kill)  # an upgrade that fails is one more restart
            await asyncio.to_thread(worker.start)
            await on.until("attempt-adopted", 2 * TASKS)
            for number in range(TASKS):
                (tmp_path / "worker" / "home" / f"{task_id(number)}.released").touch()
            await client.wait("upgraded", WAIT_S)
            assert "nothing found" in await on.command("verify-log")
            assert "equal" in await on.command("replay", "rebuild")
        except BaseException:
            sys.stderr.write(on.output())
            raise
        finally:
            await asyncio.gather(*(asyncio.to_thread(each.stop) for each in on.processes))
    for number in range(TASKS):
        assert steps_of(tmp_path, number) == [f"1 {step}" for step in range(STEPS)]
    assert [event.body["end"] for event in on.of("attempt-ended")] == ["finished"] * TASKS
    assert {event.body["attempt"] for event in on.of("task-assigned")} == {1}
