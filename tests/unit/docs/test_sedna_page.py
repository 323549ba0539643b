"""The page for users of Sedna: each part of the original has its row, and what the rows name exists here."""

import re
from functools import partial
from importlib import import_module
from typing import Any

import pytest
from pydantic import BaseModel

from tests.unit.docs.pages import named, page
from tests.unit.docs.pages import rows as table_below
from trackside.aggregates import documents
from trackside.aggregates.dataset.messages import DatasetSpec
from trackside.aggregates.rounds.aggregate import RoundsType
from trackside.aggregates.rounds.job.job_spec import (
    DeploySpec,
    EvalSpec,
    JobDataset,
    JobOutput,
    JobSpec,
    StageSpec,
)
from trackside.aggregates.rounds.messages import JobStatus, StageState
from trackside.cli import app
from trackside.compat import sedna
from trackside.compat.sedna import kinds
from trackside.compat.sedna.environment import environment

PAGE = page("sedna.md")
rows = partial(table_below, PAGE)
PARTS = {
    "Job", "JobConfig", "OutputConfig", "DataSamples", "Manager", "New", "Start", "Insert", "Delete",
    "GetName",
    "startJob", "initJob", "trainTask", "evalTask", "deployTask", "hotModelUpdateDeployTask", "newTrigger",
    "initTriggerStatus", "triggerTrainTask", "triggerEvalTask", "triggerDeployTask",
    "getModelsFromJobConditions", "getModelFromJobConditions", "getModel", "getEvalResult", "loadDataset",
    "loadTrainModel", "loadEvalModel", "loadDeployModel", "handleData", "forwardSamples", "createOutputDir",
    "createFile", "writeSamples", "writeByLine", "updateDeployModelFile", "saveJobToDB", "updateJobFromDB",
    "monitorWorker", "AddWorkerMessage", "getHeader", "getLatestCondition", "deleteModelHotUpdateData",
}  # fmt: skip
"""The types and functions of Sedna's manager of incremental-learning jobs."""
MESSAGES = {kind.__name__ for kind in (*documents.messages(), *RoundsType.events, *RoundsType.commands)}
STAGES: dict[str, type[BaseModel]] = {"train": StageSpec, "eval": EvalSpec, "deploy": DeploySpec}
NESTED: dict[str, type[BaseModel]] = {"dataset": JobDataset, "output": JobOutput, **STAGES}
EXPLAINED = {"hard_examples", "inference", "model_config.json"}
"""Words of the table that are no fields of a job: a field of a service, the name of one, and a file."""


def find(dotted: str) -> Any:
    """Returns what a path below `trackside` names; raises if there is no such module or name."""
    module, _, name = dotted.rpartition(".")
    return getattr(import_module(f"trackside.{module}"), name)


def test_every_part_of_the_original_has_one_row_and_every_name_of_a_script_is_one() -> None:
    found = [part.strip() for row in rows("## Every part of the original") for part in row[0].split(",")]
    assert len(found) == len(set(found))
    assert set(found) == PARTS
    for row in rows("## Scripts"):
        for dotted in named(row[0]):
            name, _, method = dotted.partition(".")
            assert not method or hasattr(getattr(sedna, name), method), dotted
            assert hasattr(sedna, name), dotted


@pytest.mark.parametrize("row", rows("## Every part of the original"), ids=lambda row: row[0])
def test_what_does_its_work_here_exists(row: list[str]) -> None:
    """The name of a module's member, or of a message; `-` only with a reason."""
    names = named(row[1])
    assert names or (row[1] == "-" and row[2])
    for name in names:
        assert name in MESSAGES if "." not in name else find(name) is not None, name


def test_every_message_and_command_line_that_the_page_names_is_one() -> None:
    ours = {"TxtDataParse", "CSVDataParse", "BaseConfig", "IncrementalLearning", "ClassFactory"}
    words = {word for word in re.findall(r"`([A-Z][a-z]+[A-Za-z]+)`", PAGE) if re.search("[a-z][A-Z]", word)}
    assert words - ours <= MESSAGES and len(words) > 25
    assert {kind.__name__ for kind in RoundsType.commands} <= words
    known = {name for commands in app.COMMANDS.values() for name in commands}
    used = [name for row in rows("## Commands") for name in named(row[1]) if re.fullmatch("[a-z-]+", name)]
    used += re.findall(r"trackside ([a-z-]+)", PAGE)
    assert set(used) <= known | {"convert", "models", "artifacts"} and len(set(used)) > 10


def test_every_state_and_every_field_of_a_job_is_on_the_page_and_none_of_ours_is_left_out() -> None:
    table = rows("## States")
    assert [named(row[1]) for row in table] == [[state.value] for state in StageState]
    assert [row[0] for row in table] == [state.value for state in StageState]
    assert all(f"`{state.value}`" in PAGE for state in JobStatus)
    paths = [path for row in rows("## Fields") for path in named(row[1]) + named(row[2])]
    paths = [path for path in paths if re.fullmatch(r"[a-z_]+(\.[a-z_]+)?", path) and path not in EXPLAINED]
    for path in paths:
        name, _, inner = path.partition(".")
        assert name in JobSpec.model_fields, path
        assert not inner or inner in NESTED[name].model_fields, path
    assert {path.partition(".")[0] for path in paths} | {"name"} == set(JobSpec.model_fields)
    assert {"url", "format", "credential"} <= set(DatasetSpec.model_fields)
    told = " ".join(row[0] for row in rows("## Fields"))
    spec = kinds.SednaJobSpec.model_fields
    assert all(str(field.alias) in told for field in spec.values())
    deploy = {str(field.alias) for field in kinds.SednaDeploy.model_fields.values()}
    assert all(f"deploySpec.{name}" in told for name in deploy)


def test_every_variable_of_a_script_is_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    told = {name.strip() for row in rows("## Scripts", 1) for name in row[0].split(",")}
    monkeypatch.setenv("TRACKSIDE_INPUTS", str(tmp_path))
    service = '{"job": "j", "hard_examples": {"miner": "IBT"}}'
    monkeypatch.setenv("TRACKSIDE_PARAMETERS", f'{{"service": {service}, "ORIGINAL_DATASET_URL": "/x"}}')
    found: set[str] = set()
    for inputs in (["model"], ["samples"], ["trained", "deployed"]):
        for name in inputs:
            (tmp_path / name).write_text("")
        found |= set(environment())
    assert found == told - {"MODEL_HOT_UPDATE", "LC_SERVER"}
