"""The page for users of ClearML: its left columns are names of the original, its right ones exist here."""

import json
import re
from collections.abc import Mapping
from functools import partial
from typing import Any, get_args

import pytest
from pydantic import BaseModel

from tests.house.source import ROOT
from tests.unit.docs.pages import named, page
from tests.unit.docs.pages import rows as table_below
from trackside.aggregates import documents
from trackside.aggregates.run.aggregate import RUN
from trackside.aggregates.run.step_messages import StepState
from trackside.compat.clearml import PipelineController
from trackside.compat.clearml.arguments import (
    FIRST_RELEASE,
    METHODS,
    REFUSED_METHODS,
    Argument,
    ArgumentSupport,
)
from trackside.compat.clearml.conversion import PipelineNode, convert_references
from trackside.compat.clearml.nodes import STATUS_OF_STEP
from trackside.contracts.tasks.resources import RetryPolicy
from trackside.domain.pipelines.definition import EndAction, PipelineSpec, StepMirror, StepSpec
from trackside.sdk import PipelineRun

PAGE = page("clearml.md")
rows = partial(table_below, PAGE)
NAMES = json.loads((ROOT / "tests" / "unit" / "sdk" / "clearml_names.json").read_text("utf-8"))
ORIGINAL = NAMES["controller"]["methods"]
OURS = {"task_types", "step"}
"""Arguments of ours that the tables name."""
NESTED: dict[str, type[BaseModel]] = {"retry": RetryPolicy, "mirror": StepMirror}


def test_the_page_is_of_the_release_of_the_names_and_every_method_has_its_row() -> None:
    assert f"clearml\n{NAMES['release']}" in PAGE
    found = {named(row[0])[0]: row[1] for row in rows("## Methods")}
    properties = {"task", "id", "tags", "version"}
    assert set(found) | properties == {*ORIGINAL, *NAMES["controller"]["properties"]} - {"__init__"}
    for name, support in found.items():
        assert hasattr(PipelineController, name), name
        assert (support == "refused") == (name in REFUSED_METHODS), name
    assert {ArgumentSupport(support) for support in found.values()} == set(ArgumentSupport)


@pytest.mark.parametrize("method", ["__init__", "add_step", "start", "start_locally", "enqueue", "get"])
def test_every_argument_of_the_original_has_its_row_as_the_code_takes_it(method: str) -> None:
    found = rows("### PipelineController" if method == "__init__" else f"### {method}")
    assert [named(row[0])[0] for row in found] == ORIGINAL[method]
    check_arguments(found, METHODS[method][0])


def test_the_arguments_of_the_first_release_have_their_rows() -> None:
    found = rows("### PipelineController", 1)
    first = NAMES["first_release"]["controller"]["methods"]["__init__"]
    assert {named(row[0])[0] for row in found} == set(first) - {"pool_frequency"}
    check_arguments(found, FIRST_RELEASE)


def check_arguments(found: list[list[str]], arguments: Mapping[str, Argument]) -> None:
    for name, support, note in found:
        argument = arguments[named(name)[0]]
        assert (support, note) == (argument.support, argument.note)
        if argument.support in (ArgumentSupport.KEPT, ArgumentSupport.CONVERTED):
            for path in named(note):
                field, _, inner = path.partition(".")
                assert field in {*StepSpec.model_fields, *PipelineSpec.model_fields, *OURS}, path
                assert not inner or inner in NESTED[field].model_fields, path


def test_every_message_that_the_page_names_is_one() -> None:
    known = {kind.__name__ for kind in documents.messages()}
    words = set(re.findall(r"`([A-Z][a-z]+[A-Z]\w+)`", PAGE))
    ours = {"PipelineController", "PipelineDecorator", "PipelineRun", "NotSupportedError"}
    ours |= {"TaskScheduler", "TriggerScheduler"}
    assert words - ours <= known and len(words) > 6


def test_every_command_of_a_run_and_every_field_of_a_node_has_its_row() -> None:
    found = {named(row[1])[0]: named(row[2])[0] for row in rows("## Commands")}
    assert set(found) == {kind.__name__ for kind in RUN.commands}
    assert all(callable(getattr(PipelineRun, method)) for method in found.values())
    table = rows("## Fields of a node")
    assert sorted(name for row in table for name in named(row[0])) == sorted(NAMES["controller"]["Node"])
    kept = {name for row in table for name in named(row[0]) if not row[1].startswith("-")}
    assert kept == {name for name, field in PipelineNode.__dataclass_fields__.items() if field.repr}


def test_every_state_of_a_step_reference_and_action_is_on_the_page_as_the_code_has_it() -> None:
    found = {state: row[0] for row in rows("## States of steps") for state in named(row[1])}
    assert found == {state.value: STATUS_OF_STEP[state] for state in StepState}
    for original, ours, _ in rows("## References"):
        if original != "-":
            assert convert_references(named(original)[0]) == named(ours)[0]
    words = {named(row[1])[0] for row in rows("## When a step fails")[:-1]}
    assert words <= set(get_args(EndAction)) and len(words) == 3


def test_the_script_of_the_page_builds_a_pipeline() -> None:
    [code] = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    *lines, last = code.splitlines()
    assert last == "pipe.start_locally()"
    names: dict[str, Any] = {}
    exec("\n".join(lines), names)  # noqa: S102 - the page's own
    steps = names["pipe"].get_pipeline().spec()["steps"]
    types = {step["name"]: step["task_type"] for step in steps}
    assert types == {"data": "digits-data", "training": "digits-training"}
    assert steps[1]["parameters"] == {"lr": 0.5, "epochs": "${pipeline.epochs}"}
