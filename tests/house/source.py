"""The repository as the house tests see it: members, modules, syntax trees."""

import ast
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
OWN = ("libs", "services", "deploy", "tests")
NOT_OURS = ("__pycache__", ".venv", "node_modules")


@cache
def project(folder: str = ".") -> dict[str, Any]:
    """Returns the pyproject.toml of a folder as a table."""
    return tomllib.loads((ROOT / folder / "pyproject.toml").read_text("utf-8"))


def members() -> list[str]:
    """Returns the folders of the packages, such as libs/domain: each has a source root of its own."""
    return [
        shown(path.parent) for area in ("libs", "services") for path in sorted((ROOT / area).glob("*/src"))
    ]


def package(member: str) -> Path:
    """Returns the folder of a package's modules, such as libs/domain/src/trackside/domain."""
    return ROOT / member / "src" / "trackside" / Path(member).name


def python_files(*folders: str) -> Iterator[Path]:
    """Yields our own Python files below these folders."""
    for folder in folders or OWN:
        for path in sorted((ROOT / folder).rglob("*.py")):
            if not any(part in NOT_OURS for part in path.parts):
                yield path


@cache
def tree(path: Path) -> ast.Module:
    """Returns the syntax tree of a file."""
    return ast.parse(path.read_text("utf-8"), filename=str(path))


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """Returns all nodes of the syntax tree of a file, in the order of `ast.walk`."""
    return tuple(ast.walk(tree(path)))


def forget() -> None:
    """Releases all syntax trees."""
    tree.cache_clear()
    nodes.cache_clear()


def shown(path: Path) -> str:
    """Returns a path as people type it, from the root of the repository."""
    return path.relative_to(ROOT).as_posix()


@cache
def imported(path: Path) -> frozenset[str]:
    """Returns the dotted names of all modules that a file imports, in functions too."""
    found: set[str] = set()
    for node in nodes(path):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return frozenset(found)
