import importlib.util
import re
import runpy
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from trackside.sdk import trial
from trackside.sdk.in_task.channel import ScreenChannel

pytestmark = pytest.mark.thorough

PAGES = [Path(__file__).parents[3] / "docs" / name for name in ("tasks.md", "tuners.md", "assessors.md")]
SNIPPET = re.compile(r"^```python\n(.*?)^```\n(?:\n^```text\n(.*?)^```\n)?", re.MULTILINE | re.DOTALL)


def snippets() -> list[ParameterSet]:
    """Returns the Python of each page: its line, its text, and the output that stands right below it."""
    found = []
    for page in PAGES:
        text = page.read_text("utf-8")
        for snippet in SNIPPET.finditer(text):
            line = text[: snippet.start(1)].count("\n") + 1
            found.append(pytest.param(line, snippet[1], snippet[2] or "", id=f"{page.stem}-line-{line}"))
    return found


def test_the_pages_have_snippets() -> None:
    counts = [page.read_text("utf-8").count("```python") for page in PAGES]
    assert all(counts)
    assert len(snippets()) == sum(counts) > 3


@pytest.mark.parametrize(("line", "code", "printed"), snippets())
def test_a_snippet_runs_and_prints_what_the_page_says(
    line: int,
    code: str,
    printed: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if "import torch" in code and importlib.util.find_spec("torch") is None:
        pytest.skip("make check needs no torch")
    for name in ("TRACKSIDE_TASK_ID", "TRACKSIDE_PARAMETERS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    trial.connect(ScreenChannel())
    path = tmp_path / "mine.py"
    path.write_text("\n" * (line - 1) + code)  # so that a traceback names the line of the page
    runpy.run_path(str(path), run_name="__main__")
    if printed:
        assert capsys.readouterr().out == printed
