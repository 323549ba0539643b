"""Counts the calls of functions in each Python process whose PYTHONPATH has this folder.

A count is asked for by another text in the file `asked` of the folder that TRACKSIDE_COUNTS names. Each
process answers with a file: its arguments; how often a thread of it has waited so far; and the calls in
all of its threads by function, those of built-in functions included.

As much is done at once on any machine: an event of a worker waits for the next one as long as it needs, and
rows are written once a second, without snapshots in between. The calls by which a worker reads what each
process of the host is, once a second while a task runs, are left out: there may be any number of processes.
"""

import cProfile
import json
import os
import sys
import threading
import time
from collections import Counter
from pathlib import Path

_LINGER_S = 10.0
_PACE = {"gather_s": 1.0, "between_s": 1.0, "quiet_s": 3600.0, "checkpoint_records": 1_000_000}
_LOOK_S = 0.02
_READS_PROCESSES = ("_read_stats", "parse_stat", "_text")
"""The functions of the worker's usage.py that are called once for each process of the host."""
_NEVER_S = 1e6
_profiles: list[cProfile.Profile] = []
_run = threading.Thread.run


def _counted_run(thread: threading.Thread) -> None:
    profile = cProfile.Profile()
    _profiles.append(profile)
    profile.enable()
    try:
        _run(thread)
    finally:
        profile.disable()


def _calls() -> Counter[str]:
    # A profile is a tree that each call of its thread may turn: no other thread may run while it is read.
    before = sys.getswitchinterval()
    sys.setswitchinterval(_NEVER_S)
    try:
        entries = [entry for profile in _profiles for entry in profile.getstats()]
    finally:
        sys.setswitchinterval(before)
    found: Counter[str] = Counter()
    for entry in entries:
        if not _reads_processes(entry.code):
            found[_name(entry.code)] += entry.callcount
            continue
        for called in entry.calls or ():
            if not _reads_processes(called.code):
                found[_name(called.code)] -= called.callcount
    return found


def _reads_processes(code: object) -> bool:
    path, name = getattr(code, "co_filename", ""), getattr(code, "co_qualname", "")
    return path.endswith("/worker/host/usage.py") and name.partition(".")[0] in _READS_PROCESSES


def _name(code: object) -> str:
    if isinstance(code, str):
        return code
    return f"{code.co_filename}:{code.co_firstlineno} {code.co_qualname}"  # type: ignore[attr-defined]


def _waits() -> int:
    found = 0
    for thread in os.listdir("/proc/self/task"):  # noqa: PTH208 - pathlib would be counted
        if int(thread) != threading.get_native_id():
            try:
                status = Path(f"/proc/self/task/{thread}/status").read_text()
            except OSError:  # it has ended
                continue
            found += int(status.partition("\nvoluntary_ctxt_switches:")[2].split()[0])
    return found


def _gather() -> None:
    if (outbox := sys.modules.get("trackside.worker.reporting.outbox")) is not None:
        outbox.LINGER_S = _LINGER_S  # type: ignore[attr-defined]
    if (pace := getattr(sys.modules.get("trackside.projections.writing.runner"), "PACE", None)) is not None:
        for name, value in _PACE.items():
            object.__setattr__(pace, name, value)


def _answer(folder: Path) -> None:
    last = ""
    while True:
        time.sleep(_LOOK_S)
        _gather()
        asked = (folder / "asked").read_text()
        if asked != last:
            last = asked
            written = folder / f"{os.getpid()}.new"
            written.write_text(json.dumps([sys.orig_argv, _waits(), _calls()]))
            written.rename(folder / f"{asked}-{os.getpid()}.json")


if "TRACKSIDE_COUNTS" in os.environ:
    _answering = threading.Thread(
        target=_answer, args=(Path(os.environ["TRACKSIDE_COUNTS"]),), name="counts", daemon=True
    )
    _answering.start()
    threading.Thread.run = _counted_run  # type: ignore[method-assign, assignment]
    _profiles.append(cProfile.Profile())
    _profiles[0].enable()
