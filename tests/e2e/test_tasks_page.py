"""Everything that docs/tasks.md shows works in this order in an empty folder, with the output that it shows.

`TRACKSIDE_WRITE_PAGES=1` writes the outputs of this run into the page instead of comparing them.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e import recorded_page
from tests.e2e.harness import UserFolder
from tests.e2e.recorded_page import PageFile, Session
from tests.forked_processes import COMMAND
from tests.house.source import ROOT
from tests.nvml.standin import FakeNvml

pytestmark = [pytest.mark.timeout(900), pytest.mark.long]
PAGE = ROOT / "docs" / "tasks.md"
GPUS = 2


@pytest.fixture
def home(tmp_path: Path, nvml_library: Path) -> Iterator[UserFolder]:
    pytest.importorskip("torch", reason="the tasks of the page train with torch")
    path = tmp_path / "mine"
    path.mkdir()
    gpus = FakeNvml(nvml_library, tmp_path, gpus=GPUS)
    path_variable = f"{COMMAND.parent}:{os.environ['PATH']}"
    folder = UserFolder(path, {**gpus.variables, "PATH": path_variable, "COLUMNS": "88"})
    yield folder
    folder.run("down")
    assert folder.processes() == []


def test_the_page_on_tasks_works_from_an_empty_folder_to_a_search_on_a_gpu(
    home: UserFolder, leash: Path
) -> None:
    page = PAGE.read_text("utf-8")
    results = {}
    for step in recorded_page.steps(page):
        if isinstance(step, PageFile):
            (home.path / step.name).write_text(step.text)
            continue
        results[step.span] = outputs = recorded_page.run(
            step, home.path, home.environment, {"trackside up": f" --leash {leash}"}
        )
        if not os.environ.get("TRACKSIDE_WRITE_PAGES"):
            check(step, outputs)
    assert len(results) > 8
    if os.environ.get("TRACKSIDE_WRITE_PAGES"):
        PAGE.write_text(recorded_page.written(page, results), "utf-8")


def check(session: Session, outputs: list[tuple[str, list[str]]]) -> None:
    for (command, shown), (_, printed) in zip(session.commands, outputs, strict=True):
        assert recorded_page.same(shown, printed), "\n".join(
            [f"$ {command}", "the page shows:", *shown, "it printed:", *printed]
        )
