"""Runs of pipelines on a stack: published, waited for, counted; their steps by the log's clock."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bench.command_latency import publish
from bench.fresh_stack import TOPICS
from bench.log_watch import watch_topic
from bench.measurements import MissingError, check_count
from trackside.aggregates.run.messages import RunEnded, RunStarted, RunStatus, StartPipelineRun
from trackside.aggregates.run.step_messages import StepEnded, StepState
from trackside.contracts.envelope.ids import new_id
from trackside.contracts.envelope.message import Command, Json, Message, Record
from trackside.contracts.streams.commands import CommandRefused
from trackside.contracts.tasks.tasks import AttemptEnded, TaskSubmitted
from trackside.eventlog.log import Log


def chain(steps: int, task_type: str, parameters: Json | None = None) -> list[Json]:
    """Returns steps one after another."""
    own: Json = {"task_type": task_type, "parameters": parameters or {}}
    needs: list[Json] = [{}, *({"needs": [f"s{at - 1}"]} for at in range(1, steps))]
    return [{"name": f"s{at}", **own, **needs[at]} for at in range(steps)]


def wide(steps: int, task_type: str, **fields: object) -> list[Json]:
    """Returns steps that need nothing."""
    return [{"name": f"s{at}", "task_type": task_type, **fields} for at in range(steps)]


@dataclass(frozen=True, slots=True)
class RunRecords:
    """All records of a run that has succeeded."""

    run: str
    records: list[Record]

    @property
    def seconds(self) -> float:
        """From RunStarted to RunEnded."""
        return (self._at(RunEnded) - self._at(RunStarted)) / 1000

    def _at(self, kind: type[Message]) -> int:
        return next(each.append_time_ms for each in self.records if isinstance(each.message, kind))

    @property
    def hops_ms(self) -> list[float]:
        """From the end of each step's attempt to the submission of the next step's task, in a chain."""
        ended = {
            each.message.task_id: each.append_time_ms
            for each in self.records
            if isinstance(each.message, AttemptEnded)
        }
        submitted = [each for each in self.records if isinstance(each.message, TaskSubmitted)]
        return [
            float(each.append_time_ms - ended[f"{self.run}.s{at}"])
            for at, each in enumerate(submitted[1:])
            if isinstance(each.message, TaskSubmitted)
        ]

    @property
    def train_s(self) -> float:
        """How long `train` took in all steps together, by the clock of the tasks."""
        results = [
            each.message.result or {} for each in self.records if isinstance(each.message, AttemptEnded)
        ]
        return sum(float(result["ended_s"] - result["trains_s"]) for result in results)


async def run(log: Log, pipeline: Json, limit_s: float) -> RunRecords:
    """Runs a pipeline to its end; raises MissingError unless each step succeeds, once."""
    name = f"bench-{new_id()[:8]}"
    command = StartPipelineRun.model_validate({"pipeline": pipeline})
    records = await until(log, command, name, lambda message: isinstance(message, RunEnded), limit_s)
    ends = [each.message for each in records if isinstance(each.message, RunEnded)]
    if ends[0].status is not RunStatus.SUCCEEDED:
        raise MissingError(f"run {name} ended as {ends[0].status}: {ends[0].causes[:10]}")
    steps = len(pipeline["steps"])
    ended = sum(isinstance(m, StepEnded) and m.status is StepState.SUCCEEDED for m in messages(records))
    attempts = sum(isinstance(m, AttemptEnded) for m in messages(records))
    check_count(f"steps of {name} that succeeded", ended, steps)
    check_count(f"attempts of {name}", attempts, steps)
    return RunRecords(name, records)


def messages(records: Sequence[Record]) -> list[Message]:
    """Returns the messages of records."""
    return [each.message for each in records]


async def until(
    log: Log, command: Command, stream: str, fits: Callable[[Message], bool], limit_s: float
) -> list[Record]:
    """Publishes a command and returns the records of its stream up to the first message that fits.

    Raises MissingError if it is refused, or nothing fits within the limit.
    """
    found: list[Record] = []

    def ends(record: Record) -> bool:
        if record.envelope.stream != stream:
            return False
        if isinstance(record.message, CommandRefused):
            raise MissingError(f"{stream} was refused: {record.message.problems[:3]}")
        found.append(record)
        return fits(record.message)

    async with watch_topic(log, TOPICS.events) as watch:
        await publish(log, command, stream, new_id())
        try:
            await watch.until(ends, limit_s)
        except TimeoutError as error:
            raise MissingError(f"{stream}: {len(found)} events within {limit_s:g} s, not the last") from error
    return found
