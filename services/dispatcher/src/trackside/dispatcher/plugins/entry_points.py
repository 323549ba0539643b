"""Finds classes that installed packages offer under an entry-point group."""

from functools import cache
from importlib.metadata import EntryPoint, entry_points


@cache
def installed_names(group: str) -> frozenset[str]:
    """Returns the names of a group that were installed at the first call."""
    return frozenset(entry.name for entry in entry_points(group=group))


def find_entry_point(group: str, kind: str, name: str) -> EntryPoint:
    """Returns the entry point of a name; raises ValueError if none or more than one has it."""
    offered = entry_points(group=group)
    entries = [entry for entry in offered if entry.name == name]
    if not entries:
        listed = ", ".join(sorted(entry.name for entry in offered)) or "none"
        raise ValueError(f"no {kind} {name!r} is installed; entry points of group {group}: {listed}")
    if len(entries) > 1:
        listed = ", ".join(sorted(entry.value for entry in entries))
        raise ValueError(f"several packages offer a {kind} {name!r}: {listed}; uninstall all but one")
    return entries[0]
