"""Measures each test: its clock, its processor time with that of the processes it started, and its fixtures.

With `TRACKSIDE_TEST_TIMES` set to a folder, each process that runs tests appends a line of JSON per test to a
file of its own there. `make times` prints the tables of the last run (`python -m tests.times FOLDER`).
"""

import json
import os
import signal
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tests.stack import RUN_VARIABLE

FOLDER_VARIABLE = "TRACKSIDE_TEST_TIMES"
WORKER_VARIABLE = "PYTEST_XDIST_WORKER"
TICK_S = 1 / os.sysconf("SC_CLK_TCK")
KINDS = {
    "kafka.Kafka": "Kafka",
    "bin/postgres": "Postgres",
    "forkserver": "forkserver",
    "chromium": "Chromium",
    "trackside.embedded": "supervisor",
    "trackside.dispatcher": "dispatcher",
    "trackside.scheduler": "scheduler",
    "trackside.worker": "worker",
    "trackside.summary_indexer": "summary-indexer",
    "trackside.console": "console",
    "bin/trackside": "trackside command",
}
"""What a process is, by a part of its command line."""
LONGEST = 30
REFERENCE_S = 1.5
"""Processor time of the loop of `speed` on the machine for which CONTRIBUTING.md gives times."""
TURNS = 20_000_000
MEASURED_TURNS = TURNS // 10
Entry = TypeVar("Entry")


@dataclass(frozen=True)
class SetUp:
    """One set-up of a fixture, in seconds of the clock."""

    name: str
    scope: str
    clock_s: float


@dataclass
class Measured:
    """What one test took: seconds of the clock by phase, and of the processor in all.

    `left` has the processes that it started and that still ran at its end, by kind.
    """

    id: str
    setup_s: float = 0
    call_s: float = 0
    teardown_s: float = 0
    processor_s: float = 0
    outcome: str = "passed"
    fixtures: list[SetUp] = field(default_factory=list)
    left: dict[str, int] = field(default_factory=dict)

    @property
    def clock_s(self) -> float:
        """The seconds from the beginning of its set-up to the end of its teardown."""
        return self.setup_s + self.call_s + self.teardown_s

    @property
    def waited_s(self) -> float:
        """The seconds that it waited: for periods, for other processes' turns, and for a free processor."""
        return max(0.0, self.clock_s - self.processor_s)


class Processes:
    """This process and those that it started, also detached ones, which its environment marks.

    What a detached process uses after the last look at it is not counted.
    """

    def __init__(self) -> None:
        self._marks = {
            f"{name}={os.environ[name]}".encode()
            for name in (RUN_VARIABLE, WORKER_VARIABLE)
            if name in os.environ
        }
        self._kinds: dict[int, str] = {}
        self._last: dict[int, tuple[int, float]] = {}  # the parent, and the seconds
        self._detached_s = 0.0

    def seconds(self) -> float:
        """Returns the processor time of all of them so far, in s."""
        running = {int(name) for name in os.listdir("/proc") if name.isdigit()}  # noqa: PTH208 - per test
        for gone in self._kinds.keys() - running:
            del self._kinds[gone]
            parent, used_s = self._last.pop(gone, (0, 0.0))
            if not self._kinds.get(parent):  # otherwise its parent has waited for it and counts it
                self._detached_s += used_s
        for pid in running:
            if pid not in self._kinds:
                self._kinds[pid] = self._kind(pid)
            if self._kinds[pid] and (used := _used(pid)):
                self._last[pid] = used
        return self._detached_s + sum(used_s for _, used_s in self._last.values())

    def kinds(self) -> Counter[str]:
        """Returns how many run of each kind, as of the last look."""
        return Counter(kind for kind in self._kinds.values() if kind)

    def _kind(self, pid: int) -> str:
        """Returns what a process is, or "" if it is none of these."""
        if pid == os.getpid():
            return "tests"
        try:
            variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            command = Path(f"/proc/{pid}/cmdline").read_text(errors="replace").replace("\0", " ")
        except OSError:
            return ""  # it has ended
        if not self._marks.issubset(variables):
            return ""
        return next((kind for part, kind in KINDS.items() if part in command), "other")


def _used(pid: int) -> tuple[int, float] | None:
    """Returns a process's parent and the s that it and the children it waited for used; None if it ended."""
    try:
        content = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    fields = content[content.rindex(")") + 2 :].split()
    return int(fields[1]), sum(int(fields[place]) for place in (11, 12, 13, 14)) * TICK_S


class Recorder:
    """The plugin that writes a line for each test."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._output = (folder / f"{os.getpid()}.jsonl").open("a", encoding="utf-8")
        self._processes = Processes()
        self._current = Measured("")

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Measures one test, its fixtures included."""
        self._current = Measured(item.nodeid)
        before_s, before = self._processes.seconds(), self._processes.kinds()
        try:
            return (yield)
        finally:
            self._current.processor_s = self._processes.seconds() - before_s
            self._current.left = dict(self._processes.kinds() - before)
            self._output.write(json.dumps(asdict(self._current)) + "\n")
            self._output.flush()

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Generator[None, object, object]:
        """Measures the set-up of one fixture, without those that it asks for."""
        began_s = time.perf_counter()
        try:
            return (yield)
        finally:
            took_s = time.perf_counter() - began_s
            self._current.fixtures.append(SetUp(fixturedef.argname, fixturedef.scope, took_s))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Takes over the clock of one phase."""
        if report.nodeid == self._current.id:
            setattr(self._current, f"{report.when}_s", report.duration)
            if report.outcome != "passed":
                self._current.outcome = report.outcome


def speed() -> str:
    """Returns how fast this machine is, in a line: the times in CONTRIBUTING.md scale with it."""
    loop = compile("s = 0\nfor i in range(turns): s += i", "<speed>", "exec")
    began_s = time.process_time()
    exec(loop, {"turns": MEASURED_TURNS})  # noqa: S102 - a constant; within a function it would be quicker
    took_s = (time.process_time() - began_s) * TURNS / MEASURED_TURNS
    return f"speed: the loop of CONTRIBUTING.md takes {took_s:.1f} s ({REFERENCE_S} s where its times hold)"


def read(folder: Path) -> list[Measured]:
    """Returns what was measured of each test of the last run, process by process, in their order."""
    found = []
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            fields = json.loads(line)
            found.append(Measured(**{**fields, "fixtures": [SetUp(**one) for one in fields["fixtures"]]}))
    return found


def tables(measured: list[Measured]) -> Iterator[str]:
    """Yields the lines that `make times` prints: by folder, by file, by fixture, by test."""
    yield f"{len(measured)} tests"
    yield from _grouped("folder", measured, lambda test: "/".join(test.id.split("::")[0].split("/")[:-1]))
    yield from _grouped("file", measured, lambda test: test.id.split("::")[0])
    yield from _grouped("test", measured, lambda test: test.id)
    yield ""
    yield f"{'fixture':60} {'scope':9} {'times':>6} {'clock s':>9}"
    fixtures: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    for test in measured:
        for one in test.fixtures:
            fixtures[one.name, one.scope].append(one.clock_s)
    for (name, scope), took_s in _largest(fixtures.items(), lambda entry: sum(entry[1])):
        yield f"{name:60} {scope:9} {len(took_s):6} {sum(took_s):9.1f}"
    yield ""
    started: Counter[str] = sum((Counter(test.left) for test in measured), Counter())
    yield "still ran at the end of the test that started them: " + ", ".join(
        f"{count} {kind}" for kind, count in started.most_common()
    )


def _grouped(title: str, measured: list[Measured], key: Callable[[Measured], str]) -> Iterator[str]:
    groups: defaultdict[str, list[Measured]] = defaultdict(list)
    for test in measured:
        groups[key(test)].append(test)
    yield ""
    yield f"{title:76} {'tests':>6} {'clock s':>9} {'set-up s':>9} {'waited s':>9} {'processor s':>11}"
    for name, tests in _largest(groups.items(), lambda entry: sum(test.clock_s for test in entry[1])):
        yield (
            f"{name[-76:]:76} {len(tests):6} {sum(test.clock_s for test in tests):9.1f}"
            f" {sum(test.setup_s for test in tests):9.1f} {sum(test.waited_s for test in tests):9.1f}"
            f" {sum(test.processor_s for test in tests):11.1f}"
        )
    yield (
        f"{'all':76} {len(measured):6} {sum(test.clock_s for test in measured):9.1f}"
        f" {sum(test.setup_s for test in measured):9.1f} {sum(test.waited_s for test in measured):9.1f}"
        f" {sum(test.processor_s for test in measured):11.1f}"
    )


def _largest(entries: Iterable[Entry], size: Callable[[Entry], float]) -> list[Entry]:
    return sorted(entries, key=size, reverse=True)[:LONGEST]


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `make times | head` ends with the lines that head takes
    for line in tables(read(Path(sys.argv[1]))):
        print(line)  # noqa: T201 - what `make times` shows
