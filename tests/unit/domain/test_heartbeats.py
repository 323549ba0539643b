"""Digests of heartbeats: a reader knows from them what it would know from whole ones."""

from dataclasses import dataclass, field
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trackside.contracts.fleet import fleet
from trackside.domain.fleet import heartbeats

GIB, MIB = 2**30, 2**20


def beat(**more: object) -> fleet.WorkerHeartbeat:
    fields: dict[str, object] = {
        "running": [placed(1)],
        "devices": (
            fleet.DeviceReading(device_id="gpu-0", used_bytes=GIB, foreign_bytes=0, utilisation=50.0),
        ),
        "available_bytes": 8 * GIB,
        "cpu_percent": 40.0,
        "neighbours": use(),
    }
    return fleet.WorkerHeartbeat.model_validate({"worker_id": "w1", "incarnation": "i-1", **fields, **more})


def placed(number: int, peak: int = 0) -> fleet.RunningPlacement:
    task = {"stream": "s", "task_id": f"s.{number}", "attempt": 1, "placement": 1}
    return fleet.RunningPlacement.model_validate({**task, "device_ids": ["gpu-0"], "peak_memory_bytes": peak})


def use(incarnation: str = "n-1", memory: int = GIB, device: int = GIB) -> tuple[fleet.NeighbourUse, ...]:
    devices = {"gpu-0": device}
    return (fleet.NeighbourUse(incarnation=incarnation, memory_bytes=memory, device_bytes=devices),)


def reading(**more: object) -> tuple[fleet.DeviceReading, ...]:
    return (beat().devices[0].model_copy(update=more),)


@pytest.mark.parametrize(
    "changed",
    [
        beat(running=[]),
        beat(running=[placed(1), placed(2)]),
        beat(running=[placed(1).model_copy(update={"placement": 2})]),
        beat(running=[placed(1).model_copy(update={"device_ids": []})]),
        beat(running=[placed(1, peak=200 * MIB)]),
        beat(available_bytes=8 * GIB - 200 * MIB),
        beat(available_bytes=None),
        beat(cpu_percent=None),
        beat(disk_low="the disk is nearly full"),
        beat(devices=()),
        beat(devices=reading(used_bytes=2 * GIB)),
        beat(devices=reading(foreign_bytes=100 * MIB)),
        beat(devices=reading(utilisation=None)),
        beat(neighbours=()),
        *(beat(neighbours=each) for each in (use("n-2"), use(memory=2 * GIB), use(device=0))),
    ],
)
def test_a_change_that_readers_need_makes_a_whole_heartbeat(changed: fleet.WorkerHeartbeat) -> None:
    digester = heartbeats.HeartbeatDigester()
    first = digester.next(beat(), 0.0)
    digester.sent(first, 0.0)
    assert isinstance(digester.next(beat(), 1.0), fleet.WorkerHeartbeatDigest)
    assert digester.next(changed, 2.0) == changed.model_copy(update={"sequence": 3})


def test_small_changes_of_memory_and_any_of_processors_make_a_digest() -> None:
    digester = heartbeats.HeartbeatDigester()
    digester.sent(digester.next(beat(), 0.0), 0.0)
    near = beat(
        available_bytes=8 * GIB - 60 * MIB,
        running=[placed(1, peak=60 * MIB)],
        devices=reading(used_bytes=GIB + 30 * MIB, foreign_bytes=30 * MIB, utilisation=99.0),
        cpu_percent=90.0,
    )
    digest = digester.next(near, 1.0)
    assert isinstance(digest, fleet.WorkerHeartbeatDigest)
    assert (digest.whole, digest.sequence, digest.cpu_percent, digest.utilisation) == (1, 2, 90.0, [99.0])
    unchanged = digester.next(beat(), 2.0).model_dump()
    assert set(unchanged) == {"incarnation", "sequence", "whole"}


def test_where_more_is_free_more_is_tolerated() -> None:
    much = beat(available_bytes=400 * GIB)
    assert heartbeats.is_within(much, beat(available_bytes=399 * GIB))
    assert not heartbeats.is_within(much, beat(available_bytes=390 * GIB))
    assert not heartbeats.is_within(
        beat(available_bytes=GIB), beat(available_bytes=GIB - heartbeats.TOLERANCE_BYTES - 1)
    )


def test_a_heartbeat_is_whole_after_so_many_seconds_or_heartbeats() -> None:
    for interval_s in (0.1, 1.0, 5.0, 60.0):
        digester, times, numbers = heartbeats.HeartbeatDigester(), [], []
        for at in range(50):
            message = digester.next(beat(), at * interval_s)
            digester.sent(message, at * interval_s)
            if isinstance(message, fleet.WorkerHeartbeat):
                times.append(at * interval_s)
                numbers.append(message.sequence)
        assert all(b - a <= max(10.0, interval_s) for a, b in pairwise(times))
        assert all(b - a <= heartbeats.WHOLE_EVERY for a, b in pairwise(numbers))
        assert len(times) >= 5


def test_a_whole_heartbeat_that_may_not_be_in_the_log_is_followed_by_another() -> None:
    digester, views = heartbeats.HeartbeatDigester(), heartbeats.HeartbeatViews()
    first = digester.next(beat(), 0.0)
    digester.sent(first, 0.0)
    unknown = digester.next(beat(running=[]), 1.0)  # written, but the answer was lost
    again = digester.next(beat(), 2.0)
    assert isinstance(again, fleet.WorkerHeartbeat)
    digester.sent(again, 2.0)
    for message in (first, again, unknown):  # the log may even have it later than the next one
        views.read(message)
    digest = digester.next(beat(), 3.0)
    assert isinstance(digest, fleet.WorkerHeartbeatDigest)
    found = views.read(digest)
    assert found is not None
    assert found.running == beat().running


def test_a_digest_without_its_whole_heartbeat_says_that_the_worker_lives_and_no_more() -> None:
    views = heartbeats.HeartbeatViews()
    digest = fleet.WorkerHeartbeatDigest(incarnation="i-1", sequence=9, whole=8)
    assert views.read(digest) is None
    views.read(beat(sequence=3))
    assert views.read(digest) is None
    views.read(beat(sequence=8))
    assert views.read(digest) == beat(sequence=9)
    other = digest.model_copy(update={"utilisation": [1.0, 2.0]})
    assert views.read(other) == beat(sequence=9), "it fits another set of devices"
    assert views.read(digest.model_copy(update={"incarnation": "i-2"})) is None
    views.retain(lambda name: name != "i-1")
    assert views.read(digest) is None
    for each in (beat(), beat(running=[]), beat()):
        assert views.read(each) == each, "of a worker that sends whole ones only"
    assert views.read(fleet.WorkerHeartbeatDigest(incarnation="i-1", sequence=2, whole=1)) is None


sizes = st.integers(0, 6).map(lambda number: number * 40 * MIB)
percents = st.none() | st.floats(0, 100)
placements = st.builds(placed, st.integers(1, 3), sizes)
readings = st.builds(
    fleet.DeviceReading,
    device_id=st.sampled_from(["gpu-0", "gpu-1"]),
    used_bytes=sizes,
    foreign_bytes=sizes,
    utilisation=percents,
)
uses = st.builds(
    fleet.NeighbourUse,
    incarnation=st.sampled_from(["n-1", "n-2"]),
    memory_bytes=sizes,
    device_bytes=st.dictionaries(st.sampled_from(["gpu-0", "gpu-1"]), sizes, max_size=2),
)
beats = st.builds(
    fleet.WorkerHeartbeat,
    worker_id=st.just("w1"),
    incarnation=st.just("i-1"),
    running=st.lists(placements, max_size=2),
    devices=st.lists(readings, max_size=2).map(tuple),
    available_bytes=st.none() | sizes,
    cpu_percent=percents,
    neighbours=st.lists(uses, max_size=2).map(tuple),
    disk_low=st.sampled_from(["", "low", "lower"]),
)


Pair = tuple[fleet.WorkerHeartbeat | fleet.WorkerHeartbeatDigest, fleet.WorkerHeartbeat]


@dataclass
class Step:
    """A heartbeat, how often it is sent unchanged, and what becomes of the first sending."""

    heartbeat: fleet.WorkerHeartbeat
    times: int
    fate: str


@dataclass
class Told:
    log: list[Pair] = field(default_factory=list)
    late: list[Pair] = field(default_factory=list)


steps = st.lists(
    st.builds(Step, beats, st.integers(1, 12), st.sampled_from(["sent", "sent", "lost", "unknown", "late"])),
    min_size=1,
    max_size=8,
)


def log_of(given_steps: list[Step]) -> Told:
    told, digester, at = Told(), heartbeats.HeartbeatDigester(), 0.0
    for step in given_steps:
        for number in range(step.times):
            at += 1.0
            message = digester.next(step.heartbeat, at)
            fate = "sent" if number else step.fate
            if fate != "lost":
                (told.late if fate == "late" else told.log).append((message, step.heartbeat))
            if fate == "sent":
                digester.sent(message, at)
                told.log += told.late if number else []
                told.late = [] if number else told.late
    return told


def is_same_view(view: fleet.WorkerHeartbeat, true: fleet.WorkerHeartbeat) -> bool:
    """Returns whether a view is what the worker has, within the tolerances."""
    before, now = (each.cpu_percent or 0.0 for each in (view, true))
    utilisations = zip(view.devices, true.devices, strict=True)
    return (
        heartbeats.is_within(view, true)
        and abs(before - now) <= heartbeats.TOLERANCE_PERCENT
        and all(
            abs((a.utilisation or 0) - (b.utilisation or 0)) <= heartbeats.TOLERANCE_PERCENT
            for a, b in utilisations
        )
    )


@pytest.mark.thorough
@given(steps, st.integers(0, 30))
def test_a_reader_from_anywhere_has_the_view_of_whole_heartbeats(given_steps: list[Step], start: int) -> None:
    told, views, unknown, newest = log_of(given_steps), heartbeats.HeartbeatViews(), 0, 0
    for message, true in told.log[start:]:
        view = views.read(message)
        if message.sequence < newest:
            continue  # written late: the view may be that of a newer one, or of none
        newest = message.sequence
        if view is None:
            unknown += 1
            assert isinstance(message, fleet.WorkerHeartbeatDigest)
            assert unknown < heartbeats.WHOLE_EVERY
        else:
            unknown = 0
            assert is_same_view(view, true)


@pytest.mark.thorough
@given(st.lists(beats, min_size=1, max_size=30))
def test_a_reader_from_the_start_knows_every_heartbeat(sent: list[fleet.WorkerHeartbeat]) -> None:
    told, views = log_of([Step(heartbeat, 1, "sent") for heartbeat in sent]), heartbeats.HeartbeatViews()
    for at, (message, heartbeat) in enumerate(told.log, 1):
        view = views.read(message)
        assert view is not None
        assert view.sequence == at
        assert is_same_view(view, heartbeat)
