"""A worker is killed again and again, with the settings that users have: its tasks run on, and are adopted.

On a busy machine a start of the worker takes longer than its lease.
"""

import asyncio
import os
import signal
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.chaos.harness import start_stack
from tests.chaos.starvation import busy_loops
from tests.polling import poll_until_sync
from trackside.aggregates.search.messages import StartSearch
from trackside.contracts.envelope.message import Message
from trackside.contracts.envelope.topics import Topics
from trackside.contracts.tasks.tasks import AttemptAdopted, AttemptEnd, AttemptEnded, MetricReported
from trackside.embedded import stack
from trackside.embedded.supervision import spares
from trackside.eventlog.kafka.kafka_log import KafkaLog
from trackside.eventlog.keys.decode import decode
from trackside.sdk import Client

pytestmark = [pytest.mark.long, pytest.mark.timeout(3_600)]
KILLS, TASKS = 5, 4
LOOPS = 16 * len(os.sched_getaffinity(0))
LIMIT_S = 1_200.0
AS_USERS_HAVE = {
    "TRACKSIDE_SCHEDULER_LEASE_S": "10",
    "TRACKSIDE_SCHEDULER_HEARTBEAT_S": "1",
    "TRACKSIDE_SCHEDULER_RESEND_S": "2",
    "TRACKSIDE_WORKER_HEARTBEAT_INTERVAL_S": "1",
    "TRACKSIDE_WORKER_KEEP_TASKS_S": "60",
    "TRACKSIDE_WORKER_PRELOAD": "torch",
}
TRAINING = """
import os, time
from pathlib import Path
from trackside.sdk import Task, trial
class Stepping(Task):
    def train(self, device):
        step = 0
        while not Path(trial.parameters()["released"]).exists():
            trial.report(os.getpid(), step)
            step += 1
            time.sleep(0.5)
"""
SEARCH = {
    "task_type": "stepping",
    "tuner": {"name": "random"},
    "max_trials": TASKS,
    "concurrency": TASKS,
    "retry": {"lost": {"times": 100}},
}


class Trainings:
    """What the log says of the attempts of some tasks, as far as it was read."""

    def __init__(self, log: KafkaLog, topics: Topics) -> None:
        places = [(topics.events.name, partition) for partition in range(topics.events.partitions)]
        self._reader = log.reader(dict.fromkeys(places, 0))
        self.adoptions = 0
        self.ends: list[tuple[int, AttemptEnd]] = []
        self.steps: dict[tuple[str, int], list[tuple[int, int]]] = defaultdict(list)
        """By task and attempt the steps in the order of the log, each with the process that has made it."""

    @property
    def lost(self) -> int:
        return sum(end is AttemptEnd.LOST for _, end in self.ends)

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(LIMIT_S):
            while not holds():
                for entry in await self._reader.read(1.0):
                    if (record := decode(entry)) is not None:
                        self._take(record.message)

    def _take(self, message: Message) -> None:
        match message:
            case AttemptAdopted():
                self.adoptions += 1
            case AttemptEnded():
                self.ends.append((message.attempt, message.end))
            case MetricReported():
                made = message.step, int(message.value or 0)
                if made not in self.steps[message.task_id, message.attempt]:  # an adoption says all again
                    self.steps[message.task_id, message.attempt].append(made)

    async def until_over(self, runs: int) -> None:
        """Waits until so many runs have ended that lost their worker: by an adoption, or as lost."""
        await self.until(lambda: self.adoptions + self.lost >= runs)

    async def until_all_train(self) -> None:
        """Waits until each task has made three more steps, or three in a later attempt."""
        before = {key: len(steps) for key, steps in self.steps.items()}

        def holds() -> bool:
            more = {key[0] for key, steps in self.steps.items() if len(steps) >= before.get(key, 0) + 3}
            return len(more) == TASKS

        await self.until(holds)


@contextmanager
def trained_on(folder: Path, leash: Path) -> Iterator[stack.Stack]:
    """Runs a stack as `trackside up` does, with as many slots as there are tasks."""
    (folder / "stepping.py").write_text(TRAINING)
    catalogue = folder / "catalogue.yaml"
    catalogue.write_text("tasks: {stepping: {entry: 'stepping:Stepping', path: .}}\n")
    home = folder / ".trackside"
    try:
        yield start_stack(
            home,
            leash,
            catalogue=catalogue,
            slots=TASKS,
            variables=AS_USERS_HAVE,
            spares_after_s=spares.AFTER_S,
        )
    finally:
        stack.stop(home)


def kill_worker(running: stack.Stack) -> None:
    """Kills the worker, once there is one."""
    poll_until_sync(lambda: running.pid("worker") is not None)
    pid = running.pid("worker")
    assert pid is not None
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize(("loops", "least"), [(0, KILLS * TASKS), (LOOPS, 18)])
async def test_a_killed_worker_s_tasks_are_adopted(
    tmp_path: Path, leash: Path, loops: int, least: int
) -> None:
    released = tmp_path / "released"
    with trained_on(tmp_path, leash) as running, busy_loops(loops, apart=True):
        topics = Topics()
        async with (
            Client(running.bootstrap_servers, topics.prefix) as client,
            KafkaLog(running.bootstrap_servers, "test") as log,
        ):
            others = {"x": {"type": "uniform", "low": 0.0, "high": 1.0}}
            space = {"released": {"type": "choice", "values": [str(released)]}, **others}
            command = StartSearch.model_validate({**SEARCH, "space": space})
            await client.send(command, "s", timeout_s=LIMIT_S)
            trainings = Trainings(log, topics)
            await trainings.until_all_train()
            for number in range(1, KILLS + 1):
                kill_worker(running)
                await trainings.until_over(number * TASKS)
                await trainings.until_all_train()
            released.touch()
            await trainings.until(
                lambda: sum(end is AttemptEnd.FINISHED for _, end in trainings.ends) == TASKS
            )
    print(f"{trainings.adoptions} of {KILLS * TASKS} adopted, {trainings.lost} lost")  # noqa: T201
    assert trainings.adoptions >= least
    for key, steps in trainings.steps.items():
        assert [step for step, _ in steps] == list(range(len(steps))), f"{key} has trained a step again"
        assert len({pid for _, pid in steps}) == 1, f"{key} was begun twice"
