"""Verifies a cluster without a log: its records, partition by partition or mixed."""

from collections import defaultdict
from random import Random

from tests.unit.verify.random_cluster.cluster import Cluster
from trackside.aggregates.registry import AGGREGATES
from trackside.contracts.message import Record
from trackside.domain.findings import Finding, RecordPosition
from trackside.domain.streams import Streams
from trackside.verify.verifier import Fold, Verifier


def findings_of(cluster: Cluster, fold: Fold | None = None, mixed: bool = True) -> list[Finding]:
    """Returns what is found in the complete log of a cluster."""
    verifier = Verifier(fold or Streams(AGGREGATES).fold)
    for record in cluster.fleet_records:
        verifier.take_fleet(record)
    for source in cluster.published:
        place = RecordPosition(source.topic, source.partition, source.offset, "")
        verifier.commands.published[source] = place
    for number, command in enumerate(cluster.sent):
        verifier.device_commands.note(command, RecordPosition("device", 0, number, command.stream))
    waiting: dict[int, list[Record]] = defaultdict(list)
    for record in reversed(cluster.records):
        waiting[record.partition].append(record)
    random = Random(len(cluster.records))
    while waiting:
        partition = random.choice(sorted(waiting))
        for _ in range(random.randint(1, 20) if mixed else len(waiting[partition])):
            verifier.take(waiting[partition].pop())
            if not waiting[partition]:
                del waiting[partition]
                break
    return [*verifier.finish(), *verifier.findings.open]
