"""Records among the events that nobody should have written: one stream is parked, and all others go on."""

import asyncio
import json
import secrets
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.integration.cli.conftest import NOOP_SEARCH, Installation, Tried, Typed
from tests.integration.installed import changes
from trackside.aggregates.search.messages import TrialSuggested
from trackside.contracts.envelope.topics import partition_of
from trackside.contracts.streams.commands import RecordDeadLettered
from trackside.contracts.tasks.tasks import AttemptEnded, MetricReported, TaskAccepted
from trackside.eventlog.kafka.kafka_log import KafkaLog
from trackside.eventlog.keys.decode import decode
from trackside.eventlog.log import Outgoing
from trackside.eventlog.settings.settings import StackSettings


@pytest.fixture
def specs(settings: StackSettings, tmp_path: Path) -> StackSettings:
    """Returns the settings of the installation, with two specs in the current folder."""
    (tmp_path / "slow.yaml").write_text(NOOP_SEARCH.format(trials=6, at_once=2, seconds=1))
    (tmp_path / "fast.yaml").write_text(NOOP_SEARCH.format(trials=4, at_once=2, seconds=0))
    return settings


def foreign(stream: str, wire_type: bytes, value: bytes | None = b"{}", **more: bytes) -> Outgoing:
    """Returns a record with the envelope of a service that no service has written."""
    headers = {
        "ce_specversion": b"1.0",
        "ce_id": secrets.token_hex(8).encode(),
        "ce_type": wire_type,
        "ce_source": b"trackside/dispatcher/1",
        "ce_partitionkey": stream.encode(),
        "content-type": b"application/json",
    }
    return Outgoing(stream.encode(), value, [*(headers | more).items()])


NESTED = b'{"status": ' + b"[" * 500_000 + b"]" * 500_000 + b"}"
"""1 MB of JSON, deeper than any reader can follow."""
UNREADABLE: dict[str, tuple[str, bytes, bytes | None]] = {
    "not UTF-8": ("not_valid", b"trackside.search-ended.v1", b'{"status": "\xff"}'),
    "nested": ("not_valid", b"trackside.search-ended.v1", NESTED),
    "of another system": ("unknown_type", b"com.example.thing", b"{}"),
    "a tombstone": ("tombstone", b"trackside.search-ended.v1", None),
}


async def write(settings: StackSettings, record: Outgoing, partition: int) -> int:
    """Writes a record of somebody else among the events; gives its offset."""
    async with KafkaLog(settings.kafka_bootstrap, "somebody") as log:
        return (await log.append(settings.topics.events.name, partition, [record])).offset


async def until(settings: StackSettings, stream: str, kind: type[Any], count: int = 1) -> None:
    """Waits until so many events of a kind are in a stream, whether they count or not."""
    async with KafkaLog(settings.kafka_bootstrap, "test") as log:
        name = settings.topics.events.name
        reader = log.reader({(name, partition_of(stream, settings.topics.event_partitions)): 0})
        seen, wanted = 0, kind.wire_type().encode()
        async with asyncio.timeout(120):
            while seen < count:
                for entry in await reader.read(1.0):
                    headers = dict(entry.headers)
                    seen += headers.get("ce_type") == wanted and entry.key == stream.encode()
        await reader.close()


def ready(port: int) -> dict[str, Any]:
    """Returns what the dispatcher says at `/ready`, which must be that it is."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/ready", timeout=10) as answer:
        found: dict[str, Any] = json.load(answer)
        return found


def late_report(stream: str) -> Outgoing:
    """Returns a report of a placement that is not there."""
    told = MetricReported(
        task_id=f"{stream}.0", attempt=1, placement=99, kind="PERIODICAL", step=1, value=0.5
    )
    value = told.model_dump_json().encode()
    return foreign(stream, MetricReported.wire_type().encode(), value, ce_source=b"trackside/worker/w1")


async def dead_letters(settings: StackSettings, count: int) -> dict[str, tuple[str, int]]:
    """Waits for so many dead letters; returns the code and the offset that each is about, by its id.

    A service that starts again may repeat one, with its id.
    """
    async with KafkaLog(settings.kafka_bootstrap, "test") as log:
        reader = log.reader({(settings.topics.dead_letters.name, 0): 0})
        found: dict[str, tuple[str, int]] = {}
        async with asyncio.timeout(60):
            while len(found) < count:
                for entry in await reader.read(1.0):
                    record = decode(entry)
                    assert record is not None and isinstance(record.message, RecordDeadLettered)
                    found[record.envelope.id] = (record.message.code, record.message.source.offset)
        await reader.close()
        return found


async def test_a_record_of_a_newer_release_parks_its_stream_and_no_other(
    running: Installation, specs: StackSettings, typed: Typed, tried: Tried
) -> None:
    settings, services = specs, running.services
    parked = f"parked-{secrets.token_hex(3)}"
    partition = partition_of(parked, settings.topics.event_partitions)
    neighbour = next(
        name
        for name in (f"neighbour-{at}" for at in range(1_000))
        if partition_of(name, settings.topics.event_partitions) == partition
    )
    await typed("submit", "slow.yaml", "--id", parked)
    await until(settings, parked, TaskAccepted, 2)
    bad = [
        (code, await write(settings, foreign(parked, wire_type, value), partition))
        for code, wire_type, value in UNREADABLE.values()
    ]
    offset = await write(settings, foreign(parked, b"trackside.trial-cloned.v1"), partition)
    await until(settings, parked, AttemptEnded, 2)  # both places are free, though these ends don't count yet

    await typed("submit", "fast.yaml", "--id", neighbour, "--wait")
    place = f"{partition}/{offset}"
    why = f"PARKED (needs a newer release: type trackside.trial-cloned.v1 at {place})"
    assert why in await typed("show", parked)
    listed = await typed("ls")
    assert f"{parked} is {why}" in listed
    assert any(parked in line and " PARKED " in line for line in listed.splitlines())
    assert (await asyncio.to_thread(ready, running.dispatcher_port))["parked"]["streams"] == 1
    code, _, err = await tried("stop", parked)
    assert code == 2 and "stream_parked" in err and f"trackside repair {place}" in err
    shown = await typed("repair", place)
    assert "trackside.trial-cloned.v1" in shown and "not by this release" in shown
    code, _, err = await tried("repair", f"{partition}/0", "--skip", "--reason", "looks odd")
    assert code == 2 and "not_parked" in err
    good, _ = [each async for each in changes(settings, neighbour)][-1]
    code, _, err = await tried("repair", f"{good.partition}/{good.offset}", "--skip", "--reason", "looks odd")
    assert code == 2 and f"{good.offset} has not parked stream {neighbour}" in err
    assert all(service.process.poll() is None for service in services.values())

    for name in ("dispatcher", "scheduler"):  # from their snapshots, if there are any
        services[name].restart()
    await typed("submit", "fast.yaml", "--id", f"{neighbour}-2", "--wait")
    await typed("repair", place, "--skip", "--reason", "written by a test")
    trials = {
        r.message.trial async for r, _ in changes(settings, parked) if isinstance(r.message, TrialSuggested)
    }
    assert trials == set(range(6))
    await typed("repair", place, "--skip", "--reason", "once more")
    listed = await typed("repair", "--list")
    assert "no stream is parked" in listed and "written by a test" in listed and "once more" not in listed
    assert sorted((await dead_letters(settings, len(bad))).values()) == sorted(bad)
    report = json.loads(await typed("verify-log", "--json"))
    assert report["holds"] and len(report["passed_over"]) == len(UNREADABLE) and report["parked"] == []
    assert "equal" in await typed("replay", "rebuild")


@pytest.mark.long
async def test_services_that_are_killed_while_they_read_a_stream_again_begin_again_and_others_continue(
    running: Installation, specs: StackSettings, typed: Typed
) -> None:
    settings, services, events = specs, running.services, specs.topics.events.name
    parked = f"parked-{secrets.token_hex(3)}"
    partition = partition_of(parked, settings.topics.event_partitions)
    neighbours = (f"neighbour-{secrets.token_hex(3)}" for _ in range(10_000))
    neighbour = next(
        each for each in neighbours if partition_of(each, settings.topics.event_partitions) == partition
    )
    await typed("submit", "slow.yaml", "--id", parked)
    await until(settings, parked, TaskAccepted, 2)
    offset = await write(settings, foreign(parked, b"trackside.trial-cloned.v1"), partition)
    await until(settings, parked, AttemptEnded, 2)
    async with KafkaLog(settings.kafka_bootstrap, "somebody") as log:
        for _ in range(60):
            await log.append(events, partition, [late_report(parked) for _ in range(500)])
    await typed("repair", f"{partition}/{offset}", "--skip", "--reason", "written by a test")
    for name in ("dispatcher", "scheduler"):
        services[name].restart()
    await typed("submit", "fast.yaml", "--id", neighbour, "--wait")
    trials = {
        r.message.trial async for r, _ in changes(settings, parked) if isinstance(r.message, TrialSuggested)
    }
    assert trials == set(range(6))
    report = json.loads(await typed("verify-log", parked, "--json"))
    assert report["parked"] == []
    assert {each["invariant"] for each in report["findings"]} <= {"INV-7"}, "a stranger has written reports"
    assert "equal" in await typed("replay", "rebuild")
