"""An address at which another cluster answers than before: what knows the first one does not write to it."""

import asyncio
import subprocess
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from tests.integration.projections.harness import query
from tests.polling import poll_until_sync
from trackside.cli.setup import prepare
from trackside.contracts.envelope.topics import Topics
from trackside.embedded.checks import is_responding
from trackside.embedded.kafka import kafka as embedded_kafka
from trackside.embedded.kafka.kafka import new_id
from trackside.embedded.ports import HOST, free_ports
from trackside.embedded.processes import Check, ProcessSpec, spawn
from trackside.eventlog.errors import AnotherLogError, TransientError
from trackside.eventlog.kafka.kafka_log import KafkaLog
from trackside.eventlog.log import Outgoing
from trackside.eventlog.log_id import claim_folder, cluster_in, log_name
from trackside.eventlog.settings.settings import StackSettings

TOPIC = Topics().logs


@contextmanager
def broker_of(spec: ProcessSpec, check: Check, port: int) -> Iterator["subprocess.Popen[bytes]"]:
    """Runs a prepared Kafka while the block does, or until it is killed in it."""
    Path(spec.log).parent.mkdir(parents=True, exist_ok=True)
    process = spawn(spec)
    try:
        poll_until_sync(lambda: is_responding(check, port) or process.poll() is not None, 120)
        assert process.poll() is None, Path(spec.log).read_text()[-3000:]
        yield process
    finally:
        process.kill()
        process.wait()


def broker(
    folder: Path, port: int, controller: int, cluster: str = ""
) -> AbstractContextManager["subprocess.Popen[bytes]"]:
    """Prepares a Kafka without records, of a cluster with an id of its own unless one is given, to be run."""
    spec, _ = embedded_kafka.prepare(
        folder / "kafka", port, controller, lambda _: None, cluster=cluster or new_id(), short_lived=True
    )
    return broker_of(spec, "kafka", port)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::UserWarning")
async def test_a_log_that_was_replaced_by_another_one_at_its_address_is_not_written_to(
    tmp_path: Path,
) -> None:
    port, controller = free_ports(2)
    record = [Outgoing(b"key", b"value", [])]
    async with KafkaLog(f"{HOST}:{port}", "test") as log:
        with broker(tmp_path / "first", port, controller) as first:
            await log.ensure([TOPIC])
            await log.append(TOPIC.name, 0, record)
            first.kill()
            first.wait()
            with pytest.raises(TransientError):
                await log.append(TOPIC.name, 0, record)
        with broker(tmp_path / "second", port, controller):
            async with KafkaLog(f"{HOST}:{port}", "another-client") as other:
                await other.ensure([TOPIC])
                with pytest.raises(AnotherLogError, match="when this process began"):
                    await log.append(TOPIC.name, 0, record)
                with pytest.raises(AnotherLogError, match="when this process began"):
                    await log.ends(TOPIC.name)
                assert sum((await other.ends(TOPIC.name)).values()) == 0


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::UserWarning")
async def test_a_deployment_that_gives_its_clusters_one_id_has_another_log_when_its_records_are_lost(
    tmp_path: Path, database: str
) -> None:
    port, controller = free_ports(2)
    cluster, topics, names = new_id(), Topics(), []
    settings = StackSettings(kafka_bootstrap=f"{HOST}:{port}", postgres_dsn=database)
    record = [Outgoing(b"key", b"value", [])]
    async with KafkaLog(settings, "running") as running:
        with broker(tmp_path / "first", port, controller, cluster) as first:
            await asyncio.gather(prepare(settings), prepare(settings))  # as two set-ups do that start at once
            await running.preflight([topics.events])
            await running.append(topics.events.name, 3, record)
            names.append(await log_name(running, topics))
            claim_folder(tmp_path, names[0])
            await query(database, "INSERT INTO positions VALUES ('dispatcher', $1, 3, 1)", topics.events.name)
            await prepare(settings)
            first.kill()
            first.wait()
            with pytest.raises(TransientError):
                await running.append(topics.events.name, 3, record)
        with broker(tmp_path / "second", port, controller, cluster):
            with pytest.raises(AnotherLogError, match=f"are of the log {names[0]}, but this log is"):
                await prepare(settings)
            async with KafkaLog(settings, "another-client") as other:
                names.append(await log_name(other, topics))
                with pytest.raises(AnotherLogError, match="belongs to the log"):
                    claim_folder(tmp_path, names[1])
                with pytest.raises(AnotherLogError, match="ends at 0, but this process has written up to 1"):
                    await running.append(topics.events.name, 3, record)
                assert sum((await other.ends(topics.events.name)).values()) == 0
    assert names[0] != names[1] and {cluster_in(name) for name in names} == {cluster}
