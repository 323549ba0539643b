import io
import json
from pathlib import Path

import pytest

from tests.unit.compat.sedna_documents import CANARY, DATASET, FILE, MODELS, SECRET, job, joined, whole
from trackside.aggregates.dataset.messages import RegisterDataset
from trackside.aggregates.model.messages import RegisterModel
from trackside.aggregates.rounds.messages import CreateIncrementalJob
from trackside.cli.app import call
from trackside.cli.commands.convert import as_yaml
from trackside.sdk.definitions.specs import read_spec_file
from trackside.sdk.definitions.yaml_core import read_yaml
from trackside.worker.catalogue.task_catalogue import read_catalogue

FILES = ["catalogue.yaml", "first.model.yaml", "live.model.yaml", "parts.dataset.yaml", "sorter.job.yaml"]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / FILE).write_bytes(whole()[FILE])
    return tmp_path


def test_documents_become_files_that_can_be_submitted(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(["convert", "sedna", FILE, "--to", "new/converted"]) == 0
    folder = here / "new" / "converted"
    assert sorted(path.name for path in folder.iterdir()) == FILES
    found = read_yaml((folder / "sorter.job.yaml").read_bytes()).value
    assert found["kind"] == "rounds" and found["train"]["parameters"]["lr"] == "1e-4"
    said = capsys.readouterr()
    assert said.out == ""
    assert "trackside submit sorter.job.yaml --id sorter" in said.err
    assert [path.name for path in folder.parent.iterdir()] == ["converted"]
    commands = {name: read_spec_file(folder / name)[0] for name in FILES[1:]}
    kinds = [RegisterModel, RegisterModel, RegisterDataset, CreateIncrementalJob]
    assert [type(command) for command in commands.values()] == kinds
    tasks = read_catalogue(folder / "catalogue.yaml")
    assert {"sorter-train", "sorter-eval", "sorter-inference"} <= set(tasks.tasks)


def test_without_a_folder_the_files_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert call(["convert", "sedna", FILE]) == 0
    said = capsys.readouterr()
    kinds = [read_yaml(part.encode()).value for part in said.out.split("---\n")[1:]]
    assert [each.get("kind") for each in kinds] == ["model", "model", "dataset", None, "rounds"]
    assert "nodeName" in said.err


def test_json_has_files_and_notes(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(whole()[FILE])))
    assert call(["convert", "sedna", "-", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert sorted(file["name"] for file in found["files"]) == FILES
    assert {"file", "line", "path", "why"} == set(found["left_out"][0])
    assert found["left_out"][0]["file"] == "stdin"


def test_nothing_is_written_if_one_document_is_bad(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "bad.yaml").write_text("kind: Pod\n---\n[1")
    assert call(["convert", "sedna", FILE, "bad.yaml", "missing.yaml", "--to", "converted"]) == 2
    assert "missing.yaml" in capsys.readouterr().err
    assert call(["convert", "sedna", FILE, "bad.yaml", "--to", "converted"]) == 2
    said = capsys.readouterr().err
    assert "bad.yaml:1: $.kind: unknown_value" in said and "bad.yaml:3: $: wrong_type" in said
    assert sorted(path.name for path in here.iterdir()) == ["bad.yaml", FILE]


def test_a_folder_that_has_something_stays_as_it_is(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = here / "converted"
    folder.mkdir()
    (folder / "mine.txt").write_text("mine")
    assert call(["convert", "sedna", FILE, "--to", "converted"]) == 2
    assert "not an empty folder" in capsys.readouterr().err
    assert [path.name for path in folder.iterdir()] == ["mine.txt"]
    assert sorted(path.name for path in here.iterdir()) == ["converted", FILE]


def test_i34_the_canary_is_in_no_file_nor_on_screen(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    variable = f"- {{name: SECRET_ACCESS_KEY, value: {CANARY}}}"
    (here / FILE).write_bytes(joined(SECRET, DATASET, MODELS, job(variable=variable)))
    assert call(["convert", "sedna", FILE, "--to", "converted"]) == 0
    assert call(["convert", "sedna", FILE]) == 0
    assert call(["convert", "sedna", FILE, "--json"]) == 0
    said = capsys.readouterr()
    assert CANARY not in said.out + said.err
    assert not any(CANARY in path.read_text() for path in (here / "converted").iterdir())


NUMBERS = ["1e-4", "02:00", "20:00", "0x10", "010", "1_000", ".5", ".inf"]
WORDS = ["yes", "on", "null", "~", "-", "", "a: b", "é"]


def test_a_text_is_the_same_text_in_the_file() -> None:
    for text in [*NUMBERS, *WORDS]:
        assert read_yaml(as_yaml({text: [text]}).encode()).value == {text: [text]}
