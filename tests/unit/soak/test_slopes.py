"""What grows fails, what stays passes, and what was seen too shortly is not judged."""

import random

from tests.soak.checks import CheckResult
from tests.soak.slopes import (
    HOUR_S,
    LIFE_S,
    RUN_S,
    WARM_UP_S,
    GrowthLimit,
    Life,
    drift_check,
    leak_check,
    ratio_check,
    slope,
)

MIB = 2**20
LIMIT = GrowthLimit(20, "MiB", "a reason", MIB)


def life(length_s: float, per_hour: float, *, begin_s: float = 0.0, level: float = 100 * MIB) -> Life:
    """Returns a life that was sampled every ten seconds; in its warm-up it takes ever more."""
    found, rng = Life(), random.Random(7)
    for at in range(0, int(length_s) + 1, 10):
        warming = 50 * MIB * min(1.0, at / WARM_UP_S)
        noise = rng.uniform(-MIB, MIB)
        found.add(begin_s + at, level + warming + noise + per_hour * at / HOUR_S)
    return found


def test_memory_that_grows_in_each_life_fails() -> None:
    check = leak_check("memory", [life(3_600, 60 * MIB), life(1_800, 50 * MIB)], LIMIT)
    assert check.result is CheckResult.FAILED
    assert check.value.startswith("+5") or check.value.startswith("+6")
    assert check.value.endswith("MiB/h in 2 lives")


def test_memory_that_stays_after_the_warm_up_passes() -> None:
    check = leak_check("memory", [life(3_600, 0.0)], LIMIT)
    assert check.result is CheckResult.PASSED
    assert check.value.endswith("in 1 life")
    assert check.limit == "20 MiB/h"


def test_no_life_that_is_long_enough_is_not_judged() -> None:
    check = leak_check("memory", [life(LIFE_S - 10, 600 * MIB)] * 9, LIMIT)
    assert check.result is CheckResult.NOT_JUDGED
    assert "the longest has 14.8" in check.value


def test_a_short_life_counts_for_less_than_a_long_one() -> None:
    lives = [life(LIFE_S, 400 * MIB), life(7_200, 0.0)]
    assert leak_check("memory", lives, LIMIT).result is CheckResult.PASSED


def test_a_third_of_outliers_changes_no_verdict() -> None:
    found = life(3_600, 0.0)
    found.values[120::3] = [10 * 100 * MIB] * len(found.values[120::3])
    assert leak_check("memory", [found], LIMIT).result is CheckResult.PASSED


def test_memory_that_is_higher_after_each_start_fails_though_no_life_grows() -> None:
    lives = [life(600, 0.0, begin_s=at * 600, level=(100 + 20 * at) * MIB) for at in range(6)]
    assert leak_check("memory", lives, LIMIT).result is CheckResult.NOT_JUDGED
    check = drift_check("memory", lives, LIMIT)
    assert check.result is CheckResult.FAILED


def test_memory_that_is_the_same_after_each_start_passes() -> None:
    lives = [life(600, 0.0, begin_s=at * 600) for at in range(6)]
    assert drift_check("memory", lives, LIMIT).result is CheckResult.PASSED


def test_a_run_that_is_too_short_is_not_judged() -> None:
    check = drift_check("memory", [life(RUN_S - 100, 900 * MIB)], LIMIT)
    assert check.result is CheckResult.NOT_JUDGED


def test_a_ratio_above_its_limit_fails() -> None:
    events = [float(at * 100) for at in range(50)]
    written = [at * 7_000 for at in events]
    assert ratio_check("disk", events, written, 6_000, "B", "").result is CheckResult.FAILED
    assert ratio_check("disk", events, written, 8_000, "B", "").result is CheckResult.PASSED
    assert ratio_check("disk", events[:3], written[:3], 1, "B", "").result is CheckResult.NOT_JUDGED


def test_the_slope_of_a_day_is_that_of_its_line() -> None:
    times = [float(at) for at in range(0, 86_400, 10)]
    assert abs(slope(times, [3 * at + 5 for at in times]) - 3) < 1e-6
