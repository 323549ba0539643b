"""What installed packages offer under an entry-point group. Only processes that run plug-ins call this."""

from collections.abc import Callable, Collection, Iterable, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import TypeVar

from trackside.contracts.envelope.ids import IDENTIFIER_RULE, is_identifier

T = TypeVar("T")


def load_plugins(
    group: str, built_in: Mapping[str, T], load: Callable[[EntryPoint, Mapping[str, T]], T]
) -> tuple[dict[str, T], list[tuple[EntryPoint, Exception]]]:
    """Returns what is built in and what packages offer, by name, and the entry points that can't be loaded.

    `load` is called with each entry point, in the order of their names, and what was found before it; an
    error that it raises leaves this one out.
    """
    found = dict(built_in)
    broken: list[tuple[EntryPoint, Exception]] = []
    for point in sorted(entry_points(group=group), key=lambda point: (point.name, point.value)):
        try:
            found[point.name] = load(point, found)
        except Exception as error:  # noqa: BLE001 - a package that is broken must not stop the others
            broken.append((point, error))
    return found, broken


def check_plugin_name(point: EntryPoint, found: Iterable[str], built_in: Collection[str], kind: str) -> None:
    """Raises ValueError for an entry point whose name is no identifier, or that of another one."""
    if not is_identifier(point.name):
        raise ValueError(f"its name is not an identifier: {IDENTIFIER_RULE}")
    if point.name in found:
        owner = "Trackside" if point.name in built_in else "another package"
        raise ValueError(f"{owner} has a {kind} of this name")


def package_of(point: EntryPoint) -> str:
    """Returns the package of an entry point as the end of a name, such as ` of audio-kinds`; may be empty."""
    return "" if point.dist is None else f" of {point.dist.name}"


def find_entry_point(group: str, kind: str, name: str, built_in: Iterable[str] = ()) -> EntryPoint:
    """Returns the entry point of a name; raises ValueError if none or more than one has it.

    `built_in` are the names that don't need a package, listed with those that do.
    """
    offered = entry_points(group=group)
    entries = [entry for entry in offered if entry.name == name]
    if not entries:
        listed = ", ".join([*sorted(built_in), *sorted(entry.name for entry in offered)]) or "none"
        where = "known" if built_in else f"entry points of group {group}"
        raise ValueError(f"no {kind} {name!r} is installed; {where}: {listed}")
    if len(entries) > 1:
        listed = ", ".join(sorted(entry.value for entry in entries))
        raise ValueError(f"several packages offer a {kind} {name!r}: {listed}; uninstall all but one")
    return entries[0]
