"""The start time of a task: from its command in the device's topic until `train` is called.

A worker on its own topics gets one command after another, each after the last task has ended: so this is the
time of the worker itself, without scheduling and without waiting for cores.
"""

from functools import partial

from bench.extra_worker import LIMIT_S, WORKER, JoinedWorker, worker
from bench.fresh_stack import TASK_TYPE, WARM_TYPE
from bench.log_watch import LogWatch, watch_topic
from bench.measurements import Figure, Measurements, MissingError, check_count, percentile
from trackside.contracts.envelope.message import Record
from trackside.contracts.envelope.topics import Topics
from trackside.contracts.tasks.device_commands import RunTask
from trackside.contracts.tasks.tasks import AttemptEnded
from trackside.embedded.stack import Stack
from trackside.eventlog.clock import monotonic_s
from trackside.eventlog.keys.record_writer import RecordWriter
from trackside.eventlog.log import Log

DEVICE = "cpu-0"
FIRST = 10
"""The first starts, which are not counted: code and connections are cold."""


async def measure(stack: Stack, log: Log, count: int, append_ms: float) -> Measurements:
    """Measures `count` starts of new processes, and of a process that runs task after task."""
    topics = Topics("bench-starts.")
    await log.ensure(topics.shared)
    found = Measurements()
    async with worker(stack, log, topics) as joined, watch_topic(log, topics.events) as watch:
        for task_type, title in ((TASK_TYPE, "a new process"), (WARM_TYPE, "a warm one")):
            times = [
                await _start(log, topics, watch, joined, f"{task_type}-{number}", task_type)
                for number in range(FIRST + count)
            ][FIRST:]
            what = "append + read back"
            found.figures += [
                Figure("-", f"command -> train, {title}, p50", percentile(times, 50), "ms", append_ms, what),
                Figure("-", "the same, p99", percentile(times, 99), "ms", append_ms, what),
            ]
            found.counted.append(check_count(f"starts of {title}", len(times), count))
            found.details[f"start_ms_{task_type}"] = times
    return found


async def _start(
    log: Log, topics: Topics, watch: LogWatch, joined: JoinedWorker, task_id: str, task_type: str
) -> float:
    command = RunTask(
        stream=f"start-{task_id}",
        task_id=task_id,
        task_type=task_type,
        attempt=1,
        placement=1,
        incarnation=joined.incarnation,
        parameters={},
        device_ids=[DEVICE],
    )
    record = RecordWriter("scheduler", "bench").single(command.stream, command)
    start = len(watch.seen)
    began_s = monotonic_s()
    await log.append(topics.device(WORKER, DEVICE).name, 0, [record])
    ended = (await watch.until(partial(_is_end, task_id), LIMIT_S, start)).record.message
    if not isinstance(ended, AttemptEnded) or ended.result is None:
        raise MissingError(f"{task_id} has no result: {ended}")
    return float(ended.result["trains_s"] - began_s) * 1000


def _is_end(task_id: str, record: Record) -> bool:
    return isinstance(record.message, AttemptEnded) and record.message.task_id == task_id
