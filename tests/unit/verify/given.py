"""Verifies a cluster without a log: its records, partition by partition or mixed."""

from collections import defaultdict
from random import Random

from tests.unit.verify.random_cluster.cluster import Cluster
from trackside.aggregates.registry import AGGREGATES
from trackside.contracts.message import Record
from trackside.domain.findings import Finding, RecordPosition
from trackside.domain.streams import Streams
from trackside.verify.verifier import Fold, Verifier

LATER_MS = 60_000


def findings_of(cluster: Cluster, fold: Fold | None = None, mixed: bool = True) -> list[Finding]:
    """Returns what is found in the log of a cluster, a minute after its last record."""
    verifier = Verifier(fold or Streams(AGGREGATES).fold)
    for record in cluster.fleet_records:
        verifier.incarnations.take(record)
    for source in cluster.published:
        place = RecordPosition(source.topic, source.partition, source.offset, "")
        verifier.commands.published[source] = (place, cluster.now_ms)
    for number, command in enumerate(cluster.sent):
        verifier.device_commands.note(command, RecordPosition("device", 0, number, command.stream))
    waiting: dict[int, list[Record]] = defaultdict(list)
    for record in reversed(cluster.records):
        waiting[record.partition].append(record)
    random, lasts = Random(len(cluster.records)), dict.fromkeys(waiting, 0)
    while waiting:
        partition = random.choice(sorted(waiting))
        for _ in range(random.randint(1, 20) if mixed else len(waiting[partition])):
            record = waiting[partition].pop()
            verifier.take(record)
            lasts[partition] = record.append_time_ms
            if not waiting[partition]:
                del waiting[partition], lasts[partition]
                break
        verifier.check_until(min(lasts.values(), default=0))
    return verifier.finish(cluster.now_ms + LATER_MS)
