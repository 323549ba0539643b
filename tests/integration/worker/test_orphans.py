"""Processes that a task leaves behind."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.integration.worker.given import DAEMON, started, task_of
from tests.integration.worker.harness import (
    alive,
    events_after_restart,
    killable_worker,
    next_line,
    wait_until_gone,
)
from trackside.contracts.tasks import AttemptEnd, AttemptEnded
from trackside.worker.attempts.device_locks import try_lock
from trackside.worker.child.orphans import kill_marked

HIDES = "say(report=daemon())\n"
STAYS_IN_GROUP = "import subprocess\nsay(report=subprocess.Popen(['sleep', '600']).pid)\n"


@pytest.mark.parametrize("script", [HIDES, STAYS_IN_GROUP])
async def test_what_a_program_leaves_behind_is_killed_and_named(tmp_path: Path, script: str) -> None:
    """FM-16: also one with a session of its own, no environment and no file open."""
    async with started(tmp_path, task_of(tmp_path, script)) as harness:
        await harness.run("t", task_type="a")
        pid, end = await harness.pid("t"), await harness.end("t")
        assert (end.end, end.leftovers) == (AttemptEnd.FINISHED, (f"{pid} sleep 600",))
        assert not alive(pid)


async def test_what_a_killed_program_leaves_behind_is_killed_and_named(tmp_path: Path) -> None:
    """FM-16: the process of the task that would have named it is killed first."""
    script = f"{HIDES}signal.signal(signal.SIGTERM, signal.SIG_IGN)\ntime.sleep(600)"
    async with started(tmp_path, task_of(tmp_path, script), stop_grace_s=0.5) as harness:
        command = await harness.run("t", task_type="a")
        pid = await harness.pid("t")
        await harness.stop(command)
        end = await harness.end("t")
        assert (end.end, end.leftovers) == (AttemptEnd.CANCELLED, (f"{pid} sleep 600",))
        assert wait_until_gone(pid)
        await harness.run("u", task_type="a")
        await harness.pid("u")


async def test_what_a_class_leaves_behind_is_killed_and_named(tmp_path: Path) -> None:
    """FM-16."""
    script = "from trackside.sdk import Task, trial\nclass Leaves(Task):\n    def train(self, device):\n"
    catalogue = task_of(tmp_path, f"{script}        trial.report(daemon())", "entry: 'script:Leaves'")
    async with started(tmp_path, catalogue) as harness:
        await harness.run("t", task_type="a")
        pid, end = await harness.pid("t"), await harness.end("t")
        assert (end.end, end.leftovers) == (AttemptEnd.FINISHED, (f"{pid} sleep 600",))
        assert not alive(pid)


POOLS = """
import multiprocessing
from trackside.sdk import Task
class Pools(Task):
    def load(self):
        self.pool = multiprocessing.get_context("fork").Pool(2)
    def train(self, device):
        self.pool.map(abs, [1, 2])
        return {"pids": [each.pid for each in multiprocessing.active_children()]}
"""


async def test_a_pool_of_processes_is_no_leftover_but_ends_too(tmp_path: Path) -> None:
    async with started(tmp_path, task_of(tmp_path, POOLS, "entry: 'script:Pools'")) as harness:
        await harness.run("t", task_type="a")
        end = await harness.end("t")
        assert (end.end, end.leftovers) == (AttemptEnd.FINISHED, ())
        assert end.result is not None and len(end.result["pids"]) == 2
        assert not any(alive(pid) for pid in end.result["pids"])


async def test_a_program_dies_with_its_worker_and_what_it_left_is_named_by_the_successor(
    tmp_path: Path,
) -> None:
    """FM-16: no process was left to adopt it; its environment says which task it belongs to."""
    marked = DAEMON.replace(", {})", ", dict(os.environ))")
    script = f"{marked}\nleft = daemon()\nsay(report=os.getpid())\nsay(report=left)\ntime.sleep(600)"
    catalogue, data_dir = task_of(tmp_path, script), tmp_path / "worker"
    with killable_worker(data_dir, {}, str(catalogue), "a") as process:
        incarnation, pid = next_line(process), int(next_line(process))
        process.kill()
        assert wait_until_gone(pid)
    _, story = await events_after_restart(data_dir)
    end = story[-1]
    assert isinstance(end, AttemptEnded)
    assert (end.end, end.recovered, end.incarnation) == (AttemptEnd.LOST, True, incarnation)
    (name,) = end.leftovers
    assert name.endswith(" sleep 600") and wait_until_gone(int(name.split()[0]))


def test_what_has_the_mark_or_the_lock_is_found_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "cpu-0.lock"
    lock = try_lock(path)
    assert lock is not None
    mine, free = f"{tmp_path}/1", f"{tmp_path}/2"
    with (
        subprocess.Popen(["sleep", "601"], env={"TRACKSIDE_WORKDIR": mine}) as first,
        subprocess.Popen(["sleep", "602"], env={}, pass_fds=[lock]) as second,
        subprocess.Popen(["sleep", "603"], env={"TRACKSIDE_WORKDIR": f"{mine}1"}) as other,
    ):
        found = kill_marked([mine, free], [str(path)])
        assert found == {mine: [f"{first.pid} sleep 601"], str(path): [f"{second.pid} sleep 602"]}
        assert (first.wait(), second.wait(), other.poll()) == (-signal.SIGKILL, -signal.SIGKILL, None)
        other.kill()
    os.close(lock)
