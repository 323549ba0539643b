"""Names of NNI in a spec are refused with ours."""

import pytest

from tests.commands import command_of
from trackside.aggregates.search.builtin_tuners import check_tuner
from trackside.aggregates.search.messages import StartSearch
from trackside.contracts.nni_names import NNI_NAMES
from trackside.contracts.refusals import Problem
from trackside.sdk.errors import SpecError
from trackside.sdk.specs import parse_spec

SPEC = "kind: search\ntask_type: t\nmax_trials: 3\nspace: {x: {type: uniform, low: 0, high: 1}}\n"


@pytest.mark.parametrize("name", sorted(NNI_NAMES))
def test_a_field_of_nni_in_a_spec_is_refused_with_the_name_that_it_has_here(name: str) -> None:
    with pytest.raises(SpecError) as refused:
        parse_spec(f"{SPEC}{name}: 1\n".encode(), "search.yaml")
    assert f"search.yaml:5: $.{name}: unknown field {name!r}; here it is {NNI_NAMES[name]}" in str(
        refused.value
    )


def test_fields_of_nni_within_tuner_and_assessor_are_refused_so_too() -> None:
    text = f"{SPEC}tuner: {{name: tpe, classArgs: {{a: 1}}}}\nassessor: {{className: Medianstop}}\n"
    with pytest.raises(SpecError) as refused:
        parse_spec(text.encode(), "search.yaml")
    assert "$.tuner.classArgs: unknown field 'classArgs'; here it is options" in str(refused.value)
    assert "$.assessor.className: unknown field 'className'; here it is name" in str(refused.value)
    space = {"x": {"type": "uniform", "low": 0, "high": 1}}
    [(path, message)] = check_tuner(space, {"name": "tpe", "options": {"optimize_mode": "maximize"}})
    assert path == "$.tuner.options.optimize_mode"
    assert message.endswith("; here it is direction, of the search")


def test_a_command_with_a_field_of_nni_is_refused_so_too() -> None:
    body = {"task_type": "t", "max_trials": 3, "space": {"x": {"type": "constant", "value": 1}}}
    found = command_of(StartSearch.wire_type(), {**body, "trialConcurrency": 2})
    assert isinstance(found, Problem)
    assert found.message == "unknown field 'trialConcurrency'; here it is concurrency"


def test_a_field_that_steps_have_elsewhere_is_refused_in_a_file_with_the_one_they_have_here() -> None:
    text = (
        "kind: pipeline\nsteps:\n  - {name: a, task_type: t}\n  - {name: b, task_type: t, depends_on: [a]}\n"
    )
    with pytest.raises(SpecError) as refused:
        parse_spec(text.encode(), "pipeline.yaml")
    assert "pipeline.yaml:4: $.steps[1].depends_on: unknown field 'depends_on'; did you mean 'needs'?" in str(
        refused.value
    )
