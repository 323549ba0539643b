import random
from pathlib import Path
from typing import Any

import pytest

from tests.soak import slopes
from tests.soak.__main__ import conclude, new_record
from tests.soak.checks import Check, CheckResult
from tests.soak.judgement import measure_checks, recoveries_of_single_faults, recovery_check
from tests.soak.options import SoakOptions, read_options
from tests.soak.records import ExperimentRecord, FaultRecord, Finding, RunRecord, read_ledger

MIB = 2**20
SEED = 4711


def options(folder: Path) -> SoakOptions:
    return read_options(["--hours", "0.1", "--folder", str(folder)], SEED)


def recorded(folder: Path) -> RunRecord:
    """Returns a run of ten minutes with two faults and two experiments."""
    record = new_record(options(folder))
    for at in range(60):
        record.add_sample(sample(at * 10.0, events=at * 40))
    record.add_fault(FaultRecord(20.0, "kill", "kafka", 6.5, 8.0))
    record.add_fault(FaultRecord(70.0, "kill", "kafka", 5.5, 9.0))
    record.add_experiment(ExperimentRecord(90.0, "search", "search-1", "tpe: DONE", 31.0))
    record.add_experiment(ExperimentRecord(95.0, "batch", "batch-1", "DONE", 12.0))
    record.attempts = {"finished": 1_000, "lost": 2, "adopted": 7}
    record.events, record.length_s, record.end_checked = 2_360, 600.0, True
    record.verifications = [800, 2_360]
    return record


def sample(at_s: float, events: int, kafka: int = 300 * MIB, worker: int = 80 * MIB) -> dict[str, Any]:
    memory = {"kafka": kafka, "worker": worker}
    state = {"at_s": at_s, "lag_s": 0.1, "ready": True, "events": events, "faults": 2}
    disk = {"topics": events * 900, "rows": 20 * MIB + events * 300, "wal": 32 * MIB, "logs": 10_000}
    processes = {name: {"pid": 7, "pss": pss, "files": 50} for name, pss in memory.items()}
    return {**state, "processes": processes, "disk": disk}


def by_name(checks: list[Check]) -> dict[str, Check]:
    return {check.name: check for check in checks}


@pytest.mark.thorough
def test_a_run_without_findings_has_passed_and_what_was_too_short_is_not_judged(tmp_path: Path) -> None:
    record = recorded(tmp_path)
    assert conclude(options(tmp_path), record) == "passed"
    checks = by_name(record.checks)
    assert checks["findings: experiments"].result is CheckResult.PASSED
    assert checks["memory of worker, in one process"].result is CheckResult.NOT_JUDGED
    assert checks["recovery from a fault that came alone"].value == "9.0 s at most, of 2 faults"
    assert checks["disk with each event"].result is CheckResult.PASSED


def test_memory_that_grows_for_hours_makes_it_fail_and_that_fills_a_limit_in_half_an_hour_does_not() -> None:
    sizes = [(at, (300 + 2 * at) * MIB, (80 + at // 10) * MIB) for at in range(720)]
    samples = [sample(at * 10.0, events=at, kafka=kafka, worker=worker) for at, kafka, worker in sizes]
    checks = by_name(list(measure_checks(samples)))
    assert checks["memory of worker, in one process"].result is CheckResult.FAILED
    assert checks["memory of worker, over the run"].result is CheckResult.FAILED
    assert checks["memory of kafka, at most"].result is CheckResult.FAILED
    assert checks["open files of kafka"].result is CheckResult.PASSED
    samples = [sample(at * 10.0, events=at, worker=(80 + min(at, 180) // 10) * MIB) for at in range(720)]
    checks = by_name(list(measure_checks(samples)))
    assert checks["memory of worker, in one process"].result is CheckResult.PASSED
    assert checks["memory of worker, over the run"].result is CheckResult.PASSED


@pytest.mark.thorough
def test_the_report_is_one_page_with_counts_pictures_and_findings(tmp_path: Path) -> None:
    record = recorded(tmp_path)
    conclude(options(tmp_path), record)
    page = (record.folder / "report.html").read_text("utf-8")
    assert page.count('src="data:image/png;base64,') == 4
    assert "http" not in page.split("base64")[0]
    assert "<td>kill</td><td>kafka</td><td class=number>2</td><td class=number>6.0</td>" in page
    assert "<td>search</td><td>tpe: DONE</td><td class=number>1</td>" in page
    assert "7 adopted, 1,000 finished, 2 lost" in page
    record = recorded(tmp_path / "another")  # in the same second, perhaps
    record.end_checked = False
    record.add_finding(Finding(33.0, "verification", "INV-3 <is> violated"))
    assert conclude(options(tmp_path), record) == "failed"
    assert by_name(record.checks)["checks of the end"].result is CheckResult.NOT_JUDGED
    assert "INV-3 &lt;is&gt; violated" in (record.folder / "report.html").read_text("utf-8")


def test_only_faults_that_came_alone_are_judged_by_their_recovery(tmp_path: Path) -> None:
    record = new_record(options(tmp_path))
    for at_s, ready_s in ((10.0, 400.0), (200.0, 350.0), (700.0, 7.0), (800.0, None)):
        record.add_fault(FaultRecord(at_s, "kill", "kafka", 1.0, ready_s))
    assert list(recoveries_of_single_faults(record)) == [7.0]
    assert recovery_check(record).result is CheckResult.PASSED
    record.add_fault(FaultRecord(750.0, "kill", "kafka", 1.0, 301.0))
    assert list(recoveries_of_single_faults(record)) == [7.0]
    record.faults.pop(-2)
    assert recovery_check(record).result is CheckResult.FAILED


@pytest.mark.thorough
def test_the_ledger_sums_the_faults_of_all_runs(tmp_path: Path) -> None:
    first = recorded(tmp_path / "runs")
    conclude(options(tmp_path / "runs"), first)
    second = RunRecord(first.folder, SEED, "2026-01-02T00:00:00+00:00")
    second.faults = [FaultRecord(1.0, "cut", "connections", None, None)] * 5
    conclude(options(tmp_path / "runs"), second)
    assert [line.faults for line in read_ledger(tmp_path / "runs" / "ledger.jsonl")] == [2, 5]
    assert "2 runs, 0 failed, 7 faults" in (first.folder / "report.html").read_text("utf-8")


@pytest.mark.parametrize(("hours", "disk"), [("0.1", "2g"), ("1", "2g"), ("24", "8g")])
def test_the_disk_has_room_for_these_hours(hours: str, disk: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert read_options(["--hours", hours], SEED).disk == disk
    with pytest.raises(SystemExit):
        read_options(["--hours", "0"], SEED)
    assert "must be above 0" in capsys.readouterr().err


LIMIT = slopes.GrowthLimit(20, "MiB", "a reason", MIB)


def life(length_s: float, per_hour: float, *, begin_s: float = 0.0, level: float = 100 * MIB) -> slopes.Life:
    """Returns a life that was sampled every ten seconds; in its warm-up it takes ever more."""
    found, rng = slopes.Life(), random.Random(7)
    for at in range(0, int(length_s) + 1, 10):
        warming = 50 * MIB * min(1.0, at / slopes.WARM_UP_S)
        noise = rng.uniform(-MIB, MIB)
        found.add(begin_s + at, level + warming + noise + per_hour * at / slopes.HOUR_S)
    return found


def test_memory_that_grows_in_each_life_fails_if_one_is_long_enough() -> None:
    check = slopes.leak_check("memory", [life(3_600, 60 * MIB), life(1_800, 50 * MIB)], LIMIT)
    assert check.result is CheckResult.FAILED
    assert check.value.startswith("+5") or check.value.startswith("+6")
    assert check.value.endswith("MiB/h in 2 lives")
    check = slopes.leak_check("memory", [life(3_600, 0.0)], LIMIT)
    assert check.result is CheckResult.PASSED
    assert check.value.endswith("in 1 life")
    assert check.limit == "20 MiB/h"
    check = slopes.leak_check("memory", [life(slopes.LIFE_S - 10, 600 * MIB)] * 9, LIMIT)
    assert check.result is CheckResult.NOT_JUDGED
    assert "the longest has 14.8" in check.value


def test_neither_a_short_life_nor_a_third_of_outliers_changes_a_verdict() -> None:
    lives = [life(slopes.LIFE_S, 400 * MIB), life(7_200, 0.0)]
    assert slopes.leak_check("memory", lives, LIMIT).result is CheckResult.PASSED
    found = life(3_600, 0.0)
    found.values[120::3] = [10 * 100 * MIB] * len(found.values[120::3])
    assert slopes.leak_check("memory", [found], LIMIT).result is CheckResult.PASSED


def test_memory_that_is_higher_after_each_start_fails_though_no_life_grows() -> None:
    lives = [life(600, 0.0, begin_s=at * 600, level=(100 + 20 * at) * MIB) for at in range(6)]
    assert slopes.leak_check("memory", lives, LIMIT).result is CheckResult.NOT_JUDGED
    check = slopes.drift_check("memory", lives, LIMIT)
    assert check.result is CheckResult.FAILED
    lives = [life(600, 0.0, begin_s=at * 600) for at in range(6)]
    assert slopes.drift_check("memory", lives, LIMIT).result is CheckResult.PASSED
    check = slopes.drift_check("memory", [life(slopes.RUN_S - 100, 900 * MIB)], LIMIT)
    assert check.result is CheckResult.NOT_JUDGED


def test_a_ratio_above_its_limit_fails() -> None:
    events = [float(at * 100) for at in range(50)]
    written = [at * 7_000 for at in events]
    assert slopes.ratio_check("disk", events, written, 6_000, "B", "").result is CheckResult.FAILED
    assert slopes.ratio_check("disk", events, written, 8_000, "B", "").result is CheckResult.PASSED
    assert slopes.ratio_check("disk", events[:3], written[:3], 1, "B", "").result is CheckResult.NOT_JUDGED


def test_the_slope_of_a_day_is_that_of_its_line() -> None:
    times = [float(at) for at in range(0, 86_400, 10)]
    assert abs(slopes.slope(times, [3 * at + 5 for at in times]) - 3) < 1e-6
