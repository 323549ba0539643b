"""Fan-outs of 1,000 and 10,000 items, submitted to a queue that no worker serves, and a run that is shown."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import asyncpg

from bench.fresh_stack import TASK_TYPE
from bench.measurements import Figure, Goal, MissingError
from bench.pipelines_runs import until, wide
from bench.smallest import size
from trackside.aggregates.batch.messages import BatchEnded, BatchStarted, StopTasks, SubmitTasks
from trackside.aggregates.run.messages import AbortPipelineRun, RunEnded, StartPipelineRun
from trackside.aggregates.run.step_messages import StepReady
from trackside.contracts.envelope.ids import new_id
from trackside.contracts.envelope.message import Command, Json, Message, Record
from trackside.contracts.tasks.tasks import TaskSubmitted
from trackside.embedded.stack import Stack
from trackside.eventlog.clock import monotonic_s
from trackside.eventlog.log import Log

QUEUE = "bench-nobody"
FEW, EARLY, MANY = size(1_000, 50), size(2_000, 100), size(10_000, 200)
SHOWN_RUNS = 5
LIMIT_S = 240.0
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
SHOW = "import sys; from trackside.cli.app import main; sys.argv[0] = 'trackside'; sys.exit(main())"
ENDED = "SELECT count(*) FROM trackside.runs WHERE run_id = $1 AND ended_ms IS NOT NULL"


class _Submissions:
    """Counts submitted tasks, and notes the dispatcher's memory as it does."""

    def __init__(self, stack: Stack, expected: int) -> None:
        self._statm = Path(f"/proc/{stack.status.processes['dispatcher'].pid}/statm")
        self._expected = expected
        self._count = 0
        self.before_mb = self._mb()
        self.early_mb = self.end_mb = 0.0

    def _mb(self) -> float:
        return int(self._statm.read_text().split()[1]) * PAGE_BYTES / 1e6

    def is_last(self, message: Message) -> bool:
        """Returns whether a message is the last submission."""
        self._count += isinstance(message, TaskSubmitted)
        if self._count == EARLY and not self.early_mb:
            self.early_mb = self._mb()
        if self._count < self._expected:
            return False
        self.end_mb = self._mb()
        return True


async def measure(stack: Stack, log: Log) -> list[Figure]:
    """Measures a batch and a fan-out of 1,000, one of 10,000, and `trackside show` of 1,000 steps."""
    batch_s, _ = await _submitted(stack, log, _batch(FEW), FEW, BatchStarted, StopTasks())
    few_s, _ = await _submitted(stack, log, _fan_out(FEW), FEW, StepReady, AbortPipelineRun())
    many_s, memory = await _submitted(stack, log, _fan_out(MANY), MANY, StepReady, AbortPipelineRun())
    small_s, large_s = await _shown_s(stack, log, 2), await _shown_s(stack, log, FEW)
    return [
        Figure(
            "D2", "fan-out of 1,000, submitted", few_s, "s", batch_s, "batch of 1,000",
            Goal(2, batch_s, at_most=True),
        ),
        Figure("D3", "fan-out of 10,000, submitted", many_s, "s", 10 * few_s, "ten of 1,000"),
        Figure("D3", "memory of the dispatcher then", memory.end_mb, "MB", memory.early_mb, "after 2,000"),
        Figure("D3", "the same, after 2,000", memory.early_mb, "MB", memory.before_mb, "before"),
        Figure(
            "D6", "run of 1,000 steps, shown", large_s, "s", small_s, "run of 2 steps",
            Goal(0.5, 0.5, at_most=True),
        ),
    ]  # fmt: skip


def _batch(size: int) -> Command:
    tasks = [{"task_type": TASK_TYPE, "parameters": {"n": at}} for at in range(size)]
    return SubmitTasks.model_validate({"queue": QUEUE, "groups": [{"tasks": tasks}]})


def _fan_out(size: int) -> Command:
    step: Json = {
        "name": "each",
        "task_type": TASK_TYPE,
        "queue": QUEUE,
        "each": "${pipeline.items}",
        "parameters": {"n": "${item.n}"},
    }
    pipeline: Json = {"parameters": {"items": {"type": "array"}}, "steps": [step]}
    parameters: Json = {"items": [{"n": at} for at in range(size)]}
    return StartPipelineRun.model_validate({"pipeline": pipeline, "parameters": parameters})


async def _submitted(
    stack: Stack, log: Log, command: Command, size: int, first: type[Message], stop: Command
) -> tuple[float, _Submissions]:
    """Returns the seconds from the first event of a kind to the last submission, by the log's clock."""
    stream, submissions = f"bench-{new_id()[:8]}", _Submissions(stack, size)
    records = await until(log, command, stream, submissions.is_last, LIMIT_S)
    began = next(each for each in records if isinstance(each.message, first))
    await _stop(log, stream, stop)
    return (records[-1].append_time_ms - began.append_time_ms) / 1000, submissions


async def _stop(log: Log, stream: str, stop: Command) -> list[Record]:
    def is_end(message: Message) -> bool:
        return isinstance(message, RunEnded | BatchEnded)

    return await until(log, stop, stream, is_end, LIMIT_S)


async def _shown_s(stack: Stack, log: Log, steps: int) -> float:
    """Returns the seconds that `trackside show` takes, the best of some; its rows are there."""
    stream = f"bench-{new_id()[:8]}"
    command = StartPipelineRun.model_validate({"pipeline": {"steps": wide(steps, TASK_TYPE, queue=QUEUE)}})
    submissions = _Submissions(stack, steps)
    await until(log, command, stream, submissions.is_last, LIMIT_S)
    await _stop(log, stream, AbortPipelineRun())
    connection = await asyncpg.connect(stack.postgres_dsn)
    try:
        async with asyncio.timeout(LIMIT_S):
            while not await connection.fetchval(ENDED, stream):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
    finally:
        await connection.close()
    return min([await asyncio.to_thread(_show_s, stack, stream) for _ in range(SHOWN_RUNS)])


def _show_s(stack: Stack, stream: str) -> float:
    variables = {
        **os.environ,
        "TRACKSIDE_KAFKA_BOOTSTRAP": stack.bootstrap_servers,
        "TRACKSIDE_POSTGRES_DSN": stack.postgres_dsn,
    }
    began = monotonic_s()
    shown = subprocess.run(
        [sys.executable, "-c", SHOW, "show", stream], env=variables, capture_output=True, text=True
    )
    seconds = monotonic_s() - began
    if shown.returncode or stream not in shown.stdout:
        raise MissingError(f"trackside show {stream} ended with {shown.returncode}: {shown.stderr[-500:]}")
    return seconds
