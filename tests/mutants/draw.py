"""Draws mutants of the product: a changed comparison, a changed constant, a dropped statement.

The sites are all that functions of the product have, in the order of files and lines; the draw shuffles them
with a seed and takes at most so many a package, a folder with modules.
"""

import ast
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOTS = ("libs", "services")
EACH = 3
"""How many mutants of a package are drawn at most."""
COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
DROPPED = (ast.Assign, ast.AugAssign, ast.Expr, ast.Delete, ast.Raise, ast.Continue, ast.Break)


@dataclass(frozen=True)
class Mutant:
    """A change of one place: `before` becomes `after`; `statement` is the line at which a probe can stand."""

    path: str
    line: int
    column: int
    end_line: int
    end_column: int
    statement: int
    before: str
    after: str

    @property
    def package(self) -> str:
        """The folder of its module."""
        return str(Path(self.path).parent)


def drawn(root: Path, seed: int, each: int) -> list[Mutant]:
    """Returns all mutants that the seed draws, in its order, at most `each` a package."""
    found = [mutant for path in _modules(root) for mutant in mutants_of(root, path)]
    random.Random(seed).shuffle(found)
    taken: Counter[str] = Counter()
    kept = []
    for mutant in found:
        if taken[mutant.package] < each:
            taken[mutant.package] += 1
            kept.append(mutant)
    random.Random(seed + 1).shuffle(kept)  # otherwise the first ones would be those of the largest packages
    return kept


def _modules(root: Path) -> list[Path]:
    return sorted(
        path
        for name in ROOTS
        for path in (root / name).glob("*/src/**/*.py")
        if not path.name.endswith(("_pb2.py", "__init__.py"))
    )


def mutants_of(root: Path, path: Path) -> list[Mutant]:
    """Returns the mutants of one module, in the order of its lines."""
    source = path.read_text(encoding="utf-8")
    lines = source.splitlines()
    tree = ast.parse(source)
    found = []
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for statement in function.body:
                for holder, node, after in _changes(statement, statement):
                    first = lines[holder.lineno - 1]
                    if first[: holder.col_offset].strip():
                        continue  # a statement after a colon or a semicolon
                    before = ast.get_source_segment(source, node) or ""
                    found.append(
                        Mutant(
                            str(path.relative_to(root)),
                            node.lineno,
                            node.col_offset,
                            node.end_lineno or node.lineno,
                            node.end_col_offset or node.col_offset,
                            holder.lineno,
                            before,
                            after,
                        )
                    )
    return sorted(set(found), key=lambda mutant: (mutant.line, mutant.column, mutant.after))


def _changes(node: ast.AST, holder: ast.stmt) -> Iterator[tuple[ast.stmt, ast.expr | ast.stmt, str]]:
    """Yields (the statement at which a probe can stand, the node that is replaced, its new source)."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return  # a function within another is walked by itself
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        changed = ast.Compare(node.left, [COMPARISONS[type(node.ops[0])]()], node.comparators)
        yield holder, node, ast.unparse(changed)
    if isinstance(node, ast.Constant) and (after := _constant(node.value)):
        yield holder, node, after
    if isinstance(node, DROPPED) and not (
        isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    ):
        yield holder, node, "pass"
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "pattern") or (
            isinstance(node, ast.JoinedStr | ast.match_case) and name == "pattern"
        ):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.JoinedStr):
                continue  # texts for people are held by other tests
            if isinstance(child, ast.AST):
                # An `elif` is a statement before which none can stand.
                is_elif = isinstance(node, ast.If) and name == "orelse" and isinstance(child, ast.If)
                is_own = isinstance(child, ast.stmt) and not is_elif
                yield from _changes(child, child if is_own else holder)  # type: ignore[arg-type]


def _constant(value: object) -> str:
    if isinstance(value, bool):
        return str(not value)
    if isinstance(value, int | float):
        return repr(value + 1)
    return ""
