"""What makes an installation ready for its services, before they start."""

import asyncio
import os
import sys

import pytest

from tests.integration.installed import prepared
from tests.stack import Servers
from trackside.contracts.envelope.topics import Topics
from trackside.eventlog.kafka.kafka_log import KafkaLog
from trackside.projections.database import postgres

CLOSED = "127.0.0.1:1"
"""An address that no server has."""


async def set_up(*options: str, kafka: str, prefix: str) -> tuple[int | None, str]:
    """Runs the set-up without a Postgres; returns its exit code and what it printed on standard error."""
    variables = {
        "TRACKSIDE_KAFKA_BOOTSTRAP": kafka,
        "TRACKSIDE_POSTGRES_DSN": f"postgresql://{CLOSED}/none",
        "TRACKSIDE_TOPIC_PREFIX": prefix,
    }
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "trackside.cli.setup", *options),
        env=os.environ | variables,
        stderr=asyncio.subprocess.PIPE,
    )
    _, errors = await process.communicate()
    return process.returncode, errors.decode()


def test_migrations_may_take_longer_than_other_transactions(
    stack: Servers, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One counts all points: over a large database a stack would never start again."""
    monkeypatch.setattr(postgres, "TRANSACTION_LIMIT_S", 0.001)
    assert prepared(stack, database).postgres_dsn == database


@pytest.mark.long
async def test_pods_that_start_at_once_create_the_topics_without_postgres(
    stack: Servers, topic_prefix: str
) -> None:
    pods = [set_up("--topics", kafka=stack.kafka_bootstrap, prefix=topic_prefix) for _ in range(2)]
    assert [code for code, _ in await asyncio.gather(*pods)] == [0, 0]
    async with KafkaLog(stack.kafka_bootstrap, "test") as log:
        await log.preflight(Topics(topic_prefix).shared)


async def test_the_set_up_waits_for_kafka_as_long_as_it_is_told_to() -> None:
    code, errors = await set_up("--topics", "--wait-s", "0.1", kafka=CLOSED, prefix="")
    assert code == 1
    assert CLOSED in errors.splitlines()[-1]
