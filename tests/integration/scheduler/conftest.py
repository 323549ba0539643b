"""A running scheduler for each module."""

from collections.abc import Iterator

import pytest

from tests.integration.installed import prepared, variables_of
from tests.service_processes import ServiceProcess, service_process
from tests.stack import Servers
from trackside.eventlog.settings.settings import StackSettings


@pytest.fixture(scope="module")
def settings(stack: Servers, module_tables: str) -> StackSettings:
    return prepared(stack, module_tables)


@pytest.fixture(scope="module")
def scheduler(settings: StackSettings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    """Runs a scheduler whose workers need not send heartbeats."""
    variables = {
        **variables_of(settings),
        "TRACKSIDE_SCHEDULER_LEASE_S": "3600",
        "TRACKSIDE_SCHEDULER_HEARTBEAT_S": "0.2",
        "TRACKSIDE_SCHEDULER_RESEND_S": "0.3",
    }
    with service_process("scheduler", variables, tmp_path_factory.mktemp("scheduler")) as running:
        yield running
