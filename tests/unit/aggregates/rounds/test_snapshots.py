"""What a snapshot of a job takes: it grows by the numbers of versions that were live, and nothing else."""

from tests.unit.aggregates.rounds.given import JOB, JobLog
from trackside.projections.snapshots import checkpoint


def size(log: JobLog) -> int:
    """Returns how many bytes the snapshot of the job takes."""
    (row,) = checkpoint(0, len(log.records), [log.streams.by_id[JOB]]).rows
    return len(row[-1].encode())


def test_a_snapshot_after_300_rounds_that_all_deploy_is_less_than_twice_that_after_10() -> None:
    log = JobLog()
    log.create(deploy={})
    sizes = {}
    for number in range(1, 301):
        log.now_ms += 60_000
        log.append(10)
        log.work()
        sizes[number] = size(log) if number in (10, 300) else 0
    assert (log.job.ended_rounds, len(log.job.was_live)) == (300, 300)
    assert sizes[300] < 2 * sizes[10], sizes
