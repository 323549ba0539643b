"""Task types whose tasks run one after another in one process: `runner: warm`."""

import os
import signal
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.integration.worker.given import SHARES, TaskType, catalogue_of, shared_types, started, task_of
from tests.integration.worker.harness import WorkerHarness, alive, gone, of
from tests.integration.worker.processes import events_after_restart, killed_worker, recovered, wait_until_gone
from trackside.contracts.envelope.message import Message
from trackside.contracts.tasks.device_commands import RunTask
from trackside.contracts.tasks.summaries import OutputWritten
from trackside.contracts.tasks.tasks import AttemptEnd, AttemptEnded, MetricReported, TaskStatusChanged
from trackside.worker.temporary_folders import link_of

SCRIPT = """
import asyncio, random, subprocess, sys, threading
from pathlib import Path
from trackside.sdk import Task, trial
runs = []
kept = []
class Warm(Task):
    def train(self, device):
        asked = trial.parameters()
        print("prints " + os.environ["TRACKSIDE_TASK_ID"])
        if "report" in asked:
            for value in asked["report"]:
                trial.report(value)
        if "tell_pid" in asked:
            trial.report(os.getpid())
        kept.append(b"x" * asked.get("keep", 0))
        runs.append(os.environ["TRACKSIDE_TASK_ID"])
        exec(asked.get("do", ""))
        if asked.get("wait_for_stop"):
            while not trial.should_stop():
                time.sleep(0.01)
        if asked.get("hang"):
            time.sleep(600)
        return {
            "pid": os.getpid(),
            "runs": runs,
            "cwd": os.getcwd(),
            "environment": dict(os.environ),
            "first": asked.get("first"),
            "drawn": random.random(),
            "handler": repr(signal.getsignal(signal.SIGTERM)),
            "path": sys.path.count(str(Path(__file__).parent)),
        }
"""
WARM = "entry: 'script:Warm', runner: warm"
TYPES = 32
"""More than there are tests: a process that waits has a type, and each test begins with types of its own."""
KINDS = {f"w{number}": TaskType(SCRIPT, WARM) for number in range(TYPES)}
KINDS["twice"] = TaskType(SCRIPT, f"{WARM}, max_tasks: 2")
KINDS["grows"] = TaskType(SCRIPT, f"{WARM}, max_growth: 32MiB")
NUMBERS = count()
pytestmark = SHARES
worker = shared_types(KINDS)


class Warm:
    """A worker with two types for one test whose tasks run in warm processes."""

    def __init__(self, harness: WorkerHarness, first: str, second: str) -> None:
        self.harness, self.first, self.second = harness, first, second

    async def run(self, task_id: str, parameters: dict[str, Any] | None = None, **more: Any) -> RunTask:
        return await self.harness.run(task_id, parameters, **{"task_type": self.first, **more})

    async def end(self, task_id: str, parameters: dict[str, Any] | None = None, **more: Any) -> AttemptEnded:
        """Runs a task to its end."""
        await self.run(task_id, parameters, **more)
        return await self.harness.end(task_id)

    async def finished(self, task_id: str, parameters: dict[str, Any] | None = None, **more: Any) -> Any:
        """Runs a task and gives its result."""
        end = await self.end(task_id, parameters, **more)
        assert end.end is AttemptEnd.FINISHED, end.error
        assert end.result is not None
        return end.result


@pytest_asyncio.fixture(loop_scope="module")
async def warm(harness: WorkerHarness) -> Warm:
    number = next(NUMBERS) * 2 % TYPES
    return Warm(harness, f"w{number}", f"w{number + 1}")


async def test_many_tasks_run_in_one_process_each_with_its_own_surroundings(warm: Warm) -> None:
    found = [await warm.finished(f"t{n}", {"report": [n, n]}) for n in range(4)]
    ids = [warm.harness.own(f"t{n}") for n in range(4)]
    assert len({each["pid"] for each in found}) == 1
    assert [each["environment"]["TRACKSIDE_TASK_ID"] for each in found] == ids
    assert len({each["cwd"] for each in found}) == 4
    for each in found:
        workdir = Path(each["cwd"])
        assert each["environment"]["TMPDIR"] == str(link_of(workdir.parent) / workdir.name)
    assert len({each["drawn"] for each in found}) == 4
    assert {each["path"] for each in found} == {1}
    assert [each["runs"] for each in found] == [ids[: n + 1] for n in range(4)], (
        "modules stay as tasks left them"
    )
    for n in range(4):
        story = await warm.harness.events_until_end(f"t{n}")
        entered = [event.status.name for event in of(story, TaskStatusChanged)]
        assert entered == ["AVAILABLE", "LOADING", "WAITING", "TRAINING"]
        reported = [(each.step, each.value) for each in of(story, MetricReported)]
        assert reported == [(0, n), (1, n)], "they begin anew with each task"
    await gone(*(each["cwd"] for each in found))


async def test_what_a_task_has_set_for_its_process_is_set_back(warm: Warm) -> None:
    do = "os.environ['MINE'] = '1'; signal.signal(15, signal.SIG_IGN); sys.stdout = None"
    first = await warm.finished("t0", {"do": do})
    second = await warm.finished("t1")
    written = await warm.harness.first(OutputWritten, warm.harness.topics.logs, "t1")
    assert first["pid"] == second["pid"]
    assert "MINE" in first["environment"] and "MINE" not in second["environment"]
    assert "SIG_IGN" in first["handler"] and "SIG_DFL" in second["handler"]
    assert written.lines == [f"prints {warm.harness.own('t1')}"]


async def test_every_line_goes_to_the_task_that_has_printed_it(warm: Warm) -> None:
    for n in range(3):
        await warm.finished(f"t{n}", {"do": "sys.stderr.write('last words')"})
    for n in range(3):
        found = await warm.harness.messages(
            warm.harness.topics.logs,
            f"t{n}",
            lambda all_: {each.source for each in of(all_, OutputWritten)} == {"stdout", "stderr"},
        )
        lines = {(each.source, *each.lines) for each in of(found, OutputWritten)}
        assert lines == {("stdout", f"prints {warm.harness.own(f't{n}')}"), ("stderr", "last words")}


@pytest.mark.parametrize(
    ("do", "end"),
    [
        ("raise ValueError('no')", AttemptEnd.FAILED),
        ("raise MemoryError", AttemptEnd.OOM_HOST),
        ("raise SystemExit(0)", AttemptEnd.FAILED),
        ("os.kill(os.getpid(), 9)", AttemptEnd.FAILED),
    ],
)
async def test_a_task_that_goes_wrong_ends_the_process_and_the_next_gets_another(
    warm: Warm, do: str, end: AttemptEnd
) -> None:
    first = await warm.finished("t0")
    assert (await warm.end("t1", {"do": do})).end is end
    second = await warm.finished("t2")
    third = await warm.finished("t3")
    assert not alive(first["pid"])
    assert first["pid"] != second["pid"] == third["pid"]
    assert second["runs"] == [warm.harness.own("t2")]


async def test_a_process_runs_so_many_tasks_and_no_more(warm: Warm) -> None:
    pids = [(await warm.finished(f"t{n}", task_type="twice"))["pid"] for n in range(5)]
    assert pids[0] == pids[1] != pids[2] == pids[3] != pids[4]


async def test_a_process_that_has_grown_too_much_runs_no_other_task(warm: Warm) -> None:
    pids = [(await warm.finished(f"t{n}", {"keep": 20_000_000}, task_type="grows"))["pid"] for n in range(4)]
    assert pids[0] == pids[1] == pids[2] != pids[3], "from the end of the first on: 20 MB, 40 MB"


async def test_a_thread_that_a_task_leaves_ends_the_process_and_is_named(warm: Warm) -> None:
    do = "threading.Thread(target=time.sleep, args=(600,), name='lasts', daemon=True).start()"
    first = await warm.finished("t0", {"do": do})

    def of_stderr(messages: list[Message]) -> list[str]:
        written = [each for each in of(messages, OutputWritten) if each.source == "stderr"]
        return [line for each in written for line in each.lines]

    topic = warm.harness.topics.logs
    written = await warm.harness.messages(topic, "t0", lambda all_: bool(of_stderr(all_)))
    assert (await warm.finished("t1"))["pid"] != first["pid"]
    assert of_stderr(written) == [
        "trackside: no other task gets this process: threads that the task has left still run: lasts"
    ]


async def test_what_a_task_leaves_behind_is_gone_before_the_next_one_starts(warm: Warm) -> None:
    end = await warm.end("t0", {"do": "trial.report(daemon())"})
    left = await warm.harness.pid("t0")
    assert end.leftovers == (f"{left} sleep 600",)
    assert end.result is not None
    second = await warm.finished("t1", {"do": f"assert not os.path.exists('/proc/{left}')"})
    assert second["pid"] == end.result["pid"]


@pytest.mark.parametrize("asked", ["hang", "wait_for_stop"])
async def test_a_stop_amid_a_task_ends_the_process_also_if_the_task_finishes(warm: Warm, asked: str) -> None:
    """The signal may still be on its way: it must not meet the next task."""
    first = await warm.finished("t0")
    command = await warm.run("t1", {"tell_pid": True, asked: True})
    assert await warm.harness.pid("t1") == first["pid"]
    await warm.harness.stop(command)
    ends = {AttemptEnd.CANCELLED} | ({AttemptEnd.FINISHED} if asked == "wait_for_stop" else set())
    assert (await warm.harness.end("t1")).end in ends
    assert (await warm.finished("t2"))["pid"] != first["pid"]
    assert not alive(first["pid"])


async def test_a_device_that_another_type_gets_ends_the_process_that_waits_there(warm: Warm) -> None:
    first = await warm.finished("t0")
    do = f"assert not os.path.exists('/proc/{first['pid']}')"
    other = await warm.finished("t1", {"do": do}, task_type=warm.second)
    again = await warm.finished("t2")
    assert len({first["pid"], other["pid"], again["pid"]}) == 3


async def test_each_slot_keeps_a_process_of_its_own(warm: Warm) -> None:
    first = await warm.finished("t0", device="cpu-0")
    command = await warm.run("t2", {"tell_pid": True, "hang": True}, device="cpu-0")
    await warm.harness.pid("t2")
    other = await warm.finished("t3", device="cpu-1")
    again = await warm.finished("t4", device="cpu-1")
    assert first["pid"] != other["pid"] == again["pid"]
    await warm.harness.stop(command)
    await warm.harness.end("t2")


async def test_a_process_that_is_killed_while_it_waits_is_no_loss(warm: Warm) -> None:
    first = await warm.finished("t0")
    os.kill(first["pid"], signal.SIGKILL)
    assert wait_until_gone(first["pid"])
    assert (await warm.end("t1")).end in (AttemptEnd.FINISHED, AttemptEnd.LOST)
    assert (await warm.finished("t2"))["pid"] != first["pid"]


async def test_a_task_that_trains_again_without_memory_is_the_last_of_its_process(warm: Warm) -> None:
    do = "runs.count(runs[-1]) < 2 and bytearray(2**50)"
    first = await warm.finished("t0")
    second = await warm.finished("t1", {"do": do}, interrupts=1)
    third = await warm.finished("t2")
    assert first["pid"] == second["pid"] != third["pid"]


async def test_a_worker_that_leaves_or_is_lost_leaves_no_process_that_waits(tmp_path: Path) -> None:
    async with started(tmp_path, task_of(tmp_path, SCRIPT, WARM)) as harness:
        joined, warm = await harness.joined(), Warm(harness, "a", "")
        first = await warm.finished("t0")
        await harness.declare_lost(joined.incarnation)
        again = await harness.joined(nth=2)
        assert not alive(first["pid"])
        second = await warm.finished("t1", incarnation=again.incarnation)
    assert not alive(second["pid"])


async def test_a_process_that_waits_makes_room_for_a_task_elsewhere(tmp_path: Path) -> None:
    catalogue = catalogue_of(tmp_path, {name: TaskType(SCRIPT, WARM) for name in "ab"})
    async with started(tmp_path, catalogue, max_tasks=1) as harness:
        warm = Warm(harness, "a", "b")
        first = await warm.finished("t0", device="cpu-0")
        other = await warm.finished("t1", device="cpu-1", task_type="b", wait=True)
        assert not alive(first["pid"])
    assert other["pid"] != first["pid"]


@pytest.mark.long
async def test_what_a_killed_worker_had_in_a_warm_process_is_given_back(tmp_path: Path) -> None:
    """FM-11: `a` was the second task of its process, and the first one's end is not said again."""
    catalogue, data_dir = task_of(tmp_path, SCRIPT, WARM), tmp_path / "worker"
    requested = {"before": True, "tell_pid": True, "hang": True}
    incarnation, _ = killed_worker(data_dir, requested, str(catalogue), "a")
    harness, story = await events_after_restart(data_dir)
    recovered(story, AttemptEnd.LOST, incarnation)
    assert await harness.events_so_far("first") == []
    assert list((data_dir / "journal").iterdir()) == []


@pytest.mark.long
async def test_a_worker_killed_between_two_tasks_leaves_no_process_and_loses_no_result(
    tmp_path: Path,
) -> None:
    catalogue, data_dir = task_of(tmp_path, SCRIPT, WARM), tmp_path / "worker"
    incarnation, pid = killed_worker(data_dir, {"tell_pid": True}, str(catalogue), "a", has_ended=True)
    _, story = await events_after_restart(data_dir)
    end = recovered(story, AttemptEnd.FINISHED, incarnation)
    assert end.result is not None and end.result["pid"] == pid
