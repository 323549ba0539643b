"""What is kept of a job for a restart, without default values, is read as the same job."""

import pytest

from tests.unit.aggregates.rounds.given import AGGREGATES, BETTER, JOB, JobLog
from trackside.aggregates.rounds.messages import DeleteIncrementalJob
from trackside.contracts.message import Json
from trackside.domain.streams import dump, load, pack

DAY: Json = {"type": "daily", "start": "22:00", "end": "06:00"}
TRIGGERS: list[Json] = [
    BETTER,
    DAY,
    {"type": "cron", "cron": "0 3 * * *"},
    {"type": "manual"},
    {"type": "all_of", "triggers": [BETTER, {"type": "any_of", "triggers": [DAY, BETTER]}]},
]


@pytest.mark.parametrize("trigger", TRIGGERS, ids=lambda each: each["type"])
def test_a_job_with_any_trigger_is_kept_whole(trigger: Json) -> None:
    log = JobLog()
    log.create(deploy={"trigger": trigger})
    assert_kept(log)


def test_a_job_is_kept_whole_in_each_of_its_stages() -> None:
    log = JobLog()
    log.next_accuracy = lambda number: 0.9
    services = [{"name": "api", "task_type": "serve"}]
    log.create(deploy={"trigger": BETTER, "services": services, "copy_to": {"url": "/srv/live"}})
    for _ in range(2):
        log.append(10)
        assert_kept(log)
        log.work()
        assert_kept(log)
    log.command(JOB, DeleteIncrementalJob())
    assert_kept(log)


def assert_kept(log: JobLog) -> None:
    """Asserts that the job is the same after it was written and read."""
    assert dump(load(pack(log.stream), AGGREGATES)) == dump(log.stream)
