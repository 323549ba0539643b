"""A next build of this tree: a copy that writes one more field in an event of each service."""

import shutil
from pathlib import Path

from tests.house.source import ROOT

NEXT = "next"
"""What the field `build` says in events of the next build; older ones lack it."""
MESSAGES, ACCEPTED = "libs/contracts/src/trackside/contracts/tasks/tasks.py", "class TaskAccepted(Event):\n"
FIELD, VALUE = '    build: str = ""\n', f'build="{NEXT}", '
_ADDED = [
    (
        "libs/aggregates/src/trackside/aggregates/search/messages.py",
        "    parameters: Json\n    seen: int\n",
        FIELD,
    ),
    (MESSAGES, "    reserved: Reservation = Reservation()\n    behind: bool = False\n", FIELD),
    (MESSAGES, ACCEPTED, FIELD),
    (
        "libs/aggregates/src/trackside/aggregates/search/trials/suggestions.py",
        " suggested = TrialSuggested(",
        VALUE,
    ),
    ("services/scheduler/src/trackside/scheduler/decide.py", " return TaskAssigned(", VALUE),
    ("services/worker/src/trackside/worker/reporting/reporter.py", " event = TaskAccepted(", VALUE),
]
"""What is added to which file, after which text: a field of an event, and its value where it is written."""
_GENERATIONS = "libs/projections/src/trackside/projections/writing/definitions.py"


def python_path(folder: Path, *, new_tables: bool) -> str:
    """Makes the build in a folder; returns the PYTHONPATH that puts it before the installed one.

    With `new_tables` its read models have another generation, as after a change of their definitions.
    """
    packages = sorted(path.relative_to(ROOT) for path in ROOT.glob("*/*/src") if path.parts[-3] != "deploy")
    for package in packages:
        shutil.copytree(ROOT / package, folder / package)
    for name, before, added in _ADDED:
        _change(folder / name, before, before + added)
    if new_tables:
        _change(folder / _GENERATIONS, "{DISPATCHER: ", "{DISPATCHER: 10")
        _change(folder / _GENERATIONS, "SCHEDULER: ", "SCHEDULER: 10")
    return ":".join(str(folder / package) for package in packages)


def _change(path: Path, old: str, new: str) -> None:
    text = path.read_text("utf-8")
    assert text.count(old) == 1, (
        f"{path} has {old!r} {text.count(old)} times, expected once: change this test"
    )
    path.write_text(text.replace(old, new), "utf-8")
