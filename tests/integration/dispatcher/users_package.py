"""A user's package with entry points, as pip installs it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from trackside.dispatcher.plugins.entry_points import installed_names


def write_package(folder: Path, name: str, source: str, entry_points: str) -> None:
    """Writes a package of one module into a folder of the path."""
    (folder / f"{name}.py").write_text(source)
    metadata = folder / f"{name}-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(entry_points)


@contextmanager
def installed_package(
    folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, source: str, entry_points: str
) -> Iterator[None]:
    """Installs a package for this process and its children."""
    write_package(folder, name, source, entry_points)
    monkeypatch.setenv("PYTHONPATH", str(folder))
    monkeypatch.syspath_prepend(str(folder))
    installed_names.cache_clear()
    yield
    installed_names.cache_clear()
