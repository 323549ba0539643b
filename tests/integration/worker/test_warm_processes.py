"""Task types whose tasks run one after another in one process: `runner: warm`."""

import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.integration.worker.given import started, task_of
from tests.integration.worker.harness import (
    WorkerHarness,
    alive,
    events_after_restart,
    killable_worker,
    next_line,
    of,
    wait_until_gone,
)
from trackside.contracts.summaries import OutputWritten
from trackside.contracts.tasks import AttemptEnd, AttemptEnded, MetricReported, TaskStatus, TaskStatusChanged
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


@asynccontextmanager
async def warm(folder: Path, more: str = "", **settings: Any) -> AsyncIterator[WorkerHarness]:
    """Runs a worker whose type `a` is warm, and `b` too with the same class."""
    catalogue = task_of(folder, SCRIPT, f"{WARM}{more}")
    other = f"b: {{{WARM}, path: .}}"
    catalogue.write_text(catalogue.read_text().rstrip().removesuffix("}") + f", {other}}}\n")
    async with started(folder, catalogue, **settings) as harness:
        yield harness


async def finished(
    harness: WorkerHarness, task_id: str, parameters: dict[str, Any] | None = None, **more: Any
) -> Any:
    """Runs a task and gives its result."""
    await harness.run(task_id, parameters, **{"task_type": "a", **more})
    end = await harness.end(task_id)
    assert end.end is AttemptEnd.FINISHED, end.error
    assert end.result is not None
    return end.result


async def test_many_tasks_run_in_one_process_each_with_its_own_surroundings(tmp_path: Path) -> None:
    async with warm(tmp_path) as harness:
        found = [
            await finished(
                harness, f"t{n}", {"do": "os.environ['MINE'] = '1'; signal.signal(15, signal.SIG_IGN)"}
            )
            for n in range(5)
        ]
        story = await harness.events_until_end("t4")
    assert len({each["pid"] for each in found}) == 1
    assert [each["environment"]["TRACKSIDE_TASK_ID"] for each in found] == [f"t{n}" for n in range(5)]
    assert len({each["cwd"] for each in found}) == 5
    assert all(each["environment"]["TMPDIR"] == str(link_of(Path(each["cwd"]))) for each in found)
    assert len({each["drawn"] for each in found}) == 5
    assert {each["path"] for each in found} == {1}
    assert [len(each["runs"]) for each in found] == [1, 2, 3, 4, 5], "modules stay as tasks leave them"
    assert [event.status for event in of(story, TaskStatusChanged)] == [
        TaskStatus.AVAILABLE,
        TaskStatus.LOADING,
        TaskStatus.WAITING,
        TaskStatus.TRAINING,
    ]
    assert list((tmp_path / "worker" / "tasks").iterdir()) == []


async def test_what_a_task_has_set_for_its_process_is_set_back(tmp_path: Path) -> None:
    async with warm(tmp_path) as harness:
        do = "os.environ['MINE'] = '1'; signal.signal(15, signal.SIG_IGN); sys.stdout = None"
        first = await finished(harness, "t0", {"do": do})
        second = await finished(harness, "t1")
        written = await harness.first(OutputWritten, harness.topics.logs, "t1")
    assert first["pid"] == second["pid"]
    assert "MINE" in first["environment"] and "MINE" not in second["environment"]
    assert "SIG_IGN" in first["handler"] and "SIG_DFL" in second["handler"]
    assert written.lines == ["prints t1"]


async def test_every_line_goes_to_the_task_that_has_printed_it(tmp_path: Path) -> None:
    async with warm(tmp_path) as harness:
        for n in range(4):
            await finished(harness, f"t{n}", {"do": "sys.stderr.write('last words')"})
        for n in range(4):
            found = await harness.messages(
                harness.topics.logs,
                f"t{n}",
                lambda all_: {each.source for each in of(all_, OutputWritten)} == {"stdout", "stderr"},
            )
            lines = {(each.source, *each.lines) for each in of(found, OutputWritten)}
            assert lines == {("stdout", f"prints t{n}"), ("stderr", "last words")}


async def test_reports_begin_anew_with_each_task(tmp_path: Path) -> None:
    async with warm(tmp_path) as harness:
        for n in range(3):
            await finished(harness, f"t{n}", {"report": [n, n, n, n]})
        for n in range(3):
            reported = [
                (each.step, each.value)
                for each in of(await harness.events_until_end(f"t{n}"), MetricReported)
            ]
            assert reported == [(0, n), (1, n), (2, n), (3, n)]


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
    tmp_path: Path, do: str, end: AttemptEnd
) -> None:
    async with warm(tmp_path) as harness:
        first = await finished(harness, "t0")
        await harness.run("t1", {"do": do}, task_type="a")
        assert (await harness.end("t1")).end is end
        second = await finished(harness, "t2")
        third = await finished(harness, "t3")
        assert not alive(first["pid"])
    assert first["pid"] != second["pid"] == third["pid"]
    assert second["runs"] == ["t2"]


async def test_a_process_runs_so_many_tasks_and_no_more(tmp_path: Path) -> None:
    async with warm(tmp_path, ", max_tasks: 2") as harness:
        pids = [(await finished(harness, f"t{n}"))["pid"] for n in range(5)]
    assert pids[0] == pids[1] != pids[2] == pids[3] != pids[4]


async def test_a_process_that_has_grown_too_much_runs_no_other_task(tmp_path: Path) -> None:
    async with warm(tmp_path, ", max_growth: 32MiB") as harness:
        pids = [(await finished(harness, f"t{n}", {"keep": 20_000_000}))["pid"] for n in range(4)]
    assert pids[0] == pids[1] == pids[2] != pids[3], "from the end of the first on: 20 MB, 40 MB"


async def test_a_thread_that_a_task_leaves_ends_the_process_and_is_named(tmp_path: Path) -> None:
    async with warm(tmp_path) as harness:
        do = "threading.Thread(target=time.sleep, args=(600,), name='lasts', daemon=True).start()"
        first = await finished(harness, "t0", {"do": do})
        written = await harness.messages(
            harness.topics.logs,
            "t0",
            lambda all_: any(each.source == "stderr" for each in of(all_, OutputWritten)),
        )
        assert (await finished(harness, "t1"))["pid"] != first["pid"]
    (line,) = [each.lines for each in of(written, OutputWritten) if each.source == "stderr"]
    assert line == [
        "trackside: no other task gets this process: threads that the task has left still run: lasts"
    ]


async def test_what_a_task_leaves_behind_is_gone_before_the_next_one_starts(tmp_path: Path) -> None:
    async with warm(tmp_path) as harness:
        await harness.run("t0", {"do": "trial.report(daemon())"}, task_type="a")
        left, end = await harness.pid("t0"), await harness.end("t0")
        assert end.leftovers == (f"{left} sleep 600",)
        assert end.result is not None
        second = await finished(harness, "t1", {"do": f"assert not os.path.exists('/proc/{left}')"})
    assert second["pid"] == end.result["pid"]


async def test_a_stop_amid_a_task_ends_the_process(tmp_path: Path) -> None:
    async with warm(tmp_path) as harness:
        first = await finished(harness, "t0")
        command = await harness.run("t1", {"tell_pid": True, "hang": True}, task_type="a")
        assert await harness.pid("t1") == first["pid"]
        await harness.stop(command)
        assert (await harness.end("t1")).end is AttemptEnd.CANCELLED
        assert not alive(first["pid"])
        assert (await finished(harness, "t2"))["pid"] != first["pid"]


async def test_a_task_that_finishes_though_it_was_stopped_ends_the_process_too(tmp_path: Path) -> None:
    """The signal may still be on its way: it must not meet the next task."""
    async with warm(tmp_path) as harness:
        first = await finished(harness, "t0")
        command = await harness.run("t1", {"tell_pid": True, "wait_for_stop": True}, task_type="a")
        await harness.pid("t1")
        await harness.stop(command)
        assert (await harness.end("t1")).end in (AttemptEnd.FINISHED, AttemptEnd.CANCELLED)
        assert (await finished(harness, "t2"))["pid"] != first["pid"]


async def test_a_device_that_another_type_gets_ends_the_process_that_waits_there(tmp_path: Path) -> None:
    async with warm(tmp_path) as harness:
        first = await finished(harness, "t0")
        other = await finished(
            harness, "t1", {"do": f"assert not os.path.exists('/proc/{first['pid']}')"}, task_type="b"
        )
        again = await finished(harness, "t2")
    assert len({first["pid"], other["pid"], again["pid"]}) == 3


async def test_each_slot_keeps_a_process_of_its_own(tmp_path: Path) -> None:
    async with warm(tmp_path) as harness:
        first = await finished(harness, "t0", device="cpu-0")
        command = await harness.run("t2", {"tell_pid": True, "hang": True}, task_type="a", device="cpu-0")
        await harness.pid("t2")
        other = await finished(harness, "t3", device="cpu-1")
        again = await finished(harness, "t4", device="cpu-1")
        assert first["pid"] != other["pid"] == again["pid"]
        await harness.stop(command)
        await harness.end("t2")


async def test_a_process_that_is_killed_while_it_waits_is_no_loss(tmp_path: Path) -> None:
    async with warm(tmp_path) as harness:
        first = await finished(harness, "t0")
        os.kill(first["pid"], signal.SIGKILL)
        assert wait_until_gone(first["pid"])
        await harness.run("t1", {}, task_type="a")
        end = await harness.end("t1")
        assert end.end in (AttemptEnd.FINISHED, AttemptEnd.LOST)
        assert (await finished(harness, "t2"))["pid"] != first["pid"]


async def test_a_worker_that_leaves_or_is_lost_leaves_no_process_that_waits(tmp_path: Path) -> None:
    async with warm(tmp_path) as harness:
        joined = await harness.joined()
        first = await finished(harness, "t0")
        await harness.declare_lost(joined.incarnation)
        again = await harness.joined(nth=2)
        assert not alive(first["pid"])
        second = await finished(harness, "t1", incarnation=again.incarnation)
    assert not alive(second["pid"])


async def test_a_task_that_trains_again_without_memory_is_the_last_of_its_process(
    tmp_path: Path,
) -> None:
    do = "runs.count('t1') < 2 and bytearray(2**50)"
    async with warm(tmp_path) as harness:
        first = await finished(harness, "t0")
        second = await finished(harness, "t1", {"do": do}, interrupts=1)
        third = await finished(harness, "t2")
    assert first["pid"] == second["pid"] != third["pid"]


async def test_what_a_killed_worker_had_in_a_warm_process_is_given_back(tmp_path: Path) -> None:
    """FM-11: `a` was the second task of its process, and the first one's end is not said again."""
    catalogue, data_dir = task_of(tmp_path, SCRIPT, WARM), tmp_path / "worker"
    requested = {"before": True, "tell_pid": True, "hang": True}
    with killable_worker(data_dir, requested, str(catalogue), "a") as process:
        incarnation, pid = next_line(process), int(next_line(process))
        process.kill()
        assert wait_until_gone(pid)
    harness, story = await events_after_restart(data_dir)
    end = story[-1]
    assert isinstance(end, AttemptEnded)
    assert (end.end, end.recovered, end.incarnation) == (AttemptEnd.LOST, True, incarnation)
    assert await harness.events_so_far("first") == []
    assert list((data_dir / "journal").iterdir()) == []


async def test_a_worker_killed_between_two_tasks_leaves_no_process_and_loses_no_result(
    tmp_path: Path,
) -> None:
    catalogue, data_dir = task_of(tmp_path, SCRIPT, WARM), tmp_path / "worker"
    with killable_worker(data_dir, {"tell_pid": True}, str(catalogue), "a") as process:
        next_line(process)
        pid = int(next_line(process))
        assert next_line(process) == "withheld"
        process.kill()
        assert wait_until_gone(pid)
    _, story = await events_after_restart(data_dir)
    end = story[-1]
    assert isinstance(end, AttemptEnded) and end.result is not None
    assert (end.end, end.recovered, end.result["pid"]) == (AttemptEnd.FINISHED, True, pid)


async def test_a_process_that_waits_makes_room_for_a_task_elsewhere(tmp_path: Path) -> None:
    async with warm(tmp_path, max_tasks=1) as harness:
        first = await finished(harness, "t0", device="cpu-0")
        other = await finished(harness, "t1", device="cpu-1", task_type="b", wait=True)
        assert not alive(first["pid"])
    assert other["pid"] != first["pid"]
