"""A run of twelve steps with a fan-out, a repetition, a gate, a child search and a retry; what drives it."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

from tests.integration.dispatcher.harness import Publisher, valid_search
from trackside.aggregates.run.messages import RunEnded
from trackside.aggregates.run.step_messages import GateOpened
from trackside.contracts.envelope.message import Json, Record
from trackside.contracts.streams.commands import CommandAccepted
from trackside.contracts.tasks.tasks import TaskSubmitted

START = "trackside.start-pipeline-run.v1"
RETRY = "trackside.retry-failed-steps.v1"
APPROVE = "trackside.approve-gate.v1"
APPROVAL: Json = {"step": "release", "inputs": {"stage": "production"}, "actor": "ada"}


def noop(name: str, *needs: str, **fields: Any) -> Json:
    return {"name": name, "task_type": "noop", "needs": list(needs), **fields}


TWELVE: Json = {
    "name": "twelve",
    "parameters": {"folds": {"type": "array", "default": [3, 5, 7]}},
    "steps": [
        noop("prepare"),
        noop("clean", parameters={"rows": "${prepare.result.rows}"}),
        noop("fit", "clean", each="${pipeline.folds}", at_once=2, parameters={"fold": "${item}"}),
        noop("mean", parameters={"values": "${fit.result}"}),
        noop("refine", "mean", repeat={"until": "result.rows > 1", "times": 3}),
        {"name": "tune", "kind": "search", "needs": ["clean"], "spec": valid_search()},
        noop("flaky", "clean"),
        noop("after", "flaky"),
        noop("unwanted", "clean", when="clean.result.rows > 1000"),
        {"name": "release", "needs": ["refine", "tune"], "gate": {"form": {"stage": {"type": "string"}}}},
        noop("publish", parameters={"stage": "${release.result.stage}"}),
        noop("report", needs={"all_ended": ["publish", "after", "unwanted"]}),
    ],
    "outputs": {"stage": "${release.result.stage}"},
}


def result_of(task: str) -> Json:
    """Returns what a task of the run finds: the same in each run."""
    number = task.rpartition(".")[2]
    return {"rows": int(number) + 1 if number.isdecimal() else 5}


class Workers:
    """Ends each task of a run as it is submitted: flaky fails the first time, all others finish."""

    def __init__(self, publisher: Publisher) -> None:
        self._publisher = publisher
        self.ended: list[str] = []

    async def end_until(self, stream: str, wanted: Callable[[Record], bool]) -> Record:
        """Ends tasks of a stream and of its children until a record is there."""
        while True:
            record = await self._publisher.until(lambda record: wanted(record) or self.is_new(record, stream))
            if wanted(record):
                return record
            await self.end(record)

    def is_new(self, record: Record, stream: str) -> bool:
        """Returns whether a record submits a task of the run, or of a child, that was not ended yet."""
        is_task = isinstance(record.message, TaskSubmitted) and record.envelope.stream.startswith(stream)
        return is_task and getattr(record.message, "task_id", "") not in self.ended

    async def end(self, record: Record) -> None:
        """Lets a task that was submitted be placed, run and end."""
        stream, task_id = record.envelope.stream, str(getattr(record.message, "task_id", ""))
        end = "failed" if task_id.endswith(".flaky") else "finished"
        result = result_of(task_id.removeprefix(f"{stream}."))
        await self._publisher.finish(stream, task_id, end=end, result=result)
        self.ended.append(task_id)


def of_run(stream: str, kind: type) -> Callable[[Record], bool]:
    """Returns what finds the events of a type in a stream."""
    return lambda record: record.envelope.stream == stream and isinstance(record.message, kind)


async def drive(publisher: Publisher, stream: str, on_event: Callable[[int], Awaitable[None]]) -> None:
    """Starts the run, ends its tasks, approves its gate and retries it once, until it is over again.

    Calls `on_event` with the number of each event of the run, from 1.
    """
    workers, handled = Workers(publisher), set[tuple[int, int]]()
    events, asked = 0, set[str]()
    await publisher.publish(json.dumps({"pipeline": TWELVE}).encode(), START, stream)
    while True:
        record = await publisher.until(
            lambda record: (
                record.envelope.stream.startswith(stream) and (record.partition, record.offset) not in handled
            )
        )
        handled.add((record.partition, record.offset))
        if record.envelope.stream == stream:
            events += 1
            await on_event(events)
        if workers.is_new(record, stream):
            await workers.end(record)
        message = record.message
        if isinstance(message, GateOpened) and "gate" not in asked:
            asked.add("gate")
            assert isinstance(await publisher.say(APPROVAL, APPROVE, stream), CommandAccepted)
        if isinstance(message, RunEnded) and message.revival == 1:
            return
        if isinstance(message, RunEnded) and "retry" not in asked:
            asked.add("retry")
            assert isinstance(await publisher.say({}, RETRY, stream), CommandAccepted)
