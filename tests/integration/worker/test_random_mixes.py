"""Random mixes of tasks and commands on one worker: each placement gets exactly one final event (T19)."""

import random
from pathlib import Path
from typing import Any

import pytest

from tests.integration.worker.given import worker_with
from tests.integration.worker.harness import WorkerHarness, of, scripted_settings
from tests.nvml.standin import GIB, FakeNvml
from trackside.contracts.envelope.message import Message
from trackside.contracts.tasks.device_commands import RunTask
from trackside.contracts.tasks.tasks import AttemptEnded, Reservation, TaskRefused, TaskReturned

TASKS = 30
FINAL_EVENTS = (AttemptEnded, TaskRefused, TaskReturned)
DEVICES = ["cpu-0", "gpu-0", "gpu-1"]


def drawn(random_: random.Random, number: int) -> dict[str, Any]:
    """Draws what a task does, and its requirements."""
    several = random_.random() < 0.15
    devices = ["gpu-0", "gpu-1"] if several else [random_.choice(DEVICES)]
    steps = ["ok", "ok", "ok", "host", "device", "chained", "killed", "disk"]
    return {
        "task_id": f"t{number}",
        "parameters": {
            "load": [random_.choice([*["ok"] * 20, "host", "killed"])],
            "train": [random_.choice(steps) for _ in range(4)],
        },
        "device": "host" if several else devices[0],
        "device_ids": devices,
        "wait": random_.random() < 0.7,
        "whole_device": random_.random() < 0.2,
        "interrupts": random_.randrange(3),
        "reserved": Reservation(
            memory_bytes=random_.randrange(4) * GIB, cuda_memory_bytes=random_.randrange(12) * GIB
        ),
        "task_type": "scripted",
    }


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, 6))])
async def test_t19_every_placement_of_a_mix_gets_one_last_word(
    tmp_path: Path, fake_nvml: FakeNvml, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    fake_nvml.load(monkeypatch)
    random_ = random.Random(seed)
    settings = scripted_settings(
        tmp_path / "worker",
        load_early=random_.randrange(3),
        max_tasks=random_.choice([0, 1, 3]),
        host_reserve=2**60,
    )
    async with worker_with(settings) as harness:
        sent: list[tuple[RunTask, str]] = []
        for number in range(TASKS):
            requested = drawn(random_, number)
            sent.append((await harness.run(**requested), requested["device"]))
            command, device = random_.choice(sent)
            if random_.random() < 0.2:
                await harness.stop(command, device)
            if random_.random() < 0.2:
                await harness.recall(command, device)
            if random_.random() < 0.2:
                await harness.send(command, device)
        for command, _ in sent:
            await final_events(harness, command.task_id)
    for command, _ in sent:
        assert len(distinct(await final_events(harness, command.task_id))) == 1
    assert list((tmp_path / "worker" / "journal").iterdir()) == []


async def final_events(harness: WorkerHarness, task_id: str) -> list[Message]:
    """Waits for the final event of a placement; returns all that came by then."""
    await harness.events(task_id, lambda all_: any(isinstance(each, FINAL_EVENTS) for each in all_))
    return [event for kind in FINAL_EVENTS for event in of(await harness.events_so_far(task_id), kind)]


def distinct(events: list[Message]) -> list[Message]:
    """Leaves out answers that were given again."""
    return [event for at, event in enumerate(events) if event not in events[:at]]
