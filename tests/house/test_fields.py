"""Every field of the main states says what it is: a docstring below it."""

import ast
from collections.abc import Iterator

from tests.house import source

STATES = {
    "libs/aggregates/src/trackside/aggregates/batch/state.py": {"Batch"},
    "libs/aggregates/src/trackside/aggregates/model/state.py": {"Model", "ModelVersion"},
    "libs/aggregates/src/trackside/aggregates/pipeline/schedule/schedule_state.py": {"Schedule"},
    "libs/aggregates/src/trackside/aggregates/pipeline/state.py": {
        "NumberedRun",
        "DefinedPipeline",
        "PipelineVersion",
    },
    "libs/aggregates/src/trackside/aggregates/search/state.py": {
        "Added",
        "AssessorFailures",
        "Imported",
        "Search",
        "Trial",
    },
    "libs/aggregates/src/trackside/aggregates/summary/state.py": {"Summary", "SummaryFile"},
    "libs/contracts/src/trackside/contracts/fleet/fleet.py": {"Device"},
    "libs/domain/src/trackside/domain/fleet/fleet.py": {"Fleet", "Worker"},
    "libs/domain/src/trackside/domain/tasks/task.py": {"Attempt", "PastPlacement", "Place", "Task"},
}
"""The classes by module."""


def classes() -> Iterator[ast.ClassDef]:
    """Yields these classes."""
    for path, names in STATES.items():
        for node in source.tree(source.ROOT / path).body:
            if isinstance(node, ast.ClassDef) and node.name in names:
                yield node


def undescribed(node: ast.ClassDef) -> Iterator[str]:
    """Yields the fields of a class that no docstring follows."""
    for statement, following in zip(node.body, [*node.body[1:], None], strict=True):
        if isinstance(statement, ast.AnnAssign) and not _is_docstring(following):
            yield f"{node.name}.{ast.unparse(statement.target)}"


def _is_docstring(node: ast.stmt | None) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def test_every_field_of_the_main_states_has_a_docstring() -> None:
    assert sorted(node.name for node in classes()) == sorted(set().union(*STATES.values()))
    assert [field for node in classes() for field in undescribed(node)] == []


def test_a_field_without_a_docstring_is_found() -> None:
    module = ast.parse('class State:\n    named: int\n    """What it is."""\n    bare: str = ""\n')
    assert [
        field for node in module.body if isinstance(node, ast.ClassDef) for field in undescribed(node)
    ] == ["State.bare"]
