"""What a service that can't go on writes to its log: the reason and where, and no password."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.integration.installed import NOOP
from tests.stack import Servers
from trackside.contracts.envelope.topics import Topics
from trackside.eventlog.kafka.kafka_log import KafkaLog

OTHERS = ("dispatcher", "scheduler", "summary_indexer")


def log_of(service: str, folder: Path, **variables: str) -> str:
    """Runs a service until it stops by itself with exit code 1; gives what it wrote."""
    worker = {"TRACKSIDE_WORKER_CATALOGUE": str(NOOP), "TRACKSIDE_WORKER_DATA_DIR": str(folder / "data")}
    ended = subprocess.run(
        [sys.executable, "-m", f"trackside.{service}"],
        env={**os.environ, **worker, **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        cwd=folder,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 1, ended.stderr
    return ended.stdout + ended.stderr


async def make_unfit_topics(stack: Servers, prefix: str) -> None:
    """Makes each topic with one partition more than it must have."""
    async with KafkaLog(stack.kafka_bootstrap, "test") as log:
        await log.ensure([replace(topic, partitions=topic.partitions + 1) for topic in Topics(prefix).shared])


@pytest.mark.parametrize(
    "service", ["worker", *(pytest.param(service, marks=pytest.mark.long) for service in OTHERS)]
)
async def test_the_log_of_a_service_that_crashes_has_no_password(
    service: str, stack: Servers, topic_prefix: str, tmp_path: Path
) -> None:
    password = urlsplit(stack.postgres_dsn).password
    assert password
    await make_unfit_topics(stack, topic_prefix)
    log = log_of(
        service,
        tmp_path,
        TRACKSIDE_KAFKA_BOOTSTRAP=stack.kafka_bootstrap,
        TRACKSIDE_POSTGRES_DSN=stack.postgres_dsn,
        TRACKSIDE_TOPIC_PREFIX=topic_prefix,
    )
    assert '"event": "service stopped"' in log and '"frames": [{' in log
    assert password not in log
    assert '"locals"' not in log
