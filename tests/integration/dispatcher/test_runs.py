"""A run of twelve steps over Kafka and Postgres; the test plays worker, and the person at the gate."""

import asyncio
from collections.abc import Callable
from typing import Any

import asyncpg
import pytest

from tests.integration.dispatcher.harness import Publisher, RunningDispatcher, valid_search
from tests.polling import poll_until
from trackside.aggregates.run.messages import RunEnded, RunStatus
from trackside.aggregates.run.step_messages import GateOpened, StepEnded
from trackside.contracts.commands import CommandAccepted, CommandRefused
from trackside.contracts.ids import new_id
from trackside.contracts.message import Json, Record
from trackside.contracts.tasks import AttemptEnded, TaskAccepted, TaskAssigned, TaskSubmitted
from trackside.contracts.topics import partition_of
from trackside.eventlog.kafka import KafkaLog
from trackside.eventlog.record_writer import RecordWriter

START = "trackside.start-pipeline-run.v1"
RETRY = "trackside.retry-failed-steps.v1"
APPROVE = "trackside.approve-gate.v1"


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


class Workers:
    """Ends each task of some streams as it is submitted: in the way that the test wants."""

    def __init__(self, publisher: Publisher, end_of: Callable[[str], str]) -> None:
        self._publisher = publisher
        self._end_of = end_of
        self.ended: list[str] = []

    async def end_until(self, stream: str, wanted: Callable[[Record], bool]) -> Record:
        """Ends tasks of a stream and of its children until a record is there."""
        while True:
            record = await self._publisher.until(
                lambda record: wanted(record) or self._is_new(record, stream)
            )
            if wanted(record):
                return record
            assert isinstance(record.message, TaskSubmitted)
            await self._end(record.envelope.stream, record.message.task_id)

    def _is_new(self, record: Record, stream: str) -> bool:
        is_task = isinstance(record.message, TaskSubmitted) and record.envelope.stream.startswith(stream)
        return is_task and getattr(record.message, "task_id", "") not in self.ended

    async def _end(self, stream: str, task_id: str) -> None:
        token = {"task_id": task_id, "attempt": 1, "placement": 1, "incarnation": "i-1"}
        placed = {"worker_id": "w1", "device_ids": ["cpu-0"], "seen": 0}
        done = {**token, "end": self._end_of(task_id), "result": {"rows": len(self.ended)}}
        life = [
            ("scheduler", TaskAssigned.model_validate({**token, **placed})),
            ("worker", TaskAccepted.model_validate(token)),
            ("worker", AttemptEnded.model_validate(done)),
        ]
        dispatcher = self._publisher.dispatcher
        events = dispatcher.topics.events
        records = [RecordWriter(role, "t").single(stream, event) for role, event in life]
        async with KafkaLog(dispatcher.settings.kafka_bootstrap, "test") as log:
            await log.append(events.name, partition_of(stream, events.partitions), records)
        self.ended.append(task_id)


def of_run(stream: str, kind: type) -> Callable[[Record], bool]:
    return lambda record: record.envelope.stream == stream and isinstance(record.message, kind)


async def rows(dsn: str, stream: str) -> tuple[str, dict[str, str], list[str]]:
    """Returns the status of a run, the states of its steps, and those of its gates."""
    connection = await asyncpg.connect(dsn)
    try:
        run = await connection.fetchval("SELECT status FROM dashboards.runs WHERE run_id = $1", stream)
        steps = await connection.fetch("SELECT step, state FROM dashboards.steps WHERE run_id = $1", stream)
        gates = await connection.fetch("SELECT state FROM dashboards.gates WHERE run_id = $1", stream)
    finally:
        await connection.close()
    return run or "", {row["step"]: row["state"] for row in steps}, [row["state"] for row in gates]


@pytest.mark.timeout(180)
async def test_a_run_of_twelve_steps_ends_after_a_kill_a_gate_and_a_retry(
    dispatcher: RunningDispatcher, publisher: Publisher
) -> None:
    stream = new_id("r")
    workers = Workers(publisher, lambda task: "failed" if task.endswith(".flaky") else "finished")
    assert isinstance(await publisher.say({"pipeline": TWELVE}, START, stream), CommandAccepted)
    await workers.end_until(stream, of_run(stream, StepEnded))
    dispatcher.service.kill()
    dispatcher.service.start()
    await workers.end_until(stream, of_run(stream, GateOpened))
    answer = await publisher.say({"step": "release", "inputs": {"stage": 3}}, APPROVE, stream)
    assert isinstance(answer, CommandRefused)
    assert (answer.code, answer.path) == ("bad_parameters", "$.inputs.stage")
    approval = {"step": "release", "inputs": {"stage": "production"}, "actor": "ada"}
    assert isinstance(await publisher.say(approval, APPROVE, stream), CommandAccepted)
    end = (await workers.end_until(stream, of_run(stream, RunEnded))).message
    assert end == RunEnded(status=RunStatus.FAILED, causes=["flaky"], outputs={"stage": "production"})
    assert isinstance(await publisher.say({}, RETRY, stream), CommandAccepted)

    def is_second_end(record: Record) -> bool:
        return of_run(stream, RunEnded)(record) and getattr(record.message, "revival", 0) == 1

    end = (await workers.end_until(stream, is_second_end)).message
    assert end == RunEnded(revival=1, status=RunStatus.SUCCEEDED, outputs={"stage": "production"})
    assert len(workers.ended) == len(set(workers.ended))
    assert [name for name in workers.ended if name.endswith(".g1")] == [
        f"{stream}.{name}.g1" for name in ("flaky", "after", "report")
    ]
    states = {step["name"]: "succeeded" for step in TWELVE["steps"]} | {"unwanted": "skipped"}

    async def has_rows() -> bool:
        return await rows(dispatcher.settings.postgres_dsn, stream) == ("SUCCEEDED", states, ["approved"])

    await poll_until(has_rows)


async def test_a_run_that_is_wrong_is_refused_with_all_its_problems_and_the_next_is_accepted(
    publisher: Publisher,
) -> None:
    wrong = {"steps": [noop("a", "b"), noop("a", parameters={"x": "${c.result}"}), noop("d", when="d >")]}
    answer = await publisher.say({"pipeline": wrong}, START, new_id("r"))
    assert isinstance(answer, CommandRefused)
    found = {problem.code for problem in answer.problems}
    assert found == {"duplicate_step", "unknown_step", "bad_expression"}
    assert isinstance(await publisher.say({"pipeline": TWELVE}, START, new_id("r")), CommandAccepted)


async def test_commands_for_what_is_no_run_are_refused(publisher: Publisher) -> None:
    for wire_type in (RETRY, "trackside.abort-pipeline-run.v1"):
        answer = await publisher.say({}, wire_type, new_id("r"))
        assert isinstance(answer, CommandRefused)
        assert answer.code == "unknown_run"
    await asyncio.wait_for(publisher.assert_well(), 60)
