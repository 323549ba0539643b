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


NAMES = sorted(NNI_NAMES.items())
PIPELINE = (
    "kind: pipeline\nsteps:\n  - {name: a, task_type: t}\n  - {name: b, task_type: t, depends_on: [a]}\n"
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *((f"{name}: 1", f":5: $.{name}: unknown field {name!r}; here it is {ours}") for name, ours in NAMES),
        ("tuner: {name: tpe, classArgs: {}}", "classArgs: unknown field 'classArgs'; here it is options"),
        ("assessor: {className: M}", ":5: $.assessor.className: unknown field 'className'; here it is name"),
        (PIPELINE, ":4: $.steps[1].depends_on: unknown field 'depends_on'; did you mean 'needs'?"),
    ],
)
def test_a_field_of_nni_in_a_spec_is_refused_with_the_name_that_it_has_here(text: str, expected: str) -> None:
    whole = text if text == PIPELINE else f"{SPEC}{text}\n"
    with pytest.raises(SpecError) as refused:
        parse_spec(whole.encode(), "search.yaml")
    assert expected in str(refused.value)


def test_an_option_and_a_command_with_a_field_of_nni_are_refused_so_too() -> None:
    space = {"x": {"type": "uniform", "low": 0, "high": 1}}
    [(path, message)] = check_tuner(space, {"name": "tpe", "options": {"optimize_mode": "maximize"}})
    assert path == "$.tuner.options.optimize_mode"
    assert message.endswith("; here it is direction, of the search")
    body = {"task_type": "t", "max_trials": 3, "space": {"x": {"type": "constant", "value": 1}}}
    found = command_of(StartSearch.wire_type(), {**body, "trialConcurrency": 2})
    assert isinstance(found, Problem)
    assert found.message == "unknown field 'trialConcurrency'; here it is concurrency"
