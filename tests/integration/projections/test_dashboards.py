"""Dashboards in deploy/grafana ask for what is there: metrics by name, rows as Grafana may see them."""

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import asyncpg
import pytest
import yaml

from tests.house.source import ROOT
from tests.polling import poll_until
from tests.stack import Servers
from trackside.projections.migrate import migrate
from trackside.projections.postgres import database as opened_database
from trackside.telemetry.names import METRICS

GRAFANA = ROOT / "deploy" / "grafana"
DASHBOARDS = sorted((GRAFANA / "dashboards").glob("*.json"))
WAITING = "SELECT EXISTS (SELECT FROM pg_locks WHERE pg_backend_pid() = ANY(pg_blocking_pids(pid)))"
NODE_FIELD = re.compile(r"\b[a-z]+(?:__[a-z]+)?\b")
NAME = re.compile(r"\btrackside_\w+")


def targets(path: Path) -> list[dict[str, Any]]:
    """Returns all that a dashboard asks for, the choices of its variables among it."""
    board = json.loads(path.read_text("utf-8"))
    asked = [target for panel in board["panels"] for target in panel["targets"]]
    return asked + [
        {"datasource": variable["datasource"], "rawSql": variable["query"]}
        for variable in board["templating"]["list"]
    ]


def as_postgres_gets_it(statement: str) -> str:
    """Puts in what Grafana does: a range of time, and what was chosen."""
    statement = re.sub(
        r"\$__timeFilter\((\w+)\)", r"\1 BETWEEN now() - interval '1 hour' AND now()", statement
    )
    statement = re.sub(r"\(\$(task|search)\)", "('a', 'b')", statement)
    return re.sub(r"\$\{(run|job):sqlstring\}", "'a'", statement)


def test_what_is_chosen_is_quoted() -> None:
    """Grafana quotes the values of a variable of several values; that of another only if it is told to."""
    for path in DASHBOARDS:
        for variable in json.loads(path.read_text("utf-8"))["templating"]["list"]:
            plain = re.compile(rf"\${variable['name']}\b|\${{{variable['name']}}}")
            asked = " ".join(target.get("rawSql", "") for target in targets(path))
            assert variable["multi"] or not plain.search(asked), path.name


def test_the_graph_of_runs_has_the_frames_and_fields_of_a_node_graph() -> None:
    """P27: nodes and edges are told apart by their names; the shares of an arc have a colour each."""
    board = json.loads((GRAFANA / "dashboards" / "runs.json").read_text("utf-8"))
    [graph] = [panel for panel in board["panels"] if panel["type"] == "nodeGraph"]
    asked = {target["refId"]: set(NODE_FIELD.findall(target["rawSql"])) for target in graph["targets"]}
    assert asked["edges"] >= {"id", "source", "target"}
    assert asked["nodes"] >= {"id", "title", "subtitle", "mainstat", "secondarystat", "detail__parameters"}
    arcs = {name for name in asked["nodes"] if name.startswith("arc__")}
    assert arcs == {override["matcher"]["options"] for override in graph["fieldConfig"]["overrides"]}


def exposed() -> set[str]:
    """Returns the names under which Prometheus has the metrics."""
    found = set()
    for metric in METRICS:
        name = metric.prometheus_name
        endings = {"counter": ["_total"], "gauge": [""], "histogram": ["_bucket", "_sum", "_count"]}
        found |= {name + ending for ending in endings[metric.kind]}
    return found


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_every_metric_of_a_dashboard_exists(path: Path) -> None:
    asked = {name for target in targets(path) for name in NAME.findall(target.get("expr", ""))}
    assert asked and asked - exposed() == set()


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
async def test_grafana_s_role_may_ask_what_a_dashboard_asks(path: Path, database: str) -> None:
    async with opened_database(database) as opened:
        await opened.transaction(migrate)
    connection = await asyncpg.connect(database)
    try:
        await connection.execute((GRAFANA / "reader.sql").read_text("utf-8"))
        await connection.execute("SET ROLE grafana")
        await connection.execute("SET search_path = dashboards")
        statements = [target["rawSql"] for target in targets(path) if "rawSql" in target]
        for statement in statements:
            await connection.fetch(as_postgres_gets_it(statement))
        assert statements
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await connection.fetch("TABLE trackside.tasks")
    finally:
        await connection.close()


def test_every_source_that_a_dashboard_asks_is_provisioned() -> None:
    sources = yaml.safe_load((GRAFANA / "provisioning/datasources/trackside.yaml").read_text("utf-8"))
    known = {(source["type"], source["uid"]) for source in sources["datasources"]}
    asked = {
        (target["datasource"]["type"], target["datasource"]["uid"])
        for path in DASHBOARDS
        for target in targets(path)
    }
    assert asked == known


def test_prometheus_scrapes_every_service_of_the_compose_file() -> None:
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text("utf-8"))["services"]
    ours = {f"{name}:8080" for name, service in services.items() if service.get("command") == [name]}
    settings = yaml.safe_load((ROOT / "deploy/prometheus/prometheus.yml").read_text("utf-8"))
    assert set(settings["scrape_configs"][0]["static_configs"][0]["targets"]) == ours


async def test_grafana_s_role_may_be_made_from_two_databases_at_once(database: str, stack: Servers) -> None:
    """A role is of the whole server: one who makes it must not fail because another is doing so."""
    statement = (GRAFANA / "reader.sql").read_text("utf-8")
    async with opened_database(database) as opened:
        await opened.transaction(migrate)

    async def made() -> None:
        connection = await asyncpg.connect(stack.postgres_dsn)
        try:
            await connection.execute(statement)
        finally:
            await connection.close()

    first = await asyncpg.connect(database)
    try:
        async with first.transaction():
            await first.execute(statement)
            second = asyncio.create_task(made())

            async def done_or_waiting() -> bool:
                return second.done() or await first.fetchval(WAITING)

            await poll_until(done_or_waiting)
        await second
    finally:
        await first.close()
