"""One name means one thing: no two public types of the packages share one."""

import ast
from collections import defaultdict

from tests.house import source

# Two types that share a name because one is the other's wire form or its form for users; each with why.
ALLOWED = {
    "Search": "users define and run one with trackside.sdk; trackside.aggregates has its state in the log",
    "Task": "users write one as a class of trackside.sdk; trackside.domain has its state in the log",
}


def public_types() -> dict[str, list[str]]:
    """Returns the modules that define each public type: classes and aliases at their top level."""
    found = defaultdict(list)
    for path in source.python_files("libs", "services"):
        for node in source.tree(path).body:
            name = _type_name(node)
            if name and not name.startswith("_"):
                found[name].append(source.shown(path))
    return found


def _type_name(node: ast.stmt) -> str | None:
    """Returns the name of a class or of an alias such as `Key = tuple[str, int]`, else None."""
    if isinstance(node, ast.ClassDef):
        return node.name
    target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
    if not isinstance(target, ast.Name) or not target.id[:1].isupper() or target.id.isupper():
        return None
    return target.id


def test_no_two_public_types_share_a_name() -> None:
    shared = {name: modules for name, modules in public_types().items() if len(modules) > 1}
    assert {name: modules for name, modules in shared.items() if name not in ALLOWED} == {}


def test_each_name_that_may_be_shared_is_shared_by_two_types() -> None:
    types = public_types()
    assert {name: types[name] for name in ALLOWED if len(types[name]) != 2} == {}
