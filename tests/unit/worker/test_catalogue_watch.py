"""The catalogue is read again when its file has changed, and stays as it was while the file is invalid."""

from pathlib import Path

import pytest
import structlog
from structlog.testing import capture_logs

from trackside.worker.catalogue.catalogue_watch import CatalogueChange, CatalogueWatch
from trackside.worker.catalogue.task_catalogue import read_catalogue

ONE = "tasks: {fit: {entry: 'fit:Fit', max_memory: 1GiB}}\n"
TWO = "tasks: {fit: {entry: 'fit:Other', max_memory: 1GiB}, count: {program: [bash, count.sh]}}\n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "catalogue.yaml"
    path.write_text(ONE)
    return path


@pytest.fixture
def watch(path: Path) -> CatalogueWatch:
    return CatalogueWatch(path, read_catalogue(path))


def seen(watch: CatalogueWatch) -> CatalogueChange | None:
    """Looks twice: a change counts once the file stays as it is."""
    assert watch.look() is None
    return watch.look()


def test_a_changed_file_is_read_with_what_is_new_or_otherwise(watch: CatalogueWatch, path: Path) -> None:
    assert seen(watch) is None
    path.write_text(TWO)
    change = seen(watch)
    assert change is not None
    assert (change.added, change.removed, change.changed) == (("count",), (), ("fit",))
    assert sorted(watch.current.tasks) == ["count", "fit"]
    path.write_text(ONE)
    change = seen(watch)
    assert change is not None and change.removed == ("count",)


def test_a_file_that_is_replaced_in_one_step_is_read_too(watch: CatalogueWatch, path: Path) -> None:
    other = path.with_name("other.yaml")
    other.write_text(TWO)
    other.replace(path)
    assert seen(watch) is not None


def test_an_invalid_file_is_reported_once_and_the_catalogue_stays(watch: CatalogueWatch, path: Path) -> None:
    before = watch.current
    path.write_text("tasks: {fit: {entry: nonsense}}\n")
    structlog.reset_defaults()  # another test may have configured a level that hides errors
    with capture_logs() as logged:
        assert seen(watch) is None and seen(watch) is None
    [line] = logged
    assert "$.tasks.fit.entry: expected module:Class" in line["reason"]
    assert watch.current is before
    path.write_text(TWO)
    assert seen(watch) is not None


def test_a_file_with_other_words_or_none_for_a_moment_is_no_change(watch: CatalogueWatch, path: Path) -> None:
    path.write_text(f"# the same\n{ONE}")
    assert seen(watch) is None
    path.unlink()
    assert seen(watch) is None
    path.write_text(TWO)
    assert seen(watch) is not None
