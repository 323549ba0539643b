"""Steps of runs that were found in the cache, on the stack with a real worker and a real store: P34."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.installed import processes
from tests.polling import poll_until_sync
from tests.stack import Servers
from trackside.aggregates.run.messages import RunStatus
from trackside.aggregates.run.state import Run, run_of
from trackside.aggregates.run.step_messages import StepCacheHit, StepCacheMissed
from trackside.contracts.envelope.message import Event, Json
from trackside.contracts.fleet.fleet import CHECK_ARTIFACTS
from trackside.contracts.tasks.tasks import TaskStatusChanged, TaskSubmitted
from trackside.sdk import Client
from trackside.sdk.blocking import BlockingClient

pytestmark = pytest.mark.timeout(200)

TASKS = """
from trackside.sdk import Task, trial

class Squares(Task):
    def train(self, device):
        of = trial.parameters()["of"]
        trial.save("squares", str([number * number for number in range(of)]).encode())
        return {"last": (of - 1) ** 2}
"""
CATALOGUE = "tasks:\n  squares: {{entry: 'squares:Squares', path: ., version: '{version}'}}\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("services")
    (folder / "store").mkdir()
    (folder / "squares.py").write_text(TASKS)
    (folder / "catalogue.yaml").write_text(CATALOGUE.format(version="1"))
    return folder


@pytest.fixture(scope="module")
def client(stack: Servers, module_tables: str, folder: Path) -> Iterator[BlockingClient]:
    store = {"TRACKSIDE_STORE": str(folder / "store")}
    with (
        processes(stack, module_tables, folder, folder / "catalogue.yaml", **store) as (settings, _),
        Client.blocking(settings.kafka_bootstrap, settings.topic_prefix) as client,
    ):
        yield client


def run(client: BlockingClient, run_id: str, of: int) -> tuple[Run, list[Event]]:
    """Runs a pipeline of one cached step and one that uses it; returns its end and its events."""
    steps: list[Json] = [
        {"name": "make", "task_type": "squares", "parameters": {"of": of}, "cache": True},
        {"name": "use", "task_type": "squares", "parameters": {"of": "${make.result.last}"}},
    ]
    client.start_run({"steps": steps}, run_id=run_id)
    ended = run_of(client.wait(run_id, 60))
    assert ended is not None
    assert ended.status is RunStatus.SUCCEEDED
    return ended, [each.message for each in client.events(run_id) if isinstance(each.message, Event)]


def test_a_step_is_cached_until_a_parameter_or_the_catalogue_changes_or_its_artifact_is_gone(
    client: BlockingClient, folder: Path
) -> None:
    first, _ = run(client, "first", 3)
    second, events = run(client, "second", 3)
    assert second.steps["make"].state.value == "cached"
    (hit,) = [event for event in events if isinstance(event, StepCacheHit)]
    assert (hit.found.stream, hit.found.step, hit.found.task) == ("first", "make", "first.make")
    assert hit.found.offset == first.steps["make"].outputs[0].at
    assert hit.artifacts["squares"].reference.source == "first/first.make/squares@1"
    (check,) = [
        event for event in events if isinstance(event, TaskSubmitted) and event.task_type == CHECK_ARTIFACTS
    ]
    began = {event.task_id for event in events if isinstance(event, TaskStatusChanged)}
    assert check.task_id not in began and "second.use" in began  # a check needs no process

    _, events = run(client, "third", 4)
    (miss,) = [event for event in events if isinstance(event, StepCacheMissed)]
    assert (miss.differs, miss.nearest and miss.nearest.step) == (["parameters.of"], "make")

    saved = hit.artifacts["squares"].reference.sha256
    (blob,) = [path for path in (folder / "store").rglob(f"*{saved[4:]}*") if path.is_file()]
    blob.unlink()
    fourth, events = run(client, "fourth", 3)
    (miss,) = [event for event in events if isinstance(event, StepCacheMissed)]
    assert miss.reason == "artifacts_missing"
    assert fourth.steps["make"].outputs[0].task == "fourth.make"
    fifth, _ = run(client, "fifth", 3)
    assert fifth.steps["make"].state.value == "cached"

    known = client.fleet().digests
    (folder / "catalogue.yaml").write_text(CATALOGUE.format(version="2"))
    poll_until_sync(lambda: client.fleet().digests != known, 30)
    _, events = run(client, "sixth", 3)
    (miss,) = [event for event in events if isinstance(event, StepCacheMissed)]
    assert miss.differs == ["catalogue"]
