"""Every topic: who keys it, how many partitions it has and how long it is kept."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

HOST = "host"
"""What stands for the device in the topic of commands to a placement on several devices."""
DAY_MS = 86_400_000
HOUR_MS = 3_600_000
WEEK_MS = 7 * DAY_MS
FILES_KEPT = 4
"""In how many files a topic is that is kept for a limited time: it is kept for a quarter longer at most."""
MAX_COMMAND_BYTES = 262_144
MAX_RECORD_BYTES = 1_048_576
MAX_BATCH_BYTES = 524_288
PREFIX_RULE = "at most 64 letters, digits, '.', '_' or '-'"
_PREFIX = re.compile(r"[A-Za-z0-9._-]{0,64}")


def is_topic_prefix(text: str) -> bool:
    """Returns whether the names of topics may begin with a text; an empty one is none, and may."""
    return _PREFIX.fullmatch(text) is not None


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic as it must exist: its name, partitions, and the settings that promises rest on."""

    name: str
    partitions: int
    keyed_by: str
    what: str
    retention_ms: int
    config: Mapping[str, str] = field(default_factory=dict)

    @property
    def settings(self) -> dict[str, str]:
        """Returns the broker settings of the topic, as text."""
        return {
            "cleanup.policy": "delete",
            "retention.ms": str(self.retention_ms),
            "retention.bytes": "-1",
            "max.message.bytes": str(MAX_RECORD_BYTES),
            **self.config,
        }

    @property
    def created_settings(self) -> dict[str, str]:
        """Returns the settings that the topic is created with: also after which time a new file begins.

        The broker deletes whole files, and never the one that it writes to: with its own week for each file,
        what is to be kept for an hour would be there for a week. No service checks this setting, which topics
        of earlier releases lack.
        """
        if self.retention_ms < 0:
            return self.settings
        return {**self.settings, "segment.ms": str(min(self.retention_ms // FILES_KEPT, WEEK_MS))}


_APPEND_TIME = {"message.timestamp.type": "LogAppendTime"}


def command_target(device_ids: Sequence[str]) -> str:
    """Returns whose topic the commands to a placement go to: the device's, the host's for several devices."""
    return device_ids[0] if len(device_ids) == 1 else HOST


@dataclass(frozen=True)
class Topics:
    """The names of all topics under one prefix, so that several installations can share a cluster.

    Each is made once: services compare names with every record that they read.
    """

    prefix: str = ""
    event_partitions: int = 12

    @cached_property
    def commands(self) -> Topic:
        """Commands from anyone, on any partition."""
        config = {
            **_APPEND_TIME,
            "compression.type": "uncompressed",
            "max.message.bytes": str(MAX_COMMAND_BYTES),
        }
        return self._topic("commands", 4, "stream id", "commands from any client", 7 * DAY_MS, config)

    @cached_property
    def events(self) -> Topic:
        """The log: every fact, from every service."""
        return self._topic("events", self.event_partitions, "stream id", "the log", -1, _APPEND_TIME)

    @cached_property
    def fleet(self) -> Topic:
        """Workers joined, left and lost, with their devices."""
        return self._topic("fleet", 1, "worker id", "workers and their devices", -1, _APPEND_TIME)

    @cached_property
    def heartbeats(self) -> Topic:
        """Signs of life of workers and schedulers."""
        return self._topic("heartbeats", 1, "worker id", "signs of life", HOUR_MS, _APPEND_TIME)

    @cached_property
    def metrics(self) -> Topic:
        """Batches of metric points."""
        return self._topic("metrics", 4, "task id", "batches of metric points", -1)

    @cached_property
    def logs(self) -> Topic:
        """Lines of output of tasks."""
        return self._topic("logs", 4, "task id", "lines of output", 7 * DAY_MS)

    @cached_property
    def dead_letters(self) -> Topic:
        """Records that could not be decoded, with where they were and why."""
        return self._topic("dead-letters", 1, "source", "undecodable records", 30 * DAY_MS)

    @cached_property
    def suggestion_requests(self) -> Topic:
        """Requests to tuners that are processes of their own."""
        what = "requests to tuners of any language"
        return self._topic("suggestion-requests", 4, "stream id", what, DAY_MS)

    @cached_property
    def suggestions(self) -> Topic:
        """What such tuners answer."""
        what = "answers of tuners of any language"
        config = {**_APPEND_TIME, "max.message.bytes": str(MAX_COMMAND_BYTES)}
        return self._topic("suggestions", 4, "stream id", what, DAY_MS, config)

    @cached_property
    def assessment_requests(self) -> Topic:
        """Requests to assessors that are processes of their own."""
        what = "requests to assessors of any language"
        return self._topic("assessment-requests", 4, "stream id", what, 2 * HOUR_MS)

    @cached_property
    def assessments(self) -> Topic:
        """What such assessors answer."""
        what = "answers of assessors of any language"
        config = {**_APPEND_TIME, "max.message.bytes": str(MAX_COMMAND_BYTES)}
        return self._topic("assessments", 4, "stream id", what, DAY_MS, config)

    @cached_property
    def imports(self) -> Topic:
        """Streams of other installations, with the places and times they had there; no service reads it."""
        what = "imported streams, for `trackside replay`"
        return self._topic("imports", self.event_partitions, "stream id", what, -1, _APPEND_TIME)

    def device(self, worker_id: str, device_id: str) -> Topic:
        """Commands to one device of one worker."""
        return self._topic(f"device.{worker_id}.{device_id}", 1, "task id", "commands to one device", DAY_MS)

    def device_prefix(self, worker_id: str = "") -> str:
        """Returns how the names of the device topics of a worker begin; without one, those of all workers."""
        return f"{self.prefix}trackside.device.{worker_id}{'.' if worker_id else ''}"

    def group_prefix(self, role: str) -> str:
        """Returns how the names of the consumer groups of a kind of clients begin, such as publishers."""
        return f"{self.prefix}trackside.{role}."

    @property
    def every_prefix(self) -> str:
        """How the names of all topics begin."""
        return f"{self.prefix}trackside."

    @property
    def metrics_group(self) -> str:
        """The consumer group of the summary-indexer, which only assigns partitions and stores no offsets."""
        return f"{self.prefix}trackside.summary-indexer"

    @cached_property
    def shared(self) -> tuple[Topic, ...]:
        """Lists the topics that exist once in an installation (device topics come with their workers)."""
        return (
            self.commands,
            self.events,
            self.fleet,
            self.heartbeats,
            self.metrics,
            self.logs,
            self.dead_letters,
            self.imports,
            self.suggestion_requests,
            self.suggestions,
            self.assessment_requests,
            self.assessments,
        )

    def _topic(
        self,
        name: str,
        partitions: int,
        keyed_by: str,
        what: str,
        retention_ms: int,
        config: Mapping[str, str] | None = None,
    ) -> Topic:
        full = f"{self.prefix}trackside.{name}"
        return Topic(full, partitions, keyed_by, what, retention_ms, config or {})


@lru_cache(maxsize=65_536)
def partition_of(key: str, partitions: int) -> int:
    """Returns the partition of a key, 0 to partitions - 1, as Kafka's Java client chooses it.

    Source: murmur2 of org.apache.kafka.common.utils.Utils, seed 0x9747b28c, sign bit cleared.
    """
    return (_murmur2(key.encode()) & 0x7FFFFFFF) % partitions


def _murmur2(octets: bytes) -> int:
    multiplier, mask = 0x5BD1E995, 0xFFFFFFFF
    value = (0x9747B28C ^ len(octets)) & mask
    whole = len(octets) & ~3
    for start in range(0, whole, 4):
        word = int.from_bytes(octets[start : start + 4], "little")
        word = (word * multiplier) & mask
        word ^= word >> 24
        word = (word * multiplier) & mask
        value = ((value * multiplier) & mask) ^ word
    rest = octets[whole:]
    if rest:
        value ^= int.from_bytes(rest, "little")
        value = (value * multiplier) & mask
    value ^= value >> 13
    value = (value * multiplier) & mask
    return value ^ (value >> 15)
