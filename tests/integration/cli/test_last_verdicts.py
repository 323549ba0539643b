"""Hyperband on real processes: tasks that report nine values at once and end race with each verdict."""

import secrets
from collections.abc import Iterator

import pytest

from tests.integration.installed import changes, installation
from tests.stack import Servers
from trackside.aggregates.search.messages import SearchEnded, StartSearch, TrialEnded
from trackside.eventlog.settings import StackSettings
from trackside.sdk.client import Client

TRIALS = 12
CURVES = [[(number * 7 % TRIALS) / TRIALS + step / 1_000 for step in range(9)] for number in range(TRIALS)]
SEARCH = {
    "task_type": "noop",
    "max_trials": TRIALS,
    "concurrency": 1,
    "seed": 7,
    "direction": "maximize",
    "space": {"reports": {"type": "choice", "values": CURVES}},
    "tuner": {"name": "batch"},
    "assessor": {"name": "hyperband", "options": {"min_resource": 1, "max_resource": 9}},
}


@pytest.fixture(scope="module")
def settings(
    stack: Servers, module_database: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[StackSettings]:
    with installation(stack, module_database, tmp_path_factory.mktemp("services")) as settings:
        yield settings


async def ends(settings: StackSettings) -> list[tuple[int, str, float | None]]:
    """Runs the search; gives how each trial has ended."""
    search, found = f"race-{secrets.token_hex(3)}", []
    async with Client(settings.kafka_bootstrap, settings.topic_prefix) as client:
        await client.publish(StartSearch.model_validate(SEARCH), search)
    async for record, _ in changes(settings, search):
        message = record.message
        if isinstance(message, TrialEnded):
            found.append((message.trial, message.status.value, message.value))
        if isinstance(message, SearchEnded):
            break
    return sorted(found)


async def test_equal_searches_end_equally_however_fast_their_tasks_end(settings: StackSettings) -> None:
    found = [await ends(settings) for _ in range(3)]
    assert found[0] == found[1] == found[2]
    assert len(found[0]) == TRIALS
    assert {status for _, status, _ in found[0]} == {"SUCCEEDED", "EARLY_STOPPED"}
