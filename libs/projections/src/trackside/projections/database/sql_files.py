"""The SQL of this release that is put together from several folders: ours, and one for each aggregate."""

from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable

from trackside.aggregates.registry import AGGREGATES


@dataclass(frozen=True, slots=True)
class SqlView:
    """A view of schema dashboards; files are numbered, so that a view comes after those that it reads."""

    name: str
    statement: str


def aggregate_tables() -> str:
    """Returns the statements that create the tables of all aggregates."""
    return "\n".join((folder / "tables.sql").read_text("utf-8") for folder in _aggregate_folders())


def views() -> list[SqlView]:
    """Returns all views, in the order of the numbers of their files."""
    folders = [resources.files("trackside.projections"), *_aggregate_folders()]
    files = [file for folder in folders for file in _sql_files(folder / "views")]
    return [
        SqlView(file.name[5:].removesuffix(".sql"), file.read_text("utf-8"))
        for file in sorted(files, key=lambda file: file.name)
    ]


def _aggregate_folders() -> Iterator[Traversable]:
    for aggregate in AGGREGATES.types:
        package = type(aggregate).__module__.rpartition(".")[0]
        yield resources.files(package)


def _sql_files(folder: Traversable) -> Iterator[Traversable]:
    if folder.is_dir():
        yield from (file for file in folder.iterdir() if file.name.endswith(".sql"))
