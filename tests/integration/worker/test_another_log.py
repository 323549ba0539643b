"""A worker that is pointed to another log than the one that its folder belongs to."""

from pathlib import Path

from tests.polling import poll_until_sync
from tests.service_processes import ServiceProcess, service_process
from tests.stack import Servers
from trackside.contracts.envelope.topics import Topics
from trackside.eventlog.kafka.kafka_log import KafkaLog


async def test_a_worker_refuses_a_log_that_its_folder_does_not_belong_to(
    stack: Servers, topic_prefix: str, tmp_path: Path
) -> None:
    """Two prefixes are two logs, as two clusters are."""
    (tmp_path / "catalogue.yaml").write_text("tasks: {}\n")
    prefixes = [f"{topic_prefix}{name}." for name in ("first", "second")]
    async with KafkaLog(stack.kafka_bootstrap, "test") as log:
        for prefix in prefixes:
            await log.ensure(Topics(prefix=prefix).shared)
        first, second = (
            {
                "TRACKSIDE_KAFKA_BOOTSTRAP": stack.kafka_bootstrap,
                "TRACKSIDE_TOPIC_PREFIX": prefix,
                "TRACKSIDE_WORKER_ID": "w1",
                "TRACKSIDE_WORKER_PRELOAD": "",
                "TRACKSIDE_WORKER_CATALOGUE": str(tmp_path / "catalogue.yaml"),
                "TRACKSIDE_WORKER_DATA_DIR": str(tmp_path / "data"),
            }
            for prefix in prefixes
        )
        for _ in range(2):  # it may start again
            with service_process("worker", first, tmp_path):
                poll_until_sync((tmp_path / "data" / "log-id").exists, 60)
        refused = ServiceProcess("worker", second, tmp_path / "refused.log")
        try:
            assert refused.process.wait(60) == 1
        finally:
            refused.stop()
        said = (tmp_path / "refused.log").read_text()
        assert f"belongs to the log {await log.cluster_id()}/{prefixes[0]}, but this log is" in said
        assert (await log.ends(Topics(prefix=prefixes[1]).fleet.name))[0] == 0
