"""One name means one thing: no two public types of the packages share one."""

import ast
from collections import defaultdict

from tests.house import source

# Types that share a name because one is the other's wire form, or its form for users: each with its reason.
ALLOWED: dict[str, str] = {}
# What is still to be renamed: this only gets shorter.
REMAINING = frozenset(
    [
        "Advice",
        "Amount",
        "Answer",
        "At",
        "Batch",
        "Board",
        "Catalogue",
        "Change",
        "Client",
        "Command",
        "Commands",
        "Course",
        "Cuts",
        "Decoded",
        "Device",
        "Failure",
        "Got",
        "Group",
        "Headers",
        "Held",
        "History",
        "Holding",
        "Imported",
        "Json",
        "Kept",
        "Key",
        "Kind",
        "Known",
        "Line",
        "Lines",
        "Mark",
        "Memory",
        "Moment",
        "Move",
        "Op",
        "Outbox",
        "Outcome",
        "OwnMemory",
        "Past",
        "Place",
        "Placement",
        "Placements",
        "Point",
        "Policy",
        "Process",
        "Program",
        "Progress",
        "Publication",
        "Report",
        "Result",
        "Row",
        "Rule",
        "Sampler",
        "Scalar",
        "Search",
        "Searches",
        "Service",
        "Source",
        "Space",
        "Spoken",
        "State",
        "Task",
        "Tasks",
        "Timeout",
        "Token",
        "Told",
        "Trial",
        "Turn",
        "Value",
        "Verdict",
        "Waiting",
        "Word",
        "Worker",
        "Write",
    ]
)


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
    assert {name: shared[name] for name in shared.keys() - ALLOWED.keys() - REMAINING} == {}
    assert [name for name in ALLOWED if name not in shared] == [], "gone: take it off the list"
