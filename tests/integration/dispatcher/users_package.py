"""A user's package with entry points, as pip installs it, and the process in which it is asked."""

from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from trackside.dispatcher.advice.advisor_process import AdvisorProcess
from trackside.dispatcher.plugins.entry_points import installed_names


def write_package(folder: Path, name: str, source: str, entry_points: str) -> None:
    """Writes a package of one module into a folder of the path."""
    (folder / f"{name}.py").write_text(source)
    metadata = folder / f"{name}-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(entry_points)


def installed_package(name: str, source: str, entry_points: str) -> Any:
    """Returns the fixture that installs a package for the process of each test and its children."""

    @pytest.fixture(autouse=True)
    def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        write_package(tmp_path, name, source, entry_points)
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))
        monkeypatch.syspath_prepend(str(tmp_path))
        installed_names.cache_clear()
        yield
        installed_names.cache_clear()

    return package


def advisor(name: str, argv: Sequence[str] | None = None) -> Any:
    """Returns the fixture of an advisor process of this name."""

    @pytest.fixture
    async def process() -> AsyncIterator[AdvisorProcess]:
        made = AdvisorProcess(name, argv)
        yield made
        await made.close()

    return process
