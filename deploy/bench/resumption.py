"""R5: a worker, and then the process of its task, are killed with kill -9: until the task reports again.

The next worker adopts the task. The task itself is tried again, from its checkpoint. The reference is a cold
start: the same kill of a worker without a task, and the first report of the same task, which was submitted at
that moment. It waits for the supervisor, and until the forkserver of the worker has imported torch.
"""

import asyncio
import os
import signal
from collections.abc import Iterable
from dataclasses import dataclass

from bench.command_latency import publish
from bench.fresh_stack import TOPICS
from bench.log_watch import LogWatch, SeenRecord, watch_topic
from bench.measurements import Figure, Measurements, MissingError, check_count, percentile
from trackside.aggregates.batch.messages import BatchEnded, GroupSpec, SubmitTasks, TaskSpec
from trackside.contracts.envelope.ids import new_id
from trackside.contracts.envelope.message import Event, Record
from trackside.contracts.tasks.artifacts import ArtifactSaved
from trackside.contracts.tasks.resources import Retry, RetryPolicy
from trackside.contracts.tasks.tasks import AttemptAdopted, AttemptEnded, MetricReported, TaskAssigned
from trackside.embedded.stack import Stack
from trackside.embedded.supervision.supervised import STEADY_AFTER_S
from trackside.eventlog.clock import monotonic_s
from trackside.eventlog.log import Log

RUNS = 3
"""How often each is measured; the medians are the figures."""
AGAIN = RetryPolicy(lost=Retry(times=3), failed=Retry(times=1))
"""Lost more than once: a task may be placed on a worker that was killed just now."""
ADOPTED: dict[str, type[Event]] = {"adopted": AttemptAdopted, "reported": MetricReported}
RESUMED: dict[str, type[Event]] = {
    "ended": AttemptEnded,
    "assigned": TaskAssigned,
    "reported": MetricReported,
}
COLD = "killed idle -> report"


async def measure(stack: Stack, log: Log) -> Measurements:
    """Kills a worker without a task, one whose task has saved a checkpoint, and that task, several times."""
    cold_s: list[float] = []
    adopted_s: list[dict[str, float]] = []
    resumed_s: list[dict[str, float]] = []
    async with watch_topic(log, TOPICS.events) as watch:
        for run in range(RUNS):
            stream_id = f"bench-resumed-{run}"
            killed = await _kill_worker(stack, watch)
            await publish(log, _batch(), stream_id, new_id())
            first, _ = await _events(watch, stream_id, killed, MetricReported, ArtifactSaved)
            cold_s.append(first.at_s - killed.at_s)
            killed = await _kill_worker(stack, watch)
            hops = await _events(watch, stream_id, killed, *ADOPTED.values())
            adopted_s.append(_seconds(ADOPTED, hops, killed))
            killed = _kill(watch, _pid(first.record))
            *hops, _ = await _events(watch, stream_id, killed, *RESUMED.values(), BatchEnded)
            resumed_s.append(_seconds(RESUMED, hops, killed))
    rows = {"worker killed -> adopted task reports": adopted_s, "task killed -> resumed report": resumed_s}
    cold_p50_s = percentile(cold_s, 50)
    figures = [
        Figure("R5", what, percentile([run["reported"] for run in runs], 50), "s", cold_p50_s, COLD)
        for what, runs in rows.items()
    ]
    counted = [check_count("adopted and resumed attempts", len(resumed_s), RUNS)]
    details = {"adopted_s": adopted_s, "resumed_s": resumed_s, "cold_start_s": cold_s}
    return Measurements(figures, counted, details)


@dataclass(frozen=True, slots=True)
class _Kill:
    """When a process was killed, s of the monotonic clock, and how many records were seen until then."""

    at_s: float
    seen: int


async def _kill_worker(stack: Stack, watch: LogWatch) -> _Kill:
    """Kills the worker once it has run for so long that its supervisor starts the next one soon."""
    await asyncio.sleep(STEADY_AFTER_S)
    pid = stack.pid("worker")
    if pid is None:
        raise MissingError("the stack has no worker")
    return _kill(watch, pid)


def _kill(watch: LogWatch, pid: int) -> _Kill:
    os.kill(pid, signal.SIGKILL)
    return _Kill(monotonic_s(), len(watch.seen))


def _batch() -> SubmitTasks:
    return SubmitTasks(groups=[GroupSpec(tasks=[TaskSpec(task_type="resumed", retry=AGAIN)])])


def _seconds(names: Iterable[str], hops: list[SeenRecord], killed: _Kill) -> dict[str, float]:
    return {name: hop.at_s - killed.at_s for name, hop in zip(names, hops, strict=True)}


def _pid(reported: Record) -> int:
    """Returns the pid of a task's process, which it reports."""
    assert isinstance(reported.message, MetricReported)
    assert reported.message.value is not None
    return int(reported.message.value)


async def _events(watch: LogWatch, stream_id: str, after: _Kill, *kinds: type[Event]) -> list[SeenRecord]:
    """Returns the first event of each kind about a stream, each after the one before."""
    found: list[SeenRecord] = []
    start = after.seen
    for kind in kinds:

        def fits(record: Record, kind: type[Event] = kind) -> bool:
            return isinstance(record.message, kind) and record.envelope.stream == stream_id

        found.append(await watch.until(fits, start=start))
        start = watch.seen.index(found[-1], start) + 1
    return found
