"""What a catalogue may say, and how it is told what is wrong."""

from pathlib import Path

import pytest

from tests.integration.worker.rig import EXAMPLES
from trackside.worker.catalogue import CatalogueError, read


def write(folder: Path, text: str) -> Path:
    path = folder / "catalogue.yaml"
    path.write_text(text)
    return path


@pytest.mark.parametrize("example", ["digits", "noop"])
def test_the_examples_have_good_catalogues(example: str) -> None:
    found = read(EXAMPLES / example / "catalogue.yaml")
    assert found.tasks[example].path == str(EXAMPLES / example)


def test_a_folder_is_found_from_where_the_file_is(tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    found = read(write(tmp_path, "tasks: {a: {entry: 'm:C', path: code, environment: [HTTPS_PROXY]}}"))
    assert found.tasks["a"].path == str(tmp_path / "code")
    assert found.tasks["a"].environment == ("HTTPS_PROXY",)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[1]", r"\$: expected a mapping"),
        ("{", "not YAML"),
        ("preload: []", r"\$\.tasks: missing field"),
        ("tasks: {a: {entri: 'm:C', entry: 'm:C'}}", r"\$\.tasks\.a\.entri: unknown field"),
        ("tasks: {a: {entry: nothing}}", r"\$\.tasks\.a\.entry: expected module:Class"),
        ("tasks: {a: {entry: 'm:C', path: nowhere}}", r"\$\.tasks\.a\.path: no folder"),
        ("tasks: {'a b': {entry: 'm:C'}}", r"\$\.tasks\.a b: a task type is"),
        ("tasks: {a: {entry: 'm:C', environment: [TRACKSIDE_POSTGRES_DSN]}}", "may hold a secret"),
        ("tasks: {a: {entry: 'm:C', environment: [MY_API_TOKEN]}}", "may hold a secret"),
    ],
)
def test_a_bad_catalogue_names_file_key_and_rule(tmp_path: Path, text: str, reason: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(CatalogueError, match=reason) as raised:
        read(path)
    assert str(path) in str(raised.value)


def test_a_missing_catalogue_names_the_setting(tmp_path: Path) -> None:
    with pytest.raises(CatalogueError, match="TRACKSIDE_WORKER_CATALOGUE"):
        read(tmp_path / "none.yaml")
