"""Rows of runs, their steps and gates, as the views give them, and as Grafana's node graph draws them."""

from collections.abc import Iterator, Sequence
from functools import partial

import pytest

from tests.integration.projections.harness import (
    TOPICS,
    Written,
    append,
    given_rows,
    log_of,
    query,
    write_points,
    write_rows,
)
from tests.integration.summaries.given import points
from tests.stack import Servers
from tests.unit.aggregates.run.given import RunLog, started, step
from tests.unit.domain.given import STREAM
from trackside.aggregates.run.messages import ApproveGate, RetryFailedSteps
from trackside.contracts.envelope.message import Record
from trackside.contracts.tasks.tasks import AttemptEnd
from trackside.replay.rebuild.rebuild import rebuild

RETRIED = """
SELECT step, state, generation, started_at >= ready_at FROM dashboards.steps WHERE generation > 0
ORDER BY number
"""
LOSSES = [3.0, 2.0, 2.5, 1.0]


def eventful() -> RunLog:
    """Returns the log of a run with a fan-out, a gate, a failure, and its continuation."""
    mirror = {
        "metrics": {"loss": "train_loss", "val/*": "validation"},
        "models": {"weights": "best"},
        "artifacts": {"*": "all"},
    }
    log = started(
        step("data", parameters={"rows": "${pipeline.rows}"}, stage="prepare"),
        step("train", "data", each=[1, 2], weight=2, mirror=mirror),
        step("check", "data"),
        step("ok", "train", gate={"message": "good enough?"}),
        step("tune", "ok", "check"),
        parameters={"rows": 3},
        schemas={"rows": {"type": "integer"}},
    )
    log.finish("data")
    log.finish("train.0", weights="model", notes="file")
    log.finish("train.1", end=AttemptEnd.FINISHED)
    log.finish("check", end=AttemptEnd.TIMED_OUT_RUN)
    log.command(ApproveGate(step="ok", actor="ada"))
    return log


async def write_run(records: Sequence[Record], dsn: str) -> None:
    await write_rows(await log_of(records), dsn)


@pytest.fixture(scope="module")
def ran(stack: Servers) -> Iterator[Written]:
    with given_rows(stack.postgres_dsn, lambda log: append(log, TOPICS, eventful().records)) as written:
        yield written


@pytest.fixture
def rows(ran: Written) -> str:
    return ran.dsn


async def test_steps_have_states_parameters_and_times(rows: str) -> None:
    """P28: the table of a run, with the parameters as they were resolved."""
    found = await query(rows, "SELECT step, state, items, parameters FROM steps ORDER BY number")
    assert found == [
        ("data", "succeeded", 1, '{"rows": 3}'),
        ("train", "succeeded", 2, "{}"),
        ("check", "timed_out", 1, "{}"),
        ("ok", "succeeded", 1, None),
        ("tune", "omitted", 0, "{}"),
    ]
    times = await query(
        rows,
        "SELECT step, waited_s >= 0, took_s >= 0, started_at >= ready_at, queued_at <= started_at "
        "FROM dashboards.steps ORDER BY number",
    )
    assert [row[0] for row in times if all(row[1:])] == ["data", "train", "check", "ok"]
    assert times[-1] == ("tune", None, None, None, None)


async def test_a_run_counts_its_steps_by_their_weight(rows: str) -> None:
    found = await query(
        rows, "SELECT status, ended_steps, failed_steps, open_steps, progress FROM dashboards.runs"
    )
    assert found == [("FAILED", 5, 1, 0, 1.0)]
    assert await query(rows, "SELECT step, state, actor FROM gates") == [("ok", "approved", "ada")]


async def test_the_node_graph_has_a_node_for_each_step_and_an_edge_for_each_need(rows: str) -> None:
    """P27, P37: states as colours and text."""
    nodes = await query(
        rows,
        "SELECT id, subtitle, mainstat, color, arc__succeeded, arc__failed, arc__waiting FROM run_nodes "
        "WHERE run_id = $1 ORDER BY id",
        STREAM,
    )
    assert nodes == [
        ("check", "noop", "timed_out", "red", 0, 1, 0),
        ("data", "noop", "succeeded", "blue", 1, 0, 0),
        ("ok", "gate", "succeeded", "blue", 1, 0, 0),
        ("train", "noop", "succeeded", "blue", 1, 0, 0),
        ("tune", "noop", "omitted", "lightsteelblue", 0, 0, 1),
    ]
    edges = await query(rows, "SELECT source, target FROM run_edges WHERE run_id = $1 ORDER BY 1, 2", STREAM)
    assert edges == [("check", "tune"), ("data", "check"), ("data", "train"), ("ok", "tune"), ("train", "ok")]


async def test_every_point_of_a_mirrored_metric_is_there_also_when_it_falls(ran: Written) -> None:
    """P38: under the name of the definition; a wildcard keeps the names; other metrics are not there."""
    train, data = (partial(points, f"{STREAM}.{task}", stream=STREAM) for task in ("train.0", "data"))
    written = (train("loss", LOSSES), train("val/acc", [0.5, 0.6]), train("hidden", [1.0]))
    asked = "SELECT name, training_step, value FROM run_metrics WHERE run_id = $1 ORDER BY 1, 2"
    with ran.copied() as copied:
        await write_points(copied.dsn, *written, data("loss", [9.0]))
        found = await query(copied.dsn, asked, STREAM)
    expected = [("train_loss", at, value) for at, value in enumerate(LOSSES)]
    assert found == [*expected, ("val/acc", 0, 0.5), ("val/acc", 1, 0.6)]


async def test_mirrored_artifacts_and_models_have_the_names_of_the_definition(rows: str) -> None:
    """P38."""
    found = await query(rows, "SELECT mirrored_as, name, artifact FROM run_artifacts ORDER BY 1, 2")
    assert found == [
        ("artifact", "notes", "notes"),
        ("artifact", "weights", "weights"),
        ("model", "best", "weights"),
    ]


async def test_times_of_a_step_that_was_retried_are_those_of_its_new_tasks(ran: Written) -> None:
    told = eventful()
    known = len(told.records)
    told.command(RetryFailedSteps())
    told.finish("check.g1")
    told.finish("tune.g1")
    with ran.copied() as copied:
        await append(copied.log, TOPICS, told.records[known:])
        await write_rows(copied.log, copied.dsn)
        found = await query(copied.dsn, RETRIED)
        assert found == [("check", "succeeded", 1, True), ("tune", "succeeded", 1, True)]
        report = await rebuild(copied.log, TOPICS, copied.dsn)
    assert report.equal and report.rows["steps"] == 5 and report.rows["gates"] == 1
