"""Dashboards in deploy/grafana ask for rows that Grafana may see, from sources that are provisioned."""

import asyncio
import json
import re
from pathlib import Path

import asyncpg
import pytest
import yaml
from boards.answers import Target, targets
from boards.expansion import View, sql

from tests.house.source import ROOT
from tests.polling import poll_until
from tests.stack import Servers
from trackside.projections.database.postgres import Connection
from trackside.projections.database.postgres import database as opened_database
from trackside.projections.database.reader_login import ensure_login
from trackside.projections.database.settings import READER

GRAFANA = ROOT / "deploy" / "grafana"
DASHBOARDS = sorted((GRAFANA / "dashboards").glob("*.json"))
WAITING = "SELECT EXISTS (SELECT FROM pg_locks WHERE pg_backend_pid() = ANY(pg_blocking_pids(pid)))"
NODE_FIELD = re.compile(r"\b[a-z]+(?:__[a-z]+)?\b")


VIEW = View(
    from_s=1_700_000_000,
    to_s=1_700_003_600,
    variables=dict.fromkeys(("search", "task", "run", "batch", "job", "metric", "contains", "tag"), "a")
    | {"worker": ["a", "b"], "instance": ["a"], "service": ["a"]},
)


async def login(connection: Connection) -> None:
    await ensure_login(connection, "secret")


def targets_of(path: Path) -> list[Target]:
    """Returns all queries of a dashboard, those of its variables and annotations among them."""
    return list(targets(json.loads(path.read_text("utf-8"))))


def test_the_graph_of_runs_has_the_frames_and_fields_of_a_node_graph() -> None:
    """P27: nodes and edges are told apart by their names; the shares of an arc have a colour each."""
    board = json.loads((GRAFANA / "dashboards" / "batches.json").read_text("utf-8"))
    [graph] = [panel for panel in board["panels"] if panel["type"] == "nodeGraph"]
    asked = {target["refId"]: set(NODE_FIELD.findall(target["rawSql"])) for target in graph["targets"]}
    assert asked["edges"] >= {"id", "source", "target"}
    assert asked["nodes"] >= {"id", "title", "subtitle", "mainstat", "secondarystat", "detail__parameters"}
    arcs = {name for name in asked["nodes"] if name.startswith("arc__")}
    assert arcs == {override["matcher"]["options"] for override in graph["fieldConfig"]["overrides"]}


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
async def test_grafana_s_role_may_ask_what_a_dashboard_asks(path: Path, module_tables: str) -> None:
    async with opened_database(module_tables) as opened:
        await opened.transaction(login)
    connection = await asyncpg.connect(module_tables)
    try:
        await connection.execute(f"SET ROLE {READER}")
        await connection.execute("SET search_path = dashboards")
        statements = [sql(target.text, VIEW) for target in targets_of(path) if target.is_sql]
        for statement in statements:
            await connection.fetch(statement)
        assert statements
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await connection.fetch("TABLE trackside.tasks")
    finally:
        await connection.close()


def test_every_source_that_a_dashboard_asks_is_provisioned() -> None:
    sources = yaml.safe_load((GRAFANA / "provisioning/datasources/trackside.yaml").read_text("utf-8"))
    known = {(source["type"], source["uid"]) for source in sources["datasources"]}
    asked = {
        (panel["datasource"]["type"], panel["datasource"]["uid"])
        for path in DASHBOARDS
        for panel in json.loads(path.read_text("utf-8"))["panels"]
        if "targets" in panel
    }
    assert asked == known


def test_prometheus_scrapes_every_service_of_the_compose_file() -> None:
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text("utf-8"))["services"]
    ours = {f"{name}:8080" for name, service in services.items() if service.get("command") == [name]}
    settings = yaml.safe_load((ROOT / "deploy/prometheus/prometheus.yml").read_text("utf-8"))
    [found] = settings["scrape_configs"][0]["dns_sd_configs"]
    assert {f"{name}:{found['port']}" for name in found["names"]} == ours


async def test_grafana_s_role_may_be_made_from_two_databases_at_once(tables: str, stack: Servers) -> None:
    """A role is of the whole server: one who makes it must not fail because another is doing so."""

    async def made() -> None:
        async with opened_database(stack.postgres_dsn) as other:
            await other.transaction(login)

    first = await asyncpg.connect(tables)
    try:
        async with first.transaction():
            await login(first)
            second = asyncio.create_task(made())

            async def done_or_waiting() -> bool:
                return second.done() or await first.fetchval(WAITING)

            await poll_until(done_or_waiting)
        await second
    finally:
        await first.close()
