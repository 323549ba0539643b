"""A run of twelve steps over Kafka and Postgres; the test plays worker, and the person at the gate."""

import json

import pytest

from tests.integration.dispatcher.harness import Publisher, RunningDispatcher
from tests.integration.dispatcher.twelve_steps import (
    APPROVAL,
    APPROVE,
    RETRY,
    START,
    TWELVE,
    Workers,
    noop,
    of_run,
)
from tests.integration.projections.harness import query
from tests.polling import poll_until
from trackside.aggregates.run.messages import RunEnded, RunStatus
from trackside.aggregates.run.step_messages import GateOpened, StepEnded
from trackside.contracts.envelope.ids import new_id
from trackside.contracts.envelope.message import Record
from trackside.contracts.streams.commands import CommandAccepted

ROWS = """
SELECT (SELECT status FROM dashboards.runs WHERE run_id = $1),
    (SELECT jsonb_object_agg(step, state)::text FROM dashboards.steps WHERE run_id = $1),
    (SELECT array_agg(state) FROM dashboards.gates WHERE run_id = $1)
"""
"""The status of a run, the states of its steps, and those of its gates."""


@pytest.mark.timeout(180)
async def test_a_run_of_twelve_steps_ends_after_a_kill_a_gate_and_a_retry(
    dispatcher: RunningDispatcher, publisher: Publisher
) -> None:
    stream = new_id("r")
    workers = Workers(publisher)
    assert isinstance(await publisher.say({"pipeline": TWELVE}, START, stream), CommandAccepted)
    await workers.end_until(stream, of_run(stream, StepEnded))
    dispatcher.service.restart()
    await workers.end_until(stream, of_run(stream, GateOpened))
    answer = await publisher.refused({"step": "release", "inputs": {"stage": 3}}, APPROVE, stream)
    assert (answer.code, answer.path) == ("bad_parameters", "$.inputs.stage")
    assert isinstance(await publisher.say(APPROVAL, APPROVE, stream), CommandAccepted)
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
        [(status, steps, gates)] = await query(dispatcher.settings.postgres_dsn, ROWS, stream)
        return (status, json.loads(str(steps or "{}")), gates) == ("SUCCEEDED", states, ["approved"])

    await poll_until(has_rows)


async def test_a_run_that_is_wrong_is_refused_with_all_its_problems_and_the_next_is_accepted(
    publisher: Publisher,
) -> None:
    wrong = {"steps": [noop("a", "b"), noop("a", parameters={"x": "${c.result}"}), noop("d", when="d >")]}
    answer = await publisher.refused({"pipeline": wrong}, START, new_id("r"))
    found = {problem.code for problem in answer.problems}
    assert found == {"duplicate_step", "unknown_step", "bad_expression"}
    assert isinstance(await publisher.say({"pipeline": TWELVE}, START, new_id("r")), CommandAccepted)
