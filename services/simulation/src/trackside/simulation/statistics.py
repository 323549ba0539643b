"""Statistics of a fleet from its simulated log: throughput, queue times, utilisation, growth. Pure."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from trackside.contracts.envelope.message import Record
from trackside.contracts.tasks.tasks import AttemptAdopted, AttemptEnded, TaskAccepted, TaskSubmitted
from trackside.eventlog.log import Entry, TopicPartition
from trackside.simulation.virtual.segment_store import SegmentStore, size_of

Entries = Mapping[TopicPartition, list[Entry] | SegmentStore]


@dataclass(frozen=True, slots=True)
class TopicGrowth:
    """What was appended to a topic, or to all topics of devices."""

    records: int
    octets: int


@dataclass(frozen=True, slots=True)
class FleetStatistics:
    """Times in s by the log's clock; `busy` is the share of all devices' time that attempts held."""

    makespan_s: float
    trials_per_s: float
    queue_p50_s: float
    queue_p99_s: float
    busy: float
    growth: dict[str, TopicGrowth]


@dataclass(slots=True)
class TaskTimes:
    """When tasks were submitted, started and ended, ms; from applied events alone."""

    first_ms: int = 0
    last_ms: int = 0
    queued_ms: list[int] = field(default_factory=list)
    used_ms: int = 0
    _submitted: dict[str, int] = field(default_factory=dict)
    _begun: dict[str, int] = field(default_factory=dict)

    def note(self, record: Record) -> None:
        """Adds an event that was applied, in order."""
        time_ms, event = record.append_time_ms, record.message
        self.first_ms = self.first_ms or time_ms
        self.last_ms = time_ms
        if type(event) is TaskSubmitted:
            self._submitted[event.task_id] = time_ms
        elif type(event) is TaskAccepted or type(event) is AttemptAdopted:  # an adopted one lacks the other
            self._begun.setdefault(event.task_id, time_ms)
            submitted = self._submitted.pop(event.task_id, None)
            if submitted is not None:
                self.queued_ms.append(time_ms - submitted)
        elif type(event) is AttemptEnded:
            self.used_ms += time_ms - self._begun.pop(event.task_id, time_ms)


def statistics_of(times: TaskTimes, entries: Entries, devices: int, trials: int) -> FleetStatistics:
    """Returns the statistics of a run on `devices` devices."""
    seconds = max(0.001, (times.last_ms - times.first_ms) / 1000)
    queued = sorted(times.queued_ms)
    return FleetStatistics(
        makespan_s=seconds,
        trials_per_s=trials / seconds,
        queue_p50_s=_share(queued, 0.5) / 1000,
        queue_p99_s=_share(queued, 0.99) / 1000,
        busy=times.used_ms / 1000 / seconds / devices,
        growth=growth_of(entries),
    )


def growth_of(entries: Entries) -> dict[str, TopicGrowth]:
    """Counts records, and bytes of keys, values and headers, by topic; the topics of devices count as one."""
    records: dict[str, int] = defaultdict(int)
    octets: dict[str, int] = defaultdict(int)
    for (topic, _), found in entries.items():
        name = topic.rpartition("trackside.")[2].split(".")[0]
        records[name] += len(found)
        octets[name] += found.octets if isinstance(found, SegmentStore) else sum(map(size_of, found))
    return {name: TopicGrowth(records[name], octets[name]) for name in sorted(records) if records[name]}


def _share(ordered: list[int], share: float) -> int:
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else 0
