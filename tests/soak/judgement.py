"""The verdict on a run: what it took over time, its experiments and its findings. Pure."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from types import MappingProxyType
from typing import Any

from tests.soak.checks import Check, CheckResult, counted
from tests.soak.measures import ARTIFACTS, LOG, PAST, ROWS, TASKS, WAL
from tests.soak.records import RunRecord
from tests.soak.slopes import GrowthLimit, Life, drift_check, leak_check, ratio_check

MIB = 2**20
MEMORY = GrowthLimit(
    20, "MiB", "half a gigabyte in a day: more than any of these processes takes in all", MIB
)
DRIFT = GrowthLimit(
    10, "MiB", "state that is read again after each start: what is kept of ended experiments is small", MIB
)
FILLED_S = 1_800.0
"""How long memory fills what has a limit, before its growth is judged: services that fold streams keep the
newest thousand of those that are over, which took 32 minutes of the first hour that was run.
"""
BOUNDED = ("kafka", "postgres", "soak")
"""What is judged by the most that it takes: the heap of Kafka (512 MiB) and the buffers of Postgres (128 MiB)
fill for hours after each start, and the process of the soak does not belong to the stack.
"""
BOUNDED_BYTES = 1_000 * MIB
FILES = GrowthLimit(10, "files", "a limit of 1,024 open files would be reached after four days")
OTHER_DISK = GrowthLimit(5, "MiB", "what is not the log, its rows or artifacts must not fill a disk", MIB)
EVENT_BYTES = 6_000.0
EVENT_REASON = "docs/operations.md: 25 kB a trial, in the log and in rows, of five events at least"
OF_THE_LOG = frozenset({LOG, ROWS, WAL, ARTIFACTS, PAST})
RECOVERY_LIMIT_S = 300.0
RECOVERY_REASON = "an alert fires after five minutes"
EXPLANATIONS = MappingProxyType(
    {
        "experiments": "each ended as it must, and each of its parts once",
        "commands": "each published command has one answer",
        "verification": "`trackside verify-log` during the run and at its end",
        "rows": "rows equal a rebuild",
        "stack": "ready at the end, and no process is left",
        "soak": "errors of the soak itself",
    }
)


def measure_checks(samples: Iterable[dict[str, Any]]) -> Iterator[Check]:
    """Yields the checks of what was sampled."""
    memory: defaultdict[str, dict[int, Life]] = defaultdict(dict)
    files: defaultdict[str, dict[int, Life]] = defaultdict(dict)
    other, events, log = Life(), list[float](), list[float]()
    for each in samples:
        at_s = each["at_s"]
        for name, found in each["processes"].items():
            if name != TASKS and found["pss"]:
                files[name].setdefault(found["pid"], Life()).add(at_s, found["files"])
                if at_s >= FILLED_S or name in BOUNDED:
                    memory[name].setdefault(found["pid"], Life()).add(at_s, found["pss"])
        disk = each["disk"]
        other.add(at_s, sum(size for name, size in disk.items() if name not in OF_THE_LOG))
        events.append(each["events"])
        log.append(sum(disk.get(name, 0) for name in (LOG, ROWS, ARTIFACTS)))
    for name in sorted(files):
        found = list(memory[name].values())
        if name in BOUNDED:
            largest = max(value for life in found for value in life.values)
            yield Check(
                f"memory of {name}, at most",
                CheckResult.FAILED if largest > BOUNDED_BYTES else CheckResult.PASSED,
                f"{largest / MIB:,.0f} MiB",
                f"{BOUNDED_BYTES / MIB:,.0f} MiB",
                "twice what a heap or buffers have, and more",
            )
        else:
            yield leak_check(f"memory of {name}, in one process", found, MEMORY)
            yield drift_check(f"memory of {name}, over the run", found, DRIFT)
    for name, lives in sorted(files.items()):
        yield leak_check(f"open files of {name}", list(lives.values()), FILES)
    yield ratio_check("disk with each event", events, log, EVENT_BYTES, "B", EVENT_REASON)
    yield drift_check("disk without the log", [other], OTHER_DISK)


def experiment_checks(run: RunRecord) -> Iterator[Check]:
    """Yields the checks of what ended wrongly, by where it was found."""
    found = Counter(finding.check for finding in run.findings)
    for name, meaning in EXPLANATIONS.items():
        yield counted(f"findings: {name}", found[name], meaning)
    name, times = "verified while it ran", len(run.verifications)
    if times:
        value = f"{times} {'time' if times == 1 else 'times'}, {run.verifications[-1]:,} events at last"
        yield Check(name, CheckResult.PASSED, value, "1 time")
    else:
        yield Check(name, CheckResult.NOT_JUDGED, "never: the run was short", "1 time")


def recovery_check(run: RunRecord) -> Check:
    """Checks the longest time until everything was ready after a fault that came alone."""
    name, limit = "recovery from a fault that came alone", f"{RECOVERY_LIMIT_S:.0f} s"
    found = list(recoveries_of_single_faults(run))
    if not found:
        return Check(name, CheckResult.NOT_JUDGED, "no such fault", limit, RECOVERY_REASON)
    result = CheckResult.FAILED if max(found) > RECOVERY_LIMIT_S else CheckResult.PASSED
    value = f"{max(found):.1f} s at most, of {len(found)} faults"
    return Check(name, result, value, limit, RECOVERY_REASON)


def recoveries_of_single_faults(run: RunRecord) -> Iterator[float]:
    """Yields how long recoveries took that began after the last one had ended, and had no other fault."""
    faults = sorted(run.faults, key=lambda fault: fault.at_s)
    busy_until_s = 0.0
    for number, fault in enumerate(faults):
        over_s = fault.at_s + fault.ready_s if fault.ready_s is not None else float("inf")
        next_s = faults[number + 1].at_s if number + 1 < len(faults) else float("inf")
        if fault.ready_s is not None and busy_until_s <= fault.at_s and over_s <= next_s:
            yield fault.ready_s
        busy_until_s = max(busy_until_s, over_s)
