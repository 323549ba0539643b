"""Prints how large the product and its tests are: `make count`.

Lines of Python under version control and its statements without docstrings and imports, by purpose; lines of
other files that are written by hand; and the files that have grown so long that one looks at them.
"""

import ast
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Final

LOOK_AT_LINES: Final = 400
OTHERS: Final = ("sql", "js", "html", "css", "yaml", "yml", "json")
ROOT: Final = Path(__file__).parents[1]


def files() -> list[Path]:
    """Returns the files under version control that are there."""
    listed = subprocess.run(("git", "ls-files", "-z"), cwd=ROOT, capture_output=True, text=True, check=True)
    return [path for name in listed.stdout.split("\0") if name and (path := ROOT / name).is_file()]


def purpose(path: Path) -> str:
    """Returns what a file is for: tests, or the part of the product that it is of."""
    parts = path.relative_to(ROOT).parts
    return "/".join(parts[:2]) if parts[0] in ("libs", "services", "deploy") and len(parts) > 2 else parts[0]


def statements(text: str) -> int:
    """Returns how many statements a module has, without docstrings and imports."""
    nodes = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.stmt))
    return sum(not (isinstance(node, ast.Import | ast.ImportFrom) or _is_text(node)) for node in nodes)


def _is_text(node: ast.stmt) -> bool:
    is_constant = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return is_constant and isinstance(node.value.value, str)  # type: ignore[attr-defined]


def main() -> None:
    """Prints the counts."""
    lines, code, others, long = Counter[str](), Counter[str](), Counter[str](), dict[Path, int]()
    for path in files():
        kind = path.suffix.removeprefix(".")
        if kind == "py":
            text = path.read_text("utf-8")
            count = len(text.splitlines())
            lines[purpose(path)] += count
            code[purpose(path)] += statements(text)
            if count > LOOK_AT_LINES:
                long[path] = count
        elif kind in OTHERS and "tests" not in path.relative_to(ROOT).parts:
            others[kind] += len(path.read_bytes().splitlines())
    report = [f"{'':24}{'lines':>9}{'statements':>12}"]
    report += [f"{name:24}{lines[name]:9,}{code[name]:12,}" for name in sorted(lines)]
    product = lines.total() - lines["tests"], code.total() - code["tests"]
    report.append(f"{'product':24}{product[0]:9,}{product[1]:12,}")
    report.append(f"product, other lines: {', '.join(f'{kind} {others[kind]:,}' for kind in sorted(others))}")
    for path, count in sorted(long.items(), key=lambda item: -item[1]):
        report.append(f"over {LOOK_AT_LINES} lines: {path.relative_to(ROOT)} ({count})")
    sys.stdout.write("\n".join(report) + "\n")


if __name__ == "__main__":
    main()
