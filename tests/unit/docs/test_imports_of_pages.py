"""What pages and examples import is there: these modules and names are public, and stay."""

import ast
import re
from collections.abc import Iterator

import pytest

from tests.house.source import ROOT, python_files, shown

IMPORT = re.compile(r"^\s*(?:>>> )?((?:from trackside[\w.]* import|import trackside)\b.*)$", re.MULTILINE)


def imports() -> Iterator[tuple[str, str]]:
    """Yields the pages and examples, and the lines in them that import something of ours."""
    for page in sorted(ROOT.glob("**/*.md")):
        if not {".venv", ".cache", "node_modules"} & set(page.parts):
            text = re.sub(
                r"import \(\s*([^)]*?),?\s*\)",
                lambda m: f"import {' '.join(m[1].split())}",
                page.read_text("utf-8"),
            )
            yield from ((shown(page), line) for line in IMPORT.findall(text))
    for example in python_files("deploy/examples"):
        for node in ast.walk(ast.parse(example.read_text("utf-8"))):
            if isinstance(node, ast.Import | ast.ImportFrom) and "trackside" in (line := ast.unparse(node)):
                yield shown(example), line


@pytest.mark.parametrize(("page", "line"), sorted(set(imports())))
def test_what_a_page_imports_is_there(page: str, line: str) -> None:
    exec(line, {})  # noqa: S102 - a line of ours


def test_the_modules_that_users_know_are_among_them() -> None:
    modules = {line.split()[1] for _, line in imports()}
    named = {"trackside.sdk", "trackside.sdk.client", "trackside.sdk.pipelines", "trackside.sdk.training"}
    assert modules >= named | {"trackside.sdk.splits", "trackside.compat.clearml", "trackside.incremental"}
