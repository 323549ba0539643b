"""The names of an entry-point group, looked up once."""

from functools import cache
from importlib.metadata import entry_points


@cache
def installed_names(group: str) -> frozenset[str]:
    """Returns the names of a group that were installed at the first call."""
    return frozenset(entry.name for entry in entry_points(group=group))
