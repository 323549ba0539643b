"""Services on a real worker: ready, instructed, hanging, stopped, and with no device at all."""

import os
import signal
from typing import Any

import pytest

from tests.integration.worker.given import PYTHON, SHARES, TaskType, shared_types
from tests.integration.worker.harness import WorkerHarness, alive, error_of, of
from tests.integration.worker.saved import all_records
from trackside.contracts.tasks.device_commands import RunTask
from trackside.contracts.tasks.instructions import Instruction, InstructionAcknowledged, TaskReady
from trackside.contracts.tasks.tasks import AttemptEnd, TaskStatusChanged
from trackside.verify.checks.secrets import secret_field

CLASS = """
from trackside.sdk import Service, trial

class Echo(Service):
    def serve(self, device):
        asked = trial.parameters()
        if asked.get("ends"):
            return
        trial.ready(pid=os.getpid(), device=device)
        if asked.get("hangs"):
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
WRITES = """
word, key = "2retnuhhunter2", "QQQQ" * 4
say(metric="AKIA" + key, value=1.0)
say(report={"value": 0.5, "AKIA" + key: 1.0})
say(summary={"kind": "hparams", "tag": "all", "body": {"db_password": word}})
if "answers" in json.load(open(os.environ["TRACKSIDE_PARAMETERS_FILE"])):
    say(ready={"pid": os.getpid(), "urls": [{"name": "db_password", "value": word}]})
    number = instruction_after(0)["number"]
    say(acknowledge={"number": number, "detail": {"api_key": [word], "url": f"s3://me:{word}@host/b"}})
    time.sleep(600)
say(result={"loss": 0.5, "login": {"password": word}, "api-key": ["EMPTY", word], "AKIA" + key: word})
"""
KINDS = {
    "class": (CLASS, "entry: 'script:Echo'"),
    "program": (PROGRAM, f"{PYTHON}]"),
    "program-with-sdk": (BY_SDK, f"{PYTHON}]"),
}
SERVICE = ", runner: service"


TYPES = {
    **{kind: TaskType(*of_kind, SERVICE) for kind, of_kind in KINDS.items()},
    "ends": TaskType(more=SERVICE),
    "task": TaskType(*KINDS["class"]),
    "writes": TaskType(WRITES),
    "answers": TaskType(WRITES, more=SERVICE),
}
pytestmark = SHARES
worker = shared_types(TYPES)


async def ready(harness: WorkerHarness, nth: int = 1, task_id: str = "a") -> TaskReady:
    return await harness.event(TaskReady, task_id, nth)


async def acknowledged(harness: WorkerHarness, nth: int = 1) -> InstructionAcknowledged:
    return await harness.event(InstructionAcknowledged, "a", nth)


async def serve(harness: WorkerHarness, parameters: dict[str, Any] | None = None, **more: Any) -> RunTask:
    """Runs a service as task `a`."""
    return await harness.run("a", parameters, **{"task_type": "class", "service": True, **more})


@pytest.mark.parametrize("kind", KINDS)
async def test_a_service_is_ready_and_acknowledges_the_newest_instruction(
    harness: WorkerHarness, kind: str
) -> None:
    first = Instruction(number=3, body={"model": "a"})
    command = await serve(harness, task_type=kind, instruction=first)
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
    harness: WorkerHarness,
) -> None:
    command = await serve(harness)
    await ready(harness)
    await harness.instruct(command, 2, bad=True)
    first = await acknowledged(harness)
    assert not first.ok
    await harness.instruct(command, 1)
    await harness.instruct(command, 2, bad=True)
    assert await acknowledged(harness, 2) == first
    await harness.instruct(command, 3)
    assert (await acknowledged(harness, 3)).number == 3
    await harness.stop(command)
    await harness.end("a")


async def test_a_service_that_hangs_is_killed_and_one_that_asks_is_not(harness: WorkerHarness) -> None:
    more: dict[str, Any] = {"task_type": "class", "service": True, "unresponsive_s": 0.5}
    again = await harness.run("b", **more, device_ids=[], device="host")
    await ready(harness, task_id="b")
    error_of(await harness.ended("a", {"hangs": True}, **more), "TRAIN", "service_unresponsive")
    assert "no sign of life for 0.5 s" in await harness.output("a", bool)
    await harness.instruct(again, 1, device="host")
    await harness.event(InstructionAcknowledged, "b")
    await harness.stop(again, device="host")
    await harness.end("b")


@pytest.mark.parametrize(("kind", "parameters"), [("class", {"ends": True}), ("ends", {})])
async def test_a_service_that_returns_has_failed(
    harness: WorkerHarness, kind: str, parameters: dict[str, Any]
) -> None:
    ended = await harness.ended("a", parameters, task_type=kind, service=True)
    assert ended.end is AttemptEnd.FAILED
    assert ended.error is not None and ended.error.type == "service_exited"


async def test_a_service_without_devices_runs_next_to_a_full_slot(harness: WorkerHarness) -> None:
    command = await serve(harness)
    assert (await ready(harness)).detail["device"] == "cpu"
    more = await harness.run("b", task_type="class", service=True, device_ids=[], device="host")
    assert (await ready(harness, task_id="b")).detail["device"] == "cpu"
    for each, device in ((more, "host"), (command, "cpu-0")):
        await harness.stop(each, device=device)
        assert (await harness.end(each.task_id)).end is AttemptEnd.CANCELLED


async def test_a_task_that_the_catalogue_has_as_another_kind_is_refused(harness: WorkerHarness) -> None:
    assert (await harness.joined()).services == sorted(set(TYPES) - {"task", "writes"})
    assert (await harness.refused("a", task_type="task", service=True)).code == "not_a_service"
    assert (await harness.refused("b", task_type="class", service=False)).code == "service_expected"


async def test_a_killed_service_has_failed_and_its_next_attempt_gets_the_newest_instruction_again(
    harness: WorkerHarness,
) -> None:
    command = await serve(harness)
    os.kill((await ready(harness)).detail["pid"], signal.SIGKILL)
    assert (await harness.end("a")).end is AttemptEnd.FAILED
    await harness.instruct(command, 1)
    newest = Instruction(number=1, body={"model": "b"})
    again = await serve(harness, attempt=2, instruction=newest)
    answer = await acknowledged(harness)
    assert (answer.attempt, answer.number) == (2, 1)
    assert len(of(await harness.events_so_far("a"), TaskStatusChanged)) >= 4
    await harness.stop(again)
    await harness.end("a", nth=2)


async def test_what_looks_like_a_secret_is_redacted_in_all_that_a_task_reports(
    harness: WorkerHarness,
) -> None:
    ended = await harness.ended("a", {}, task_type="writes")
    assert ended.end is AttemptEnd.FINISHED
    assert ended.result == {
        "loss": 0.5,
        "login": {"password": "[redacted]"},
        "api-key": ["EMPTY", "[redacted]"],
        "[redacted]": "2retnuhhunter2",
    }
    command = await harness.run("b", {"answers": True}, task_type="answers", service=True)
    assert (await ready(harness, task_id="b")).detail["urls"] == [
        {"name": "db_password", "value": "[redacted]"}
    ]
    await harness.instruct(command, 1)
    answer = await harness.event(InstructionAcknowledged, "b")
    assert answer.detail == {"api_key": ["[redacted]"], "url": "s3://[redacted]@host/b"}
    await harness.stop(command)
    await harness.end("b")
    for task_id in "ab":
        entries = await harness.entries_so_far(task_id)
        assert entries and not [each for each in entries if secret_field(each)]
    assert "AKIA" not in (written := await all_records(harness))
    assert '"db_password": "2retnuh' not in written
