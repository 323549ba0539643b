"""The time from a command that instructs a task to `InstructionAcknowledged`, on an idle stack.

Between the two are five appends, each of which another process reads: the command, two decisions of the
dispatcher, the device command of the scheduler, and the event of the worker.
"""

from functools import partial
from itertools import pairwise

from bench.command_latency import FIRST, publish
from bench.fresh_stack import TOPICS
from bench.log_watch import LogWatch, watch_topic
from bench.measurements import Figure, Goal, Measurements, check_count, percentile
from trackside.aggregates.batch.messages import BatchEnded, GroupSpec, StopTasks, SubmitTasks, TaskSpec
from trackside.contracts.envelope.ids import new_id
from trackside.contracts.envelope.message import Record
from trackside.contracts.streams.commands import CommandReceived
from trackside.contracts.tasks.instructions import (
    InstructionAcknowledged,
    InstructionGiven,
    InstructTask,
    TaskReady,
)
from trackside.contracts.tasks.resources import Resources, ServicePolicy
from trackside.eventlog.clock import monotonic_s
from trackside.eventlog.log import Log

STREAM, NAME = "bench-service", "echo"
TASK = f"{STREAM}.1.{NAME}"
HOPS = ("received", "given", "in the task", "acknowledged")


async def measure(log: Log, count: int, append_ms: list[float]) -> Measurements:
    """Starts a service without devices, gives it `count` instructions one after another, and stops it."""
    task = TaskSpec(name=NAME, task_type="echo", resources=Resources(devices=0), service=ServicePolicy())
    async with watch_topic(log, TOPICS.events) as watch:
        await publish(log, SubmitTasks(groups=[GroupSpec(tasks=[task])]), STREAM, new_id())
        await watch.until(lambda record: isinstance(record.message, TaskReady))
        hops = [await _instruct(log, watch, number) for number in range(1, FIRST + count + 1)][FIRST:]
        await publish(log, StopTasks(), STREAM, new_id())
        await watch.until(_is_over)
    times = [sum(each) for each in hops]
    p50, p99 = percentile(times, 50), percentile(times, 99)
    what = "append + read back"
    figures = [
        Figure(
            "I1", "instruction -> acknowledged, p50", p50, "ms", percentile(append_ms, 50), what,
            Goal(20, 10, at_most=True),
        ),
        Figure("I1", "the same, p99", p99, "ms", percentile(append_ms, 99), "the same, p99"),
    ]  # fmt: skip
    medians = {hop: percentile([each[at] for each in hops], 50) for at, hop in enumerate(HOPS)}
    details = {"instruction_ms": times, "instruction_hops_ms": medians}
    return Measurements(figures, [check_count("instructions acknowledged", len(times), count)], details)


async def _instruct(log: Log, watch: LogWatch, number: int) -> list[float]:
    """Sends one instruction; returns the time of each hop, ms, as an outside consumer and the task see it."""
    command_id = new_id()
    began_s, start = monotonic_s(), len(watch.seen)
    await publish(log, InstructTask(task=TASK, body={"n": number}), STREAM, command_id)
    received = await watch.until(partial(_is_of, CommandReceived, command_id), start=start)
    given = await watch.until(partial(_is_of, InstructionGiven, command_id), start=start)
    done = await watch.until(partial(_acknowledges, number), start=start)
    assert isinstance(done.record.message, InstructionAcknowledged)
    moments_s = [began_s, received.at_s, given.at_s, done.record.message.detail["at_s"], done.at_s]
    return [1_000 * (late - early) for early, late in pairwise(moments_s)]


def _is_of(kind: type[CommandReceived] | type[InstructionGiven], command_id: str, record: Record) -> bool:
    return isinstance(record.message, kind) and record.message.command_id == command_id


def _acknowledges(number: int, record: Record) -> bool:
    message = record.message
    return isinstance(message, InstructionAcknowledged) and message.number == number


def _is_over(record: Record) -> bool:
    return isinstance(record.message, BatchEnded) and record.envelope.stream == STREAM
