"""Two workers on one host with the same GPU, and a scheduler, as processes: T18, over all of them."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.integration.installed import variables_of
from tests.integration.scheduler.harness import ProcessHarness
from tests.nvml.standin import GIB, FakeNvml
from tests.polling import poll_until
from tests.service_processes import ServiceProcess, service_process
from trackside.cli.app import call
from trackside.contracts.tasks.resources import Needs, Resources
from trackside.contracts.tasks.tasks import AttemptEnded
from trackside.eventlog.kafka.kafka_log import KafkaLog
from trackside.eventlog.settings.settings import StackSettings

EXAMPLES = Path(__file__).parents[3] / "deploy" / "examples"


@pytest.fixture
def workers(settings: StackSettings, fake_nvml: FakeNvml, tmp_path: Path) -> Iterator[None]:
    """Runs two workers that find the same GPUs, with data folders of their own."""
    with ExitStack() as running:
        for name in ("w1", "w2"):
            variables = {
                **fake_nvml.variables,
                **variables_of(settings),
                "TRACKSIDE_WORKER_ID": name,
                "TRACKSIDE_WORKER_CATALOGUE": str(EXAMPLES / "noop" / "catalogue.yaml"),
                "TRACKSIDE_WORKER_DATA_DIR": str(tmp_path / name),
                "TRACKSIDE_WORKER_HOST_DIR": str(tmp_path / "host"),
                "TRACKSIDE_WORKER_PRELOAD": "",
            }
            folder = tmp_path / f"log-{name}"
            folder.mkdir()
            running.enter_context(service_process("worker", variables, folder))
        yield


@pytest.fixture
async def harness(
    settings: StackSettings,
    scheduler: ServiceProcess,
    workers: None,
) -> AsyncIterator[ProcessHarness]:
    async with KafkaLog(settings.kafka_bootstrap, client_id="test") as log:
        yield ProcessHarness(log, settings.topics, scheduler)


@pytest.mark.long
async def test_t18_tasks_of_14_gib_on_one_gpu_of_two_workers_are_never_there_at_once(
    harness: ProcessHarness,
    settings: StackSettings,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    # The tasks say themselves whether another is there: ends are reported after the next one has begun.
    parameters = {"seconds": 0.5, "alone": str(tmp_path / "alone")}
    needed = Resources(kind="gpu", estimate_cuda_memory=14 * GIB, estimate_memory=2**20)
    for number in range(4):
        on = needed.model_copy(update={"device": f"w{number % 2 + 1}/gpu-0"})
        await harness.submit(f"t{number}", needs=Needs(resources=on), parameters=parameters)
    for name, value in variables_of(settings).items():
        monkeypatch.setenv(name, value)
    await harness.until(AttemptEnded, nth=4)
    ends = {(end.task_id, end.end) for end in harness.of(AttemptEnded)}
    assert ends == {(harness.own(f"t{number}"), "finished") for number in range(4)}

    async def both_are_listed() -> bool:
        assert await asyncio.to_thread(call, ["devices", "--json"]) == 0
        listed.extend(json.loads(capsys.readouterr().out))
        return len({row["worker_id"] for row in listed}) == 2

    listed: list[dict[str, Any]] = []
    await poll_until(both_are_listed)
    shared = {f"{row['worker_id']}/{row['device_id']}": row["shared_with"] for row in listed}
    assert (shared["w1/gpu-0"], shared["w2/gpu-0"]) == (["w2/gpu-0"], ["w1/gpu-0"])
    assert shared["w1/cpu-0"] == []
    assert await asyncio.to_thread(call, ["devices"]) == 0
    text = capsys.readouterr().out
    assert "w1/gpu-0 and w2/gpu-0 are one GPU: what a task has of it counts for all" in text
    assert "w1 and w2 share the memory of one host" in text
