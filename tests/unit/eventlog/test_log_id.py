import asyncio
from pathlib import Path

import pytest

from trackside.contracts.envelope.topics import Topics
from trackside.contracts.fleet.fleet import LogBegun
from trackside.domain.fleet.fleet import Fleet, evolve
from trackside.domain.outcome import Outcome
from trackside.eventlog.errors import AnotherLogError
from trackside.eventlog.keys.decode import decode
from trackside.eventlog.keys.key_folder import SETUP, WORKER
from trackside.eventlog.keys.record_writer import RecordWriter
from trackside.eventlog.log import Entry, Outgoing
from trackside.eventlog.log_id import STREAM, begin_log, claim_folder, cluster_in, id_in_log, log_name
from trackside.eventlog.memory import MemoryLog

TOPICS = Topics()


async def log_with(*topics: str) -> MemoryLog:
    log = MemoryLog()
    await log.ensure([getattr(TOPICS, name) for name in topics])
    return log


def begun(log_id: str, role: str = SETUP) -> Outgoing:
    return RecordWriter(role, "test").single(STREAM, LogBegun(log_id=log_id))


async def entries(log: MemoryLog) -> list[Entry]:
    return await log.reader({(TOPICS.fleet.name, 0): 0}).read(1.0)


async def test_a_log_of_an_earlier_release_is_named_by_its_cluster_and_the_prefix_of_its_topics() -> None:
    log = MemoryLog()
    for topics in (TOPICS, Topics(prefix="b.")):
        await log.ensure(topics.shared)
    assert await log_name(log, TOPICS) == "memory"
    assert await log_name(log, Topics(prefix="b.")) == "memory/b."
    await log.append(TOPICS.fleet.name, 0, [Outgoing(b"w", b"{}", [])])
    await begin_log(log, TOPICS)
    assert await log_name(log, TOPICS) == "memory"


async def test_two_logs_of_clusters_with_one_id_have_two_names() -> None:
    names = []
    for _ in range(2):
        log = await log_with("fleet")
        await begin_log(log, TOPICS)
        await log.ensure(TOPICS.shared)
        names.append(await log_name(log, TOPICS))
        assert cluster_in(names[-1]) == "memory" and names[-1] == f"{await id_in_log(log, TOPICS)}@memory"
    assert names[0] != names[1]


async def test_of_set_ups_at_once_the_first_record_counts_and_a_later_one_has_no_effect() -> None:
    log = await log_with("fleet")
    await asyncio.gather(*(begin_log(log, TOPICS) for _ in range(3)))
    await log.append(TOPICS.fleet.name, 0, [begun("later")])
    found = [record for entry in await entries(log) if (record := decode(entry)) is not None]
    first = found[0].message
    assert isinstance(first, LogBegun) and await id_in_log(log, TOPICS) == first.log_id
    fleet = Fleet()
    outcomes = [evolve(fleet, record) for record in found]
    assert outcomes == [Outcome.APPLIED] + [Outcome.OVERTAKEN] * (len(found) - 1)


async def test_only_the_set_up_gives_a_log_its_id() -> None:
    log = await log_with("fleet")
    await log.append(TOPICS.fleet.name, 0, [begun("forged", WORKER)])
    assert await id_in_log(log, TOPICS) == ""


async def test_a_log_with_events_and_no_worker_keeps_the_name_that_it_had() -> None:
    log = await log_with("events", "fleet")
    await log.append(TOPICS.events.name, 3, [Outgoing(b"s", b"{}", [])])
    await begin_log(log, TOPICS)
    assert await log_name(log, TOPICS) == "memory"


def test_a_folder_that_belongs_to_a_log_is_refused_to_another_one_and_stays_as_it_was(tmp_path: Path) -> None:
    claim_folder(tmp_path, "first")
    claim_folder(tmp_path, "first")
    with pytest.raises(AnotherLogError, match=r"belongs to the log first, but this log is second.*remove"):
        claim_folder(tmp_path, "second")
    claim_folder(tmp_path, "first")
    assert [path.name for path in tmp_path.iterdir()] == ["log-id"]
