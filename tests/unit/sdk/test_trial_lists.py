"""Lists of trials: what is written is read back, NNI's files are read, and what is wrong is named."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trackside.aggregates.search.messages import SearchSpec, TrialStatus
from trackside.aggregates.search.state import Search, Trial
from trackside.domain.streams.stream import Stream
from trackside.sdk.definitions.trial_lists import export_rows, import_commands, read_trials, to_csv, to_json
from trackside.sdk.errors import SpecError, UnsendableError

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**40), 2**40)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=8)
)
VALUES = SCALARS | st.fixed_dictionaries({"_name": st.just("conv"), "kernel": st.integers(1, 9)})
PARAMETERS = st.dictionaries(st.sampled_from(["lr", "value", "trial", "a,b", 'say "x"']), VALUES, min_size=1)
TRIALS = st.lists(st.tuples(PARAMETERS, st.floats(allow_nan=False, allow_infinity=False)), max_size=4)


def rows_of(trials: list[tuple[dict[str, Any], float]]) -> list[dict[str, Any]]:
    return [
        {"trial": at, "status": "SUCCEEDED", "value": value, "parameters": parameters, "task_id": f"s.{at}"}
        for at, (parameters, value) in enumerate(trials)
    ]


@settings(max_examples=30, deadline=None)
@given(trials=TRIALS)
def test_d38_what_is_exported_is_read_back_as_it_was(
    trials: list[tuple[dict[str, Any], float]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """D38: as JSON and as CSV; a parameter may have any name and any value of a space."""
    wanted = [{"parameters": parameters, "value": value} for parameters, value in trials]
    folder = tmp_path_factory.getbasetemp()
    for name, text in (("t.json", to_json(rows_of(trials))), ("t.csv", to_csv(rows_of(trials)))):
        if not trials and name == "t.csv":
            continue  # there is no parameter to name a column after
        (folder / name).write_text(text, "utf-8")
        assert read_trials(folder / name) == wanted


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("nni.json", '[{"parameter": {"lr": 0.1, "opt": "adam"}, "value": "0.5", "trialJobId": "a"}]'),
        ("texts.json", r'[{"parameter": {"lr": 0.1, "opt": "adam"}, "value": "{\"default\": 0.5}"}]'),
        ("dicts.json", '[{"parameter": {"lr": 0.1, "opt": "adam"}, "value": {"default": 0.5, "loss": 3}}]'),
        ("nni.csv", "trialJobId,lr,opt,reward\na,0.1,adam,0.5\n"),
        ("mine.csv", "value,lr,opt\r\n0.5,0.1,adam\r\n,0.2,sgd\r\n"),
        ("excel.csv", "\ufeffvalue,lr,opt\n0.5,0.1,adam\n"),
        ("ours.yaml", "- parameters: {lr: 0.1, opt: adam}\n  value: 0.5\n"),
        (
            "all.json",
            '[{"parameters": {}, "value": null}, {"parameters": {"lr": 0.1, "opt": "adam"}, "value": 0.5}]',
        ),
    ],
)
def test_lists_of_others_are_read_but_trials_without_a_value(name: str, text: str, tmp_path: Path) -> None:
    """D13, D38."""
    (tmp_path / name).write_text(text, "utf-8")
    assert read_trials(tmp_path / name) == [{"parameters": {"lr": 0.1, "opt": "adam"}, "value": 0.5}]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.csv", "lr,opt\n1,adam\n", "no column 'value'"),
        ("a.csv", "value,trial\n1,2\n", "no column of a parameter"),
        ("a.csv", "value,lr,lr\n1,2,3\n", "twice"),
        ("a.csv", "value,lr\n1,2,3\n", "a.csv:2"),
        ("a.json", '[{"value": 1},\n 2', "a.json:2"),
        ("a.json", '{"value": 1}', "expected a list"),
        ("a.yaml", "- &a 1\n- *a\n", "a.yaml:2"),
    ],
)
def test_a_list_that_can_t_be_read_is_named_by_line(name: str, text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(SpecError) as raised:
        read_trials(tmp_path / name)
    assert said in str(raised.value)


SUCCEEDED = TrialStatus.SUCCEEDED


def searched(objectives: list[dict[str, Any]], *trials: Trial) -> Stream:
    space = {"x": {"type": "uniform", "low": 0.0, "high": 1.0}}
    spec = {"task_type": "t", "max_trials": 9, "space": space, "objectives": objectives}
    stream = Stream("s", 0)
    stream.root = Search("s", SearchSpec.model_validate(spec), 1, 0, trials=list(trials))
    return stream


def test_d38_only_trials_that_succeeded_with_a_value_are_exported_unless_all_are_asked_for() -> None:
    """D38: with who suggested each, and of which version of the space it is."""
    stream = searched(
        [],
        Trial(0, {"x": 0.5}, 0, 0, status=SUCCEEDED, value=0.25),
        Trial(1, {"x": 0.6}, 0, 0, status=TrialStatus.EARLY_STOPPED, value=0.5),
        Trial(2, {"x": 0.7}, 0, 0, status=TrialStatus.FAILED),
        Trial(3, {"x": 0.8}, 0, 0, status=SUCCEEDED, non_finite="nan"),
        Trial(4, {"x": 0.9}, 0, 0, status=SUCCEEDED, value=1.0, source="customized", space_version=2),
        Trial(5, {"x": 1.0}, 0, 0),
    )
    rows = export_rows(stream)
    assert [row["status"] for row in export_rows(stream, every=True)][-2:] == ["SUCCEEDED", "WAITING"]
    assert to_csv(rows).splitlines() == [
        "trial,status,value,task_id,source,space_version,parameters.x",
        "0,SUCCEEDED,0.25,s.0,algorithm,1,0.5",
        "4,SUCCEEDED,1.0,s.4,customized,2,0.9",
    ]


def test_trials_of_several_objectives_are_exported_with_the_values_of_all(tmp_path: Path) -> None:
    objectives = [{"name": "accuracy"}, {"name": "latency", "direction": "minimize"}]
    first = Trial(0, {"x": 0.5}, 0, 0, status=TrialStatus.SUCCEEDED, value=0.25, values=[0.25, "inf"])
    rows = export_rows(searched(objectives, first))
    assert rows[0]["values"] == {"accuracy": 0.25, "latency": "inf"}
    assert to_csv(rows).splitlines() == [
        "trial,status,value,task_id,source,space_version,values.accuracy,values.latency,parameters.x",
        "0,SUCCEEDED,0.25,s.0,algorithm,1,0.25,inf,0.5",
    ]
    (tmp_path / "t.csv").write_text(to_csv(rows))
    assert read_trials(tmp_path / "t.csv") == [{"parameters": {"x": 0.5}, "value": 0.25}]


@pytest.mark.thorough
def test_a_long_list_becomes_as_many_commands_as_it_needs() -> None:
    trials = [{"parameters": {"x": at, "text": "t" * 80}, "value": at} for at in range(25_000)]
    commands = import_commands(trials)
    assert [past.value for command in commands for past in command.trials] == list(range(25_000))
    assert len(commands) > 3
    assert max(len(json.dumps(command.model_dump(mode="json"))) for command in commands) < 2**20
    assert import_commands([]) == []


def test_a_trial_that_is_none_is_named() -> None:
    with pytest.raises(UnsendableError, match=r"\$\.trials\[1\]\.parameters"):
        import_commands([{"parameters": {"x": 1}, "value": 1}, {"parameters": [], "value": 1}])
