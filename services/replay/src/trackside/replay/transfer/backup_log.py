"""A backup as a log that is only read: what reads the log of an installation reads a backup, too."""

import asyncio
from collections.abc import Collection, Generator, Mapping, Sequence
from io import UnsupportedOperation
from itertools import islice
from pathlib import Path
from typing import NoReturn

from trackside.contracts.envelope.topics import Topic
from trackside.eventlog.errors import OffsetGoneError, PreflightError, TransientError
from trackside.eventlog.keys.encryption import Decryption, StreamKeys
from trackside.eventlog.log import Entry, Outgoing, TopicPartition
from trackside.eventlog.log_id import cluster_in
from trackside.replay.transfer.backup_files import BackupManifest, OffsetRange, read_run


class BackupLog:
    """The records of a backup whose files were checked.

    What is encrypted is decrypted with their `keys`, if it has any.
    """

    def __init__(self, folder: Path, manifest: BackupManifest, keys: StreamKeys | None = None) -> None:
        self._folder, self._manifest = folder, manifest
        self._decryption = None if keys is None else Decryption(keys)

    async def __aenter__(self) -> "BackupLog":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def append(self, topic: str, partition: int, batch: Sequence[Outgoing]) -> NoReturn:
        """Raises UnsupportedOperation, as `publish` and `ensure`."""
        raise UnsupportedOperation(f"{self._folder} is a backup: nothing is written to its records")

    async def publish(self, topic: str, partition: int, record: Outgoing) -> NoReturn:
        """Raises UnsupportedOperation."""
        await self.append(topic, partition, [record])

    async def ensure(self, topics: Sequence[Topic]) -> NoReturn:
        """Raises UnsupportedOperation."""
        await self.append("", 0, [])

    def reader(self, starts: Mapping[TopicPartition, int], gather_s: float = 0.0) -> "BackupReader":
        """Opens a reader at the offsets given."""
        return BackupReader(self._folder, self._manifest, dict(starts), self._decryption)

    async def ends(self, topic: str) -> dict[int, int]:
        """Returns, per partition, the offset after the last record."""
        return {partition: offsets.end for partition, offsets in self._known(topic).items()}

    async def ends_of(self, topics: Collection[str]) -> dict[str, dict[int, int]]:
        """Returns the same of several topics, by topic."""
        return {topic: await self.ends(topic) for topic in topics}

    async def beginnings(self, topic: str) -> dict[int, int]:
        """Returns, per partition, the offset from which on no record is missing."""
        return {partition: offsets.begin for partition, offsets in self._known(topic).items()}

    async def preflight(self, topics: Sequence[Topic]) -> None:
        """Raises PreflightError for a topic that is not in the backup."""
        for topic in topics:
            if not self._offsets(topic.name):
                raise PreflightError(f"the backup in {self._folder} has no topic {topic.name}")

    async def cluster_id(self) -> str:
        """Returns the id of the cluster that the backup is of."""
        return cluster_in(self._manifest.installation)

    async def close(self) -> None:
        """Closes the connection to where the keys are."""
        if self._decryption is not None:
            self._decryption.close()

    def _known(self, topic: str) -> dict[int, OffsetRange]:
        found = self._offsets(topic)
        if not found:
            raise TransientError(f"the backup in {self._folder} has no topic {topic}")
        return found

    def _offsets(self, topic: str) -> dict[int, OffsetRange]:
        places = self._manifest.partitions.items()
        return {place[1]: offsets for place, offsets in places if place[0] == topic}


class BackupReader:
    """Reads partitions of a backup, run by run: in order within a partition."""

    def __init__(
        self,
        folder: Path,
        manifest: BackupManifest,
        starts: dict[TopicPartition, int],
        decryption: Decryption | None,
    ) -> None:
        self._folder, self._manifest, self._decryption = folder, manifest, decryption
        self._positions = starts
        self._entries = self._read()
        self._undecrypted: list[Entry] = []

    def assign(self, starts: Mapping[TopicPartition, int]) -> None:
        """Adds partitions to read; the files are read from their start again."""
        self._positions.update(starts)
        self._entries = self._read()

    def pause(self, topics: Collection[str]) -> NoReturn:
        """Raises UnsupportedOperation: only services pause topics, and a backup has none."""
        raise UnsupportedOperation("the topics of a backup can't be paused")

    async def read(self, max_wait_s: float, max_records: int = 10_000) -> list[Entry]:
        """Returns the next records, or an empty list after `max_wait_s`: a backup does not grow.

        Raises DamagedFileError, OffsetGoneError, and TransientError if the keys can't be read.
        """
        if not self._undecrypted:
            self._undecrypted = list(islice(self._entries, max_records))
        if not self._undecrypted:
            await asyncio.sleep(max_wait_s)
        elif self._decryption is not None:
            await self._decryption.decrypt(self._undecrypted)
        found, self._undecrypted = self._undecrypted, []
        return found

    async def close(self) -> None:
        """Ends the reader."""
        self._entries.close()

    def _read(self) -> Generator[Entry, None, None]:
        positions = self._positions
        for (topic, partition), position in positions.items():
            begin = self._manifest.partitions[topic, partition].begin
            if position < begin:
                raise OffsetGoneError(f"{topic}-{partition} begins at {begin}, position is {position}")
        for run in self._manifest.runs:
            for entry in read_run(self._folder, run, positions):
                place = (entry.topic, entry.partition)
                if entry.offset >= positions[place]:
                    positions[place] = entry.offset + 1
                    yield entry
