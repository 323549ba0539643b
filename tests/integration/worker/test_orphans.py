"""Processes that a task leaves behind."""

from pathlib import Path

import pytest

from tests.integration.worker.given import DAEMON, SHARES, TaskType, shared_types, started, task_of
from tests.integration.worker.harness import WorkerHarness, alive
from tests.integration.worker.processes import events_after_restart, killed_worker, recovered, wait_until_gone
from tests.integration.worker.saved import CLASS, class_of
from trackside.contracts.tasks.tasks import AttemptEnd

HIDES = "say(report=daemon())\n"
STAYS_IN_GROUP = "import subprocess\nsay(report=subprocess.Popen(['sleep', '600']).pid)\n"
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
LEAVES = {
    "program": TaskType(HIDES),
    "group": TaskType(STAYS_IN_GROUP),
    "class": TaskType(class_of("trial.report(daemon())"), CLASS),
}
pytestmark = SHARES
worker = shared_types(LEAVES | {"pools": TaskType(POOLS, "entry: 'script:Pools'")})


@pytest.mark.parametrize("kind", LEAVES)
async def test_what_a_program_leaves_behind_is_killed_and_named(harness: WorkerHarness, kind: str) -> None:
    """FM-16: also one with a session of its own, no environment and no file open."""
    await harness.run("t", task_type=kind)
    pid, end = await harness.pid("t"), await harness.end("t")
    assert (end.end, end.leftovers) == (AttemptEnd.FINISHED, (f"{pid} sleep 600",))
    assert not alive(pid)


async def test_a_pool_of_processes_is_no_leftover_but_ends_too(harness: WorkerHarness) -> None:
    end = await harness.ended("t", task_type="pools")
    assert (end.end, end.leftovers) == (AttemptEnd.FINISHED, ())
    assert end.result is not None and len(end.result["pids"]) == 2
    assert not any(alive(pid) for pid in end.result["pids"])


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


@pytest.mark.long
async def test_a_program_dies_with_its_worker_and_what_it_left_is_named_by_the_successor(
    tmp_path: Path,
) -> None:
    """FM-16: no process was left to adopt it; its environment says which task it belongs to."""
    marked = DAEMON.replace(", {})", ", dict(os.environ))")
    script = f"{marked}\nleft = daemon()\nsay(report=os.getpid())\nsay(report=left)\ntime.sleep(600)"
    catalogue, data_dir = task_of(tmp_path, script), tmp_path / "worker"
    incarnation, _ = killed_worker(data_dir, {}, str(catalogue), "a")
    _, story = await events_after_restart(data_dir)
    (name,) = recovered(story, AttemptEnd.LOST, incarnation).leftovers
    assert name.endswith(" sleep 600") and wait_until_gone(int(name.split()[0]))
