"""The state of tasks and hosts, followed event by event."""

from tests.unit.domain.given import (
    STREAM,
    assigned,
    ended,
    task_id,
    task_queued,
)
from tests.unit.scheduler.given import cluster_of, fleet_of, worker
from trackside.contracts.tasks import (
    AttemptEnd,
)


def test_the_cluster_state_follows_a_task_through_its_life() -> None:
    told = task_queued()
    cluster = cluster_of(told)
    cluster.hosts.sync_fleet(fleet_of(worker()), lambda _: True, [])
    device = cluster.hosts.by_id["w1"].devices["cpu-0"]
    task = told.task()
    assert task_id(0) in cluster.waiting
    told.tell(assigned())
    for _ in range(2):
        cluster.update(STREAM, task)
        assert (len(cluster.waiting), list(cluster.placed)) == (0, [task_id(0)])
        assert list(device.bookings) == [task_id(0)]
    told.tell(ended(AttemptEnd.LOST), role="scheduler")
    cluster.update(STREAM, task)
    cluster.advance(task.not_before_ms)
    assert (task_id(0) in cluster.waiting, dict(device.bookings)) == (True, {})
    told.tell(assigned(attempt=2))
    told.tell(ended(attempt=2))
    cluster.update(STREAM, task)
    kept = (
        cluster.tasks,
        cluster.placed,
        cluster.unanswered,
        cluster.tasks_on,
        cluster.bookings,
        cluster.stream_of,
    )
    assert (len(cluster.waiting), *kept) == (0, {}, {}, {}, {}, {}, {})
