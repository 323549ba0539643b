"""Short references: what each text means, and specs whose inputs are given so."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from trackside.aggregates.batch.messages import SubmitTasks
from trackside.aggregates.search.messages import StartSearch
from trackside.contracts.envelope.refusals import Problem
from trackside.contracts.tasks.artifacts import ArtifactReference
from trackside.sdk.connection.model_versions import WantedArtifact
from trackside.sdk.definitions.instruct import whole_task_id
from trackside.sdk.definitions.references import WantedModelVersion, version_number, wanted_reference
from trackside.sdk.definitions.specs import read_spec_file
from trackside.sdk.errors import SpecError, UnsendableError

WHOLE = ArtifactReference(uri="store:sha256/" + "a" * 64, sha256="a" * 64, size_bytes=7)
OTHER = ArtifactReference(uri="store:sha256/" + "b" * 64, sha256="b" * 64, size_bytes=9, source="s/t/n@2")
SEARCH = """
kind: search
task_type: digits
max_trials: 4
space: {x: {type: uniform, low: 0, high: 1}}
inputs:
  digits: model:digits@2
"""
TASKS = """
kind: tasks
inputs: {weights: line-1/0/weights}
groups:
  - tasks:
      - task_type: digits
        inputs:
          digits: ./digits.csv
          weights: {"uri": "%s", "sha256": "%s", "size_bytes": 7}
"""


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("line-1/0/weights", WantedArtifact("line-1", "0", "weights", 0)),
        ("line-1/line-1.0/weights@3", WantedArtifact("line-1", "line-1.0", "weights", 3)),
        ("model:digits", WantedModelVersion("digits")),
        ("model:digits@12", WantedModelVersion("digits", version=12)),
        ("model:digits@production", WantedModelVersion("digits", stage="production")),
        ("./digits.csv", Path("digits.csv")),
        ("../a/b/c", Path("../a/b/c")),
        ("/data/a/b", Path("/data/a/b")),
    ],
)
def test_a_text_refers_to_one_thing(text: str, meaning: object) -> None:
    assert wanted_reference(text) == meaning


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("digits.csv", "expected STREAM/TASK/NAME"),
        ("digits@2", "expected STREAM/TASK/NAME"),
        ("a/b/c/d", "expected STREAM/TASK/NAME"),
        ("model:", "expected STREAM/TASK/NAME"),
        ("model:digits@0", "expected STREAM/TASK/NAME"),
        ("model:digits@best", "number of a version, or production or staging"),
        ("s3://user:secret-word@models/digits", "a URL needs a digest"),
    ],
)
def test_any_other_text_is_refused_with_what_is_expected(text: str, expected: str) -> None:
    with pytest.raises(UnsendableError, match="bad_artifact") as raised:
        wanted_reference(text)
    assert expected in str(raised.value)
    assert "secret-word" not in str(raised.value)


def test_a_version_is_the_newest_unless_a_number_or_a_stage_is_given() -> None:
    stages = ["none", "production", "none"]
    assert version_number(WantedModelVersion("m"), stages) == 3
    assert version_number(WantedModelVersion("m", version=1), stages) == 1
    assert version_number(WantedModelVersion("m", stage="production"), stages) == 2
    for wanted, given, reason in (
        (WantedModelVersion("m"), [], "has no versions yet"),
        (WantedModelVersion("m", version=4), stages, "has no version 4; it has 3"),
        (WantedModelVersion("m", stage="staging"), stages, "no version of model m is in staging"),
    ):
        with pytest.raises(UnsendableError, match=reason):
            version_number(wanted, given)


def test_a_spec_has_the_whole_references_of_its_inputs(tmp_path: Path) -> None:
    asked: dict[str, str | ArtifactReference] = {}

    def resolve(given: Mapping[str, str | ArtifactReference]) -> dict[str, ArtifactReference | Problem]:
        asked.update(given)
        return {path: OTHER if isinstance(each, str) else each for path, each in given.items()}

    file = tmp_path / "spec.yaml"
    file.write_text(SEARCH)
    search, _ = read_spec_file(file, resolve)
    assert isinstance(search, StartSearch)
    assert (search.inputs, asked) == ({"digits": OTHER}, {"$.inputs.digits": "model:digits@2"})
    asked.clear()
    file.write_text(TASKS % (WHOLE.uri, WHOLE.sha256))
    tasks, _ = read_spec_file(file, resolve)
    assert isinstance(tasks, SubmitTasks)
    assert tasks.inputs == {"weights": OTHER}
    assert tasks.groups[0].tasks[0].inputs == {"digits": OTHER, "weights": WHOLE}
    digits, weights = (f"$.groups[0].tasks[0].inputs.{name}" for name in ("digits", "weights"))
    assert asked == {"$.inputs.weights": "line-1/0/weights", digits: "./digits.csv", weights: WHOLE}


def test_an_input_that_nobody_has_is_a_problem_of_its_line(tmp_path: Path) -> None:
    file = tmp_path / "spec.yaml"
    file.write_text(SEARCH)
    problem = Problem(code="unknown_artifact", path="$.inputs.digits", message="there is no model digits")
    with pytest.raises(SpecError) as raised:
        read_spec_file(file, lambda _: {"$.inputs.digits": problem})
    assert (raised.value.problems, raised.value.lines) == ((problem,), (7,))
    assert ":7: unknown_artifact at $.inputs.digits: there is no model digits" in str(raised.value)
    with pytest.raises(SpecError, match=r"\$\.inputs\.digits"):
        read_spec_file(file)  # without a client a spec has whole references only


@pytest.mark.parametrize("text", ["server.1.digits", "1.digits", ".1.digits"])
def test_a_task_may_be_named_without_its_stream(text: str) -> None:
    assert whole_task_id("server", text) == "server.1.digits"
