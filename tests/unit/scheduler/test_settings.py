import pytest

from trackside.scheduler.hosts.occupancy import AdmissionLimits
from trackside.scheduler.placing.placement import PlacementRules
from trackside.scheduler.settings import SchedulerSettings


def test_t15_t16_t17_t21_gates_defaults_and_order_are_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    given = "HOST_FREE_SHARE=0.2 HOST_FREE_MEMORY=4GB DEVICE_FREE_SHARE=0.1 DEVICE_FREE_MEMORY=2GB "
    given += "MAX_CPU_PERCENT=80 MAX_LOADING_TASKS=10 DEVICE_ORDER=-REMAIN-MEM "
    given += "DEFAULT_MEMORY=3GB DEFAULT_CUDA_MEMORY=1.5GiB"
    for name, value in (each.split("=") for each in given.split()):
        monkeypatch.setenv(f"TRACKSIDE_SCHEDULER_{name}", value)
    chosen = SchedulerSettings().policy
    limits = AdmissionLimits(0.2, 4 * 10**9, 0.1, 2 * 10**9, 80, 10)
    assert chosen.placement_rules == PlacementRules(limits, "-REMAIN-MEM")
    assert chosen.default_bytes == (3 * 10**9, 3 * 2**29)
