"""Which tests run a line, also in processes that they start: probes before the lines, and who hit them.

python -m tests.mutants.probes plant SEED  # in a clone: changes its modules
TRACKSIDE_TEST_PROBES=FOLDER pytest -p tests.mutants.probes ...
python -m tests.mutants.probes tests SEED FOLDER
"""

import json
import os
import shutil
from collections import defaultdict
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.mutants import probe_hits
from tests.mutants.draw import Mutant

PLANTED = Path("libs/contracts/src/trackside/contracts/probe_hits.py")


def plant(root: Path, mutants: list[Mutant]) -> None:
    """Puts a probe before the statement of each mutant, and what it calls into the product."""
    shutil.copy(probe_hits.__file__, root / PLANTED)
    sites: defaultdict[str, defaultdict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for number, mutant in enumerate(mutants):
        sites[mutant.path][mutant.statement].append(number)
    for path, by_line in sites.items():
        lines = (root / path).read_text(encoding="utf-8").splitlines(keepends=True)
        for line in sorted(by_line, reverse=True):
            indent = lines[line - 1][: len(lines[line - 1]) - len(lines[line - 1].lstrip())]
            calls = "; ".join(f"_probe.hit({number})" for number in by_line[line])
            lines.insert(line - 1, f"{indent}from trackside.contracts import probe_hits as _probe; {calls}\n")
        (root / path).write_text("".join(lines), encoding="utf-8")


def tests_of(folder: Path) -> dict[int, list[str]]:
    """Returns the ids of the tests that hit each probe, as a run wrote them."""
    found: defaultdict[int, set[str]] = defaultdict(set)
    for hits in folder.glob("*.hits"):
        ids = [json.loads(line) for line in hits.with_suffix(".ids").read_text().splitlines()]
        for line in hits.read_text().splitlines():
            probe, test = map(int, line.split())
            found[probe].add(ids[test])
    return {probe: sorted(ids) for probe, ids in found.items()}


class Marker:
    """The plugin that says which test runs now, to all processes of its worker."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._worker = os.environ.get("PYTEST_XDIST_WORKER", "alone")
        ids = folder / f"{self._worker}.ids"
        self._count = len(ids.read_text().splitlines()) if ids.exists() else 0

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Names the test before it begins."""
        with (self._folder / f"{self._worker}.ids").open("a", encoding="utf-8") as ids:
            ids.write(json.dumps(item.nodeid) + "\n")
        now = self._folder / f"{self._worker}.now"
        if not now.exists():
            now.touch(0o666)
        with now.open("r+b") as file:
            file.write(probe_hits.NUMBER.pack(self._count))
        self._count += 1
        return (yield)


def pytest_configure(config: pytest.Config) -> None:
    """Registers the marker, if probes are recorded."""
    if folder := os.environ.get(probe_hits.FOLDER_VARIABLE):
        config.pluginmanager.register(Marker(Path(folder)))
