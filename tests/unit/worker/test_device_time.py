"""The time that tasks hold a device, as its counter."""

from prometheus_client import REGISTRY

from tests.unit.worker.test_ledger import claim, ledger, put
from trackside.eventlog.clock import CLOCK
from trackside.worker.placements.device_time import DeviceTime
from trackside.worker.placements.ledger import Stage

BUSY = "trackside_worker_device_busy_seconds_total"


class SetClock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.at_s = 100.0

    def now_ms(self) -> int:
        return int(self.at_s * 1000)

    def monotonic_s(self) -> float:
        return self.at_s


def busy_s(device_id: str) -> float | None:
    return REGISTRY.get_sample_value(BUSY, {"device": device_id})


def test_a_device_counts_exactly_the_time_that_tasks_hold_it_however_short_they_are() -> None:
    clock, known = SetClock(), ledger("busy-0", "busy-1")
    token = CLOCK.set(clock)
    try:
        time = DeviceTime(known.devices)
        assert (busy_s("busy-0"), busy_s("busy-1")) == (0, 0)
        for number in range(100):
            put(known, f"t{number}", claim("busy-0"), Stage.TRAINING)
            time.update(known)
            clock.at_s += 0.004
            time.update(known)
            known.remove(f"t{number}")
            time.update(known)
            clock.at_s += 0.001
        put(known, "held", claim("busy-1"), Stage.HELD)
        time.update(known)
        clock.at_s += 5
        time.update(known)
    finally:
        CLOCK.reset(token)
    assert busy_s("busy-0") is not None and abs((busy_s("busy-0") or 0) - 0.4) < 1e-6
    assert busy_s("busy-1") == 0, "a task that waits for a device does not hold it"
