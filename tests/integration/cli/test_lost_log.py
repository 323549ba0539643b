"""The records of a log are lost, and its rows are not: nothing starts on them, and each says what to do."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

from tests.integration.installed import variables_of
from tests.integration.projections.harness import query
from tests.service_processes import ServiceProcess
from tests.stack import Servers
from trackside.cli.setup import prepare
from trackside.contracts.envelope.topics import Topics
from trackside.eventlog.kafka.kafka_log import KafkaLog
from trackside.eventlog.log_id import id_in_log
from trackside.eventlog.settings.settings import StackSettings

SERVICES = ("dispatcher", "scheduler", "summary_indexer", "console")


async def test_what_has_rows_beyond_the_end_of_the_log_does_not_start(
    stack: Servers, database: str, topic_prefix: str, tmp_path: Path
) -> None:
    settings = StackSettings(
        kafka_bootstrap=stack.kafka_bootstrap, postgres_dsn=database, topic_prefix=topic_prefix
    )
    await prepare(settings)
    topics = Topics(prefix=topic_prefix)
    lost = "INSERT INTO positions VALUES ('dispatcher', $1, 3, 288)"
    await query(database, lost, topics.events.name)
    environment = variables_of(settings) | {"TRACKSIDE_CONSOLE_PORT": "0", "TRACKSIDE_HEALTH_PORT": "0"}
    services = [ServiceProcess(name, environment, tmp_path / f"{name}.log") for name in SERVICES]
    command = [sys.executable, "-m", "trackside.cli.setup"]
    said = f"have rows up to 288 of {topics.events.name}-3, but that ends at 0"
    try:
        given = os.environ | environment
        ended = await asyncio.to_thread(
            subprocess.run, command, env=given, capture_output=True, text=True, check=False
        )
        assert ended.returncode == 1 and said in ended.stderr, ended.stderr
        for service in services:
            assert service.process.wait(120) == 1, service
    finally:
        for service in services:
            service.stop()
    for name in SERVICES:
        assert said in (tmp_path / f"{name}.log").read_text(), name


async def test_rows_that_nothing_was_folded_into_are_of_the_log_that_comes(
    stack: Servers, database: str, topic_prefix: str
) -> None:
    """As those of an installation that was never used, whose log an earlier release had named."""
    names = []
    for each in ("a.", "b."):
        prefix = f"{topic_prefix}{each}"
        await prepare(
            StackSettings(kafka_bootstrap=stack.kafka_bootstrap, postgres_dsn=database, topic_prefix=prefix)
        )
        async with KafkaLog(stack.kafka_bootstrap, "test") as log:
            own = await id_in_log(log, Topics(prefix=prefix))
            names.append(f"{own}@{await log.cluster_id()}/{prefix}")
        comment = "SELECT obj_description('trackside'::regnamespace, 'pg_namespace')"
        [(text,)] = await query(database, comment)
        assert str(text).endswith(names[-1])
    assert names[0] != names[1]
