"""Who has what of a host: never over capacity, by what is reserved and what was seen (T18)."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trackside.contracts.fleet.fleet import Device
from trackside.worker.host.neighbours import Neighbour, NeighbourTask
from trackside.worker.placements import sharing
from trackside.worker.placements.ledger import HAS_DEVICES, HAS_PROCESS, Allocation, Claim, Ledger, Stage

GIB = 2**30


def device(device_id: str, memory_gib: int = 16) -> Device:
    kind = "gpu" if device_id.startswith("gpu") else "cpu"
    return Device(device_id=device_id, kind=kind, name="x", memory_bytes=memory_gib * GIB)


def ledger(*device_ids: str, memory_gib: int = 0, max_tasks: int = 0, **tasks: Claim) -> Ledger:
    known = Ledger({each: device(each) for each in device_ids}, memory_gib * GIB, max_tasks)
    for key, wanted in tasks.items():
        put(known, key, wanted)
    return known


def claim(*device_ids: str, host: float = 0, cuda: float = 0, **more: bool) -> Claim:
    return Claim(
        device_ids, int(host * GIB), int(cuda * GIB), more.get("whole", False), more.get("raised", False)
    )


def put(known: Ledger, key: str, wanted: Claim, stage: Stage = Stage.TRAINING) -> Allocation:
    allocation = Allocation(key, wanted, stage)
    known.add(key, allocation)
    return allocation


def codes(known: Ledger, wanted: Claim) -> tuple[str | None, str | None]:
    found = (known.check_devices(wanted, HAS_DEVICES), known.check_host(wanted, HAS_PROCESS))
    devices, host = (refusal.code if refusal else None for refusal in found)
    return devices, host


def code_on_devices(known: Ledger, wanted: Claim) -> str | None:
    return codes(known, wanted)[0]


def test_a_cpu_slot_takes_one_task_at_a_time_and_a_gpu_all_that_fit() -> None:
    known = ledger("cpu-0", "cpu-1", a=claim("cpu-0"))
    refusal = known.check_devices(claim("cpu-0"), HAS_DEVICES)
    assert refusal is not None and (refusal.code, "task a" in refusal.message) == ("device_busy", True)
    assert code_on_devices(known, claim("cpu-1")) is None
    known = ledger("gpu-0", a=claim("gpu-0", cuda=6), b=claim("gpu-0", cuda=6))
    assert code_on_devices(known, claim("gpu-0", cuda=4)) is None
    assert code_on_devices(known, claim("gpu-0", cuda=5)) == "out_of_memory"


def test_t18_what_is_reserved_or_seen_or_of_foreign_processes_counts() -> None:
    full = ("out_of_memory", "out_of_memory")
    known = ledger("gpu-0", memory_gib=64, a=claim("gpu-0", host=40, cuda=10))  # and nothing of it used yet
    assert codes(known, claim("gpu-0", host=40, cuda=10)) == full
    known = ledger("gpu-0", memory_gib=64)
    allocation = put(known, "a", claim("gpu-0", host=1, cuda=1))
    allocation.record_usage(60 * GIB, 14 * GIB)
    allocation.record_usage(2 * GIB, 2 * GIB)
    assert codes(known, claim("gpu-0", host=5, cuda=3)) == full
    known = ledger("gpu-0", memory_gib=64)
    known.foreign_bytes_by_device = {"gpu-0": 12 * GIB}
    known.reserve_bytes, known.foreign_bytes = 4 * GIB, 3 * GIB
    assert codes(known, claim("gpu-0", host=64, cuda=5)) == ("out_of_memory", None)
    known.foreign_bytes = 10 * GIB
    assert codes(known, claim("gpu-0", host=59, cuda=4)) == (None, "out_of_memory")


@pytest.mark.parametrize(("first", "second"), [(True, False), (False, True)])
def test_who_wants_a_whole_device_is_alone_on_it(first: bool, second: bool) -> None:
    known = ledger("gpu-0", "gpu-1", a=claim("gpu-0", cuda=1, whole=first))
    assert code_on_devices(known, claim("gpu-0", cuda=1, whole=second)) == "device_busy"
    assert code_on_devices(known, claim("gpu-1", cuda=1, whole=second)) is None


def test_several_devices_are_wanted_at_once_and_who_asks_for_nothing_always_fits() -> None:
    known = ledger("gpu-0", "gpu-1", a=claim("gpu-1", cuda=10))
    assert code_on_devices(known, claim("gpu-0", "gpu-1", cuda=10)) == "out_of_memory"
    assert code_on_devices(known, claim("gpu-0", "gpu-1", cuda=5)) is None
    known = ledger("gpu-0", memory_gib=1)
    known.foreign_bytes_by_device, known.foreign_bytes = {"gpu-0": 20 * GIB}, 20 * GIB
    assert codes(known, claim("gpu-0")) == (None, None)


def test_only_so_many_tasks_have_a_process() -> None:
    known = ledger("cpu-0", "cpu-1", max_tasks=1)
    put(known, "a", claim("cpu-0"), Stage.LOADED)
    refusal = known.check_host(claim("cpu-1"), HAS_PROCESS)
    assert refusal is not None and refusal.code == "too_many_tasks"
    assert known.check_host(claim("cpu-0"), HAS_PROCESS, excluded={"a"}) is None


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        (claim("gpu-7"), "unknown_device"),
        (claim(), None),
        (claim(host=65), "out_of_memory"),
        (claim("gpu-0", "gpu-0"), "unknown_device"),
        (claim("gpu-0", cuda=17), "out_of_memory"),
        (claim("gpu-0", host=65), "out_of_memory"),
        (claim("gpu-0", host=65, cuda=17, raised=True), None),
        (claim("cpu-0", cuda=99), None),
    ],
)
def test_what_can_never_be_is_said_at_once(wanted: Claim, code: str | None) -> None:
    refusal = ledger("gpu-0", "cpu-0", memory_gib=64).check_capacity(wanted)
    assert (refusal.code if refusal else None) == code


def test_a_failed_device_is_none_and_a_claim_that_grew_beyond_everything_is_cut_and_fits_alone() -> None:
    known = ledger("gpu-0")
    known.failed["gpu-0"] = "fell off the bus"
    refusal = known.check_capacity(claim("gpu-0"))
    assert refusal is not None and refusal.code == "unknown_device" and "fell off" in refusal.message
    known = ledger("gpu-0", memory_gib=64)
    known.foreign_bytes_by_device = {"gpu-0": GIB}
    cut = known.limit_raised(claim("gpu-0", host=100, cuda=24, raised=True))
    assert (cut.memory_bytes, cut.cuda_memory_bytes) == (64 * GIB, 15 * GIB)
    assert codes(known, cut) == (None, None)
    put(known, "a", claim("gpu-0", host=1, cuda=1))
    assert codes(known, cut) == ("out_of_memory", "out_of_memory")


wanted = st.builds(
    lambda devices, host, cuda, whole: claim(*sorted(devices), host=host, cuda=cuda, whole=whole),
    devices=st.sets(st.sampled_from(["cpu-0", "cpu-1", "gpu-0", "gpu-1"]), min_size=1, max_size=2),
    host=st.integers(0, 40),
    cuda=st.integers(0, 20),
    whole=st.booleans(),
)


@pytest.mark.thorough
@settings(deadline=None)
@given(st.lists(st.one_of(wanted, st.integers(0, 30)), max_size=40))
def test_t18_whatever_comes_and_goes_nothing_is_given_twice(moves: list[Claim | int]) -> None:
    known = ledger("cpu-0", "cpu-1", "gpu-0", "gpu-1", memory_gib=64, max_tasks=5)
    for number, move in enumerate(moves):
        if isinstance(move, int):
            known.remove(str(move))
            continue
        room = known.check_devices(move, HAS_DEVICES) or known.check_host(move, HAS_PROCESS)
        if room is None:
            put(known, str(number), move)
        has = list(known.allocations.values())
        assert len(has) <= 5 and sum(each.memory_bytes for each in has) <= 64 * GIB
        for device_id, found in known.devices.items():
            there = [each for each in has if device_id in each.claim.device_ids]
            if found.kind == "cpu" or any(each.claim.whole_device for each in there):
                assert len(there) <= 1
            elif any(each.cuda_memory_bytes for each in there):
                assert sum(each.cuda_memory_bytes for each in there) <= found.memory_bytes


def near(*tasks: NeighbourTask, pool: str = "", **more: Any) -> Neighbour:
    return Neighbour(worker_id="w2", incarnation="i-2", memory_pool=pool, tasks=tasks, **more)


def near_task(host: float = 0, cuda: float = 0, stage: Any = "runs", whole: bool = False) -> NeighbourTask:
    sizes = {"memory_bytes": int(host * GIB), "cuda_memory_bytes": int(cuda * GIB)}
    return NeighbourTask(task_id="n", stage=stage, uuids=("GPU-7",), whole_device=whole, **sizes)


def on_shared_gpu(*neighbours: Neighbour) -> Ledger:
    gpu = device("gpu-0").model_copy(update={"uuid": "GPU-7"})
    return Ledger({"gpu-0": gpu}, 16 * GIB, memory_pool="pool", neighbours=neighbours)


def test_t18_what_another_worker_has_of_a_gpu_and_of_the_same_memory_counts() -> None:
    known = on_shared_gpu(near(near_task(cuda=10)))
    put(known, "a", claim("gpu-0", cuda=2))
    assert code_on_devices(known, claim("gpu-0", cuda=4)) is None
    assert code_on_devices(known, claim("gpu-0", cuda=5)) == "out_of_memory"
    assert code_on_devices(known, claim("gpu-0", whole=True)) == "device_busy"
    known.neighbours = (near(near_task(whole=True)),)
    assert code_on_devices(known, claim("gpu-0")) == "device_busy"
    known.neighbours = (near(near_task(cuda=16, stage="waits")),)
    assert code_on_devices(known, claim("gpu-0", cuda=14)) is None
    known = on_shared_gpu(near(near_task(host=10), pool="pool"), near(near_task(host=10), pool="other"))
    assert known.check_host(claim("gpu-0", host=6), HAS_PROCESS) is None
    refusal = known.check_host(claim("gpu-0", host=7), HAS_PROCESS)
    assert refusal is not None
    assert refusal.message == "needs 7 GiB of the host, which has 6 GiB left: worker w2 has 10 GiB of it"


def test_what_is_published_is_what_the_other_worker_counts() -> None:
    known = on_shared_gpu()
    put(known, "a", claim("gpu-0", host=2, cuda=3))
    put(known, "b", claim("gpu-0", host=4, cuda=5), Stage.LOADED)
    put(known, "c", claim("gpu-0", host=1, cuda=1), Stage.IDLE)
    put(known, "d", claim("gpu-0", host=8, cuda=8), Stage.HELD)
    known.used_memory_bytes, known.used_bytes_by_device = GIB, {"gpu-0": 4 * GIB}
    there = on_shared_gpu(sharing.published(known, "w1", "i-1", {"d"}))
    [use] = sharing.neighbour_uses(there)
    assert (use.incarnation, use.memory_bytes, use.device_bytes) == ("i-1", 6 * GIB, {"gpu-0": 4 * GIB})
    assert codes(there, claim("gpu-0", host=9, cuda=12)) == (None, None)
    assert codes(there, claim("gpu-0", host=10, cuda=13)) == ("out_of_memory", "out_of_memory")
    assert (sharing.idle_neighbour_bytes(there), sharing.used_by_neighbours(there)) == (GIB, GIB)
