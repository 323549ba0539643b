"""An address at which another cluster answers than before: what knows the first one does not write to it."""

import subprocess
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from tests.polling import poll_until_sync
from trackside.contracts.topics import Topics
from trackside.embedded import kafka as embedded_kafka
from trackside.embedded.checks import is_responding
from trackside.embedded.installation import new_id
from trackside.embedded.ports import HOST, free_ports
from trackside.embedded.processes import Check, ProcessSpec, spawn
from trackside.eventlog.errors import TransientError
from trackside.eventlog.kafka import KafkaLog
from trackside.eventlog.log import Outgoing
from trackside.eventlog.log_id import AnotherLogError

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


def broker(folder: Path, port: int, controller: int) -> AbstractContextManager["subprocess.Popen[bytes]"]:
    """Prepares a Kafka of a new cluster, to be run."""
    spec, _ = embedded_kafka.prepare(
        folder / "kafka", port, controller, lambda _: None, cluster=new_id(), short_lived=True
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
