"""R5: the time from kill -9 of the worker until the next attempt, continued from a checkpoint, reports.

The reference is a cold start: the same kill of a worker without a task, and the first report of the same
task, which was submitted at that moment. Both wait for the supervisor, and until the forkserver of the worker
has imported torch.
"""

import asyncio
import os
import signal

from bench.command_latency import publish
from bench.fresh_stack import TOPICS
from bench.log_watch import LogWatch, watch_topic
from bench.measurements import Figure, Measurements, MissingError, check_count, percentile
from trackside.aggregates.batch.messages import BatchEnded, GroupSpec, SubmitTasks, TaskSpec
from trackside.contracts.artifacts import ArtifactSaved
from trackside.contracts.ids import new_id
from trackside.contracts.message import Event, Record
from trackside.contracts.resources import Retry, RetryPolicy
from trackside.contracts.tasks import AttemptEnded, MetricReported, TaskAssigned
from trackside.embedded.stack import Stack
from trackside.embedded.supervised import STEADY_AFTER_S
from trackside.eventlog.clock import monotonic_s
from trackside.eventlog.log import Log

RUNS = 3
"""How often each is measured; the medians are the figures."""
AGAIN = RetryPolicy(lost=Retry(times=3))
"""More than one: a task may be placed on a worker that was killed just now."""
HOPS: dict[str, type[Event]] = {"lost": AttemptEnded, "assigned": TaskAssigned, "reported": MetricReported}


async def measure(stack: Stack, log: Log) -> Measurements:
    """Kills a worker without a task, and one whose task has saved a checkpoint, several times."""
    colds: list[float] = []
    hops: dict[str, list[float]] = {hop: [] for hop in HOPS}
    async with watch_topic(log, TOPICS.events) as watch:
        for run in range(RUNS):
            stream_id = f"bench-resumed-{run}"
            start, began_s = await _kill(stack, watch)
            await publish(log, _batch(), stream_id, new_id())
            colds.append(await _until(watch, stream_id, start, MetricReported) - began_s)
            await _until(watch, stream_id, start, ArtifactSaved)
            start, began_s = await _kill(stack, watch)
            for hop, kind in HOPS.items():
                hops[hop].append(await _until(watch, stream_id, start, kind) - began_s)
            await _until(watch, stream_id, start, BatchEnded)
    cold_s, resumed_s = percentile(colds, 50), percentile(hops["reported"], 50)
    figure = Figure("R5", "worker killed -> resumed report", resumed_s, "s", cold_s, "killed idle -> report")
    counted = [check_count("resumed attempts", len(hops["reported"]), RUNS)]
    return Measurements([figure], counted, {"resumed_s": hops, "cold_start_s": colds})


async def _kill(stack: Stack, watch: LogWatch) -> tuple[int, float]:
    """Kills the worker once it has run for so long that its supervisor starts the next one soon.

    Returns how many records were seen until then, and when that was, s of the monotonic clock.
    """
    await asyncio.sleep(STEADY_AFTER_S)
    pid = stack.pid("worker")
    if pid is None:
        raise MissingError("the stack has no worker")
    os.kill(pid, signal.SIGKILL)
    return len(watch.seen), monotonic_s()


def _batch() -> SubmitTasks:
    return SubmitTasks(groups=[GroupSpec(tasks=[TaskSpec(task_type="resumed", retry=AGAIN)])])


async def _until(watch: LogWatch, stream_id: str, start: int, kind: type[Event]) -> float:
    """Returns when the first such event of a stream was read, s of the monotonic clock."""

    def fits(record: Record) -> bool:
        return isinstance(record.message, kind) and record.envelope.stream == stream_id

    return (await watch.until(fits, start=start)).at_s
