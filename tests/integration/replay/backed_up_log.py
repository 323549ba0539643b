"""A log on a real Kafka that is backed up and restored, and what tests do with it."""

from dataclasses import replace
from pathlib import Path

from aiokafka.admin import AIOKafkaAdminClient

from tests.integration.projections.harness import all_rows, running_projections
from tests.polling import poll_until
from trackside.contracts.envelope.topics import Topics
from trackside.eventlog.kafka.kafka_log import KafkaLog
from trackside.eventlog.kafka.kafka_metadata import existing_topics
from trackside.eventlog.log import Entry, Outgoing
from trackside.eventlog.log_id import is_begin
from trackside.replay.history.recorded_stream import read_entries
from trackside.replay.transfer.backup import add_to_backup, topics_of_backup
from trackside.replay.transfer.backup_files import check_runs
from trackside.replay.transfer.restore import RestoreSummary, manifest_to_restore, restore

OWNERS = ("dispatcher", "scheduler", "summary-indexer")


class Given:
    """A log with a small history on Kafka, and what a test does with it."""

    def __init__(self, log: KafkaLog, bootstrap: str, topics: Topics, folder: Path) -> None:
        self.log, self.bootstrap, self.topics, self.folder = log, bootstrap, topics, folder

    async def say(self, line: bytes, topic: str = "logs") -> None:
        """Appends a line of output, or a record of another topic."""
        await self.log.append(f"{self.topics.prefix}trackside.{topic}", 1, [Outgoing(b"t", line, [])])

    async def back_up(self) -> int:
        """Adds a run; returns how many records it has."""
        made = await add_to_backup(self.log, self.topics, self.folder)
        return 0 if made.run is None else made.run.records

    async def restore(self) -> RestoreSummary:
        manifest = manifest_to_restore(self.topics, self.folder)
        check_runs(self.folder, manifest, lambda done, total: None)
        return await restore(self.log, self.bootstrap, self.topics, self.folder, manifest)

    async def delete_topics(self) -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=self.bootstrap)
        await admin.start()
        try:
            names = [topic.name for topic in self.topics.shared]
            await admin.delete_topics(sorted(await existing_topics(admin, names)))

            async def gone() -> bool:
                return not await existing_topics(admin, names)

            await poll_until(gone)
        finally:
            await admin.close()

    async def entries(self) -> list[Entry]:
        """Returns all records of the topics that a backup has, by place and offset."""
        found: list[Entry] = []
        for topic in topics_of_backup(self.topics):
            begins = await self.log.beginnings(topic.name)
            for partition, end in (await self.log.ends(topic.name)).items():
                place = (topic.name, partition)
                async for batch in read_entries(self.log, place, begins[partition], end):
                    found += batch
        return found

    async def is_restored(self, before: list[Entry]) -> bool:
        """Returns whether the log has these records and an id of its own, which its first record has."""
        after = await self.entries()
        begins = [entry.value for found in (before, after) for entry in found if is_begin(entry, self.topics)]
        return len(set(begins)) == 2 and self._without_id(before) == self._without_id(after)

    def _without_id(self, found: list[Entry]) -> list[Entry]:
        return [replace(each, value=b"") if is_begin(each, self.topics) else each for each in found]

    async def rows(self, dsn: str) -> dict[str, list[tuple[object, ...]]]:
        """Returns all rows of all read models, made from the log."""
        async with running_projections(self.log, dsn, *OWNERS, topics=self.topics) as projections:
            await projections.caught_up()
        return await all_rows(dsn)
