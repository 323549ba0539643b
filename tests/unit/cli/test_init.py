from pathlib import Path

import pytest

from trackside.aggregates.search.messages import StartSearch
from trackside.cli.app import call
from trackside.cli.commands.init import FILES
from trackside.sdk.definitions.specs import read_spec


def test_the_files_of_a_search_are_written_into_a_folder_or_here_and_the_next_commands_are_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert call(["init", "new/search"]) == 0
    printed = capsys.readouterr().out
    assert f"written to {tmp_path / 'new' / 'search'}: train.py, catalogue.yaml, search.yaml" in printed
    assert "cd new/search && trackside up && trackside submit search.yaml --wait" in printed
    assert {path.name for path in (tmp_path / "new/search").iterdir()} == set(FILES)
    command = read_spec(tmp_path / "new/search/search.yaml")
    assert isinstance(command, StartSearch) and command.task_type == "curve"
    assert call(["init"]) == 0
    assert "next: trackside up" in capsys.readouterr().out
    assert {path.name for path in tmp_path.iterdir()} == {*FILES, "new"}


def test_nothing_is_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "train.py").write_text("mine")
    (tmp_path / "search.yaml").write_text("mine")
    assert call(["init", str(tmp_path)]) == 1
    assert f"{tmp_path} already has train.py, search.yaml; nothing was written" in capsys.readouterr().err
    found = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert found == {"train.py": "mine", "search.yaml": "mine"}
