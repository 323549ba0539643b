"""Searches that are traced once for all tests of this folder."""

import asyncio
from collections.abc import Iterator

import pytest

from tests.integration.installed import processes, variables_of
from tests.integration.telemetry.traced import CATALOGUE, TASKS, VARIABLES, Traced, rows_of, run_all
from tests.otlp_receiver import otlp_receiver
from tests.service_processes import service_process
from tests.stack import Servers


@pytest.fixture(scope="module")
def traced(
    stack: Servers, module_database: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Traced]:
    """Runs two searches over all services and a standby dispatcher; all of them have ended."""
    folder = tmp_path_factory.mktemp("services")
    (folder / "climbing.py").write_text(TASKS)
    (folder / "catalogue.yaml").write_text(CATALOGUE)
    (folder / "store").mkdir()
    (folder / "standby").mkdir()
    with otlp_receiver() as receiver:
        variables = {
            **VARIABLES,
            "TRACKSIDE_STORE": str(folder / "store"),
            "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url,
        }
        catalogue = folder / "catalogue.yaml"
        with processes(stack, module_database, folder, catalogue, **variables) as (settings, running):
            standby = {"TRACKSIDE_INSTANCE": "standby", "TRACKSIDE_DISPATCHER_STANDBY": "true"}
            of_standby = {**variables_of(settings), **variables, **standby}
            with service_process("dispatcher", of_standby, folder / "standby"):
                running_all = run_all(settings, folder, variables, running["worker"], receiver)
                searches, records = asyncio.run(running_all)
            rows = asyncio.run(rows_of(module_database, [*searches]))
        unsampled = searches.pop("unsampled")
        assert len(unsampled.ends) == 1
        yield Traced(searches, records, receiver, rows)
