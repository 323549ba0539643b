"""T1: a batch of tasks that do nothing, in warm processes, on more and more slots of one host."""

from bench.command_latency import publish
from bench.cpu_time import spent, tree_ms, used_ms
from bench.extra_worker import worker
from bench.fresh_stack import TOPICS, WARM_TYPE
from bench.log_watch import watch_topic
from bench.measurements import Figure, Goal, Measurements, MissingError
from bench.smallest import size
from trackside.aggregates.batch.messages import BatchEnded, SubmitTasks
from trackside.contracts.envelope.ids import new_id
from trackside.contracts.envelope.message import Record
from trackside.contracts.tasks.tasks import AttemptEnd, AttemptEnded, TaskSubmitted
from trackside.embedded.stack import Stack
from trackside.eventlog.log import Log

LIMIT_S = 120.0
WARM_UP = size(500, 20)
"""How many tasks are not counted: they warm the broker and the processes, and teach how long a task takes."""
SLOTS = (1, 2, 8, 32, 128)[: size(5, 2)]
QUEUE = "bench-slots"


async def measure(stack: Stack, log: Log, tasks: int) -> Measurements:
    """Measures one batch of `tasks` for each number of slots, each on a worker of its own."""
    figures, cpu_ms, counted = list[Figure](), dict[str, dict[str, float]](), list[str]()
    for slots in SLOTS:
        async with worker(stack, log, TOPICS, slots=slots, queues=QUEUE) as joined:
            await _run(log, max(WARM_UP, 50 * slots))
            before, worker_ms = used_ms(stack), tree_ms(joined.pid)
            rate = await _run(log, tasks)
            each = spent(before, used_ms(stack), tasks)
            each["worker"] = (tree_ms(joined.pid) - worker_ms) / tasks
        goal = Goal(140, 600) if slots == 2 else None
        figures.append(Figure("T1", f"no-op tasks of a batch, {slots} slots", rate, "/s", goal=goal))
        cpu_ms[f"{slots} slots"] = each
        counted.append(f"{slots} slots: {tasks:,} tasks finished; {sum(each.values()):.1f} ms of a task")
    return Measurements(figures, counted, {"batch_cpu_ms": cpu_ms})


async def _run(log: Log, tasks: int) -> float:
    """Runs a batch; returns how many tasks ended in a second, from the first submission to the last end."""
    stream_id = f"batch-{new_id()[:8]}"
    listed = [{"task_type": WARM_TYPE, "parameters": {}} for _ in range(tasks)]
    command = SubmitTasks.model_validate({"queue": QUEUE, "groups": [{"tasks": listed}]})
    async with watch_topic(log, TOPICS.events) as watch:
        await publish(log, command, stream_id, new_id())
        try:
            await watch.until(lambda record: _is_over(record, stream_id), LIMIT_S)
        except TimeoutError as error:
            raise MissingError(f"a batch of {tasks} tasks did not end within {LIMIT_S:g} s") from error
        records = [seen.record for seen in watch.seen if seen.record.envelope.stream == stream_id]
    ends = [record for record in records if isinstance(record.message, AttemptEnded)]
    finished = {e.message.task_id for e in ends if e.message.end is AttemptEnd.FINISHED}  # type: ignore[attr-defined]
    if len(finished) != tasks:
        raise MissingError(f"{len(finished)} of {tasks} tasks finished")
    first_ms = next(record.append_time_ms for record in records if isinstance(record.message, TaskSubmitted))
    return tasks * 1000 / max(1, ends[-1].append_time_ms - first_ms)


def _is_over(record: Record, stream_id: str) -> bool:
    return isinstance(record.message, BatchEnded) and record.envelope.stream == stream_id
