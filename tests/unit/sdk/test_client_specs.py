"""Spec files: what they mean, and what is said about those that mean nothing, such as names of NNI."""

import json
from pathlib import Path
from typing import TypeVar

import pytest

from tests.commands import command_of
from trackside.aggregates.batch.messages import SubmitTasks
from trackside.aggregates.search.messages import StartSearch
from trackside.aggregates.search.space.builtin_tuners import check_tuner
from trackside.aggregates.search.space.space import LogUniform
from trackside.contracts.envelope.nni_names import NNI_NAMES
from trackside.contracts.envelope.refusals import Problem
from trackside.contracts.tasks.resources import Retry
from trackside.sdk.definitions.specs import parse_spec, read_spec, read_spec_file
from trackside.sdk.errors import SpecError, UnsendableError
from trackside.sdk.search import Search

Wanted = TypeVar("Wanted")
EXAMPLE = Path(__file__).parents[3] / "deploy/examples/digits/search.yaml"
GOOD = """
kind: search
task_type: digits
max_trials: 4
space:
  lr: {type: loguniform, low: 1e-4, high: 1e-1}
"""


def parsed(text: str, kind: type[Wanted]) -> Wanted:
    command = parse_spec(text.encode(), "spec.yaml")
    assert isinstance(command, kind)
    return command


def refused(text: str | bytes) -> SpecError:
    octets = text.encode() if isinstance(text, str) else text
    with pytest.raises(SpecError) as caught:
        parse_spec(octets, "spec.yaml")
    return caught.value


def test_the_example_is_a_search_of_twenty_trials_and_a_file_that_is_not_there_is_named() -> None:
    command = read_spec(EXAMPLE)
    assert isinstance(command, StartSearch)
    assert (command.max_trials, command.concurrency, command.tuner.name) == (20, 2, "tpe")
    assert command.assessor is not None and command.assessor.name == "median"
    assert command.seed is not None
    assert {parameter.type for parameter in command.space.values()} >= {"loguniform", "uniform", "choice"}
    with pytest.raises(SpecError, match=r"nowhere\.yaml: .*No such file"):
        read_spec(Path("nowhere.yaml"))


def test_a_number_with_an_exponent_needs_no_dot_and_words_that_yaml_1_1_calls_booleans_stay_words() -> None:
    switch = "  switch: {type: choice, values: [on, off, 1:30]}\n"
    command = parsed(GOOD + switch, StartSearch)
    assert command.space["lr"] == LogUniform(type="loguniform", low=1e-4, high=1e-1)
    assert command.space["switch"].model_dump()["values"] == ["on", "off", "1:30"]


@pytest.mark.parametrize(
    ("text", "path", "expected"),
    [
        ("kind: serch", "$.kind", "did you mean 'search'"),
        ("task_type: digits", "$.kind", "expected one of: search, tasks, task"),
        (GOOD.replace("task_type", "task_typ"), "$.task_typ", "did you mean 'task_type'"),
        (GOOD.replace("high", "hihg"), "$.space.lr.hihg", "did you mean 'high'"),
        (GOOD.replace("loguniform", "logunifrm"), "$.space.lr.type", "did you mean 'loguniform'"),
        (GOOD.replace("max_trials: 4", "max_trials: four"), "$.max_trials", "valid integer, got str"),
        (GOOD.replace("max_trials: 4", "max_trials: 0"), "$.max_trials", "greater than or equal to 1"),
        (GOOD.replace("low: 1e-4", "low: 1"), "$.space.lr", "low 1.0 is above high 0.1"),
        (GOOD.replace("low: 1e-4", "low: 0"), "$.space.lr", "low above 0"),
        (GOOD + "tuner: {nme: tpe}", "$.tuner.nme", "did you mean 'name'"),
        (GOOD + "queue: big ones", "$.queue", "not an identifier: expected 1 to 128 letters, digits"),
        (GOOD + "concurrency: 0", "$.concurrency", "greater than or equal to 1"),
        (GOOD + "max_duration_s: 30 minutes", "$.max_duration_s", "'30 minutes' is no duration; expected"),
        (GOOD + "max_duration_s: 1h30m", "$.max_duration_s", "such as 90s, 30m, 2h or 1d"),
        (GOOD + "max_duration_s: -1h", "$.max_duration_s", "'-1h' is no duration"),
        (GOOD + "max_duration_s: 0m", "$.max_duration_s", "greater than 0"),
        (GOOD + "retry: {lost: {backoff_s: soon}}", "$.retry.lost.backoff_s", "'soon' is no duration"),
    ],
)
def test_an_error_names_the_path_and_what_was_expected(text: str, path: str, expected: str) -> None:
    error = refused(text)
    assert error.problem.path == path
    assert expected in str(error)
    assert str(error).startswith("spec.yaml:")


DURATIONS = """
max_duration_s: 2h
max_trial_duration_s: 90s
queue_timeout_s: 1d
run_timeout_s: 45
tuner: {time_limit_s: 0.5 m}
retry: {lost: {backoff_s: 30m, max_backoff_s: "1800"}}
"""


def test_d26_durations_are_written_as_nni_s_users_write_them_and_published_in_seconds() -> None:
    command = parsed(GOOD + DURATIONS, StartSearch)
    body = command.model_dump(mode="json")
    limits = ("max_duration_s", "max_trial_duration_s", "queue_timeout_s", "run_timeout_s")
    assert [body[name] for name in limits] == [7_200.0, 90.0, 86_400.0, 45.0]
    assert body["tuner"]["time_limit_s"] == 30.0
    assert (body["retry"]["lost"]["backoff_s"], body["retry"]["lost"]["max_backoff_s"]) == (1_800.0, 1_800.0)


def test_durations_are_read_from_python_and_at_every_place_of_a_task_that_has_one() -> None:
    tuner = {"name": "tpe", "time_limit_s": "1m"}
    space = {"x": {"type": "uniform", "low": 0, "high": 1}}
    search = Search("digits", space, max_trials=4, tuner=tuner, max_duration_s="2h")
    assert search.command is not None
    assert (search.command.max_duration_s, search.command.tuner.time_limit_s) == (7_200.0, 60.0)
    assert tuner["time_limit_s"] == "1m"
    with pytest.raises(UnsendableError, match=r"\$\.max_duration_s.*'2 hours' is no duration"):
        Search("digits", space, max_trials=4, max_duration_s="2 hours")
    text = "kind: tasks\nrun_timeout_s: 1h\ngroups: [{tasks: [{task_type: t, queue_timeout_s: 2m}]}]\n"
    command = parsed(text, SubmitTasks)
    assert command.run_timeout_s == 3_600.0
    assert command.groups[0].tasks[0].queue_timeout_s == 120.0


PIPELINE = "kind: pipeline\nsteps:\n  - name: a\n    task_type: t\n    when: b.id\n"
WRONG = """kind: search
task_typ: digits
max_trials: four
concurrency: 0
max_duration_s: soon
space:
  lr: {type: loguniform, low: 1, high: 1e-1}
  x: {type: unifrm, low: 0, high: 1}
tuner: {nme: tpe}
"""


def test_all_errors_of_a_spec_are_listed_with_their_lines() -> None:
    error = refused(WRONG)
    found = list(zip((problem.path for problem in error.problems), error.lines, strict=True))
    assert found[0] == ("$.task_typ", 2) == (error.problem.path, error.line)
    lines = {"task_typ": 2, "tuner.nme": 9, "max_duration_s": 5, "task_type": 1, "max_trials": 3}
    lines |= {"concurrency": 4, "space.lr": 7, "space.x.type": 8}
    assert set(found) == {(f"$.{path}", line) for path, line in lines.items()}
    said = str(error).splitlines()
    assert len(said) == len(found)
    assert "spec.yaml:4: $.concurrency: Input should be greater than or equal to 1, got 0" in said


def test_a_misspelt_field_is_found_wherever_fields_are_known_and_names_of_users_are_left_alone() -> None:
    text = GOOD + "objectives: [{nme: f1, direction: maximize}]\ntuner: {on_failure: {retrys: 1}}\n"
    error = refused(text.replace("high", "hihg"))
    paths = ["$.space.lr.hihg", "$.objectives[0].nme", "$.tuner.on_failure.retrys"]
    assert [problem.path for problem in error.problems[:3]] == paths
    assert "expected: direction, name; did you mean 'name'?" in str(error)
    text = GOOD + "  net: {type: choice, values: [{_name: cnn, nme: {type: randint, low: 1, high: 4}}]}\n"
    text += "  _hihg: {_type: uniform, _value: [0, 1]}\ntuner: {name: mine, options: {nme: {kind: x}}}\n"
    parsed(text, StartSearch)


@pytest.mark.parametrize(
    ("text", "code", "path", "expected"),
    [
        (GOOD, "unknown_task_type", "$.task_type", ":3: unknown_task_type at $.task_type: none"),
        (GOOD, "bad_parameters", "$.past[0].lr", ": bad_parameters at $.past[0].lr: none"),
        (
            "kind: task\ntask_type: t\nresources: {device: gpu-7}\n",
            "unknown_device", "$.groups[0].tasks[0].resources.device", ":3: unknown_device at ",
        ),
        # The command has the file of a pipeline under `pipeline`, which its author has not written.
        (PIPELINE, "unknown_step", "$.pipeline.steps[0].when", ":5: unknown_step at $.steps[0].when: none"),
        (PIPELINE, "missing_parameter", "$.parameters.x", ": missing_parameter at $.parameters.x: none"),
    ],
)  # fmt: skip
def test_a_later_problem_of_a_spec_is_described_with_its_line_in_the_file(
    tmp_path: Path, text: str, code: str, path: str, expected: str
) -> None:
    file = tmp_path / "spec.yaml"
    file.write_text(text)
    _, spec = read_spec_file(file)
    assert spec.describe(Problem(code=code, path=path, message="none")).startswith(f"{file}{expected}")


@pytest.mark.parametrize(
    ("octets", "expected"),
    [
        (b"a: [", "found"),
        (b"\xff\xfe", "not UTF-8"),
        (b"", "expected a mapping"),
        (b"- 1", "expected a mapping"),
        (b"kind: search\nkind: search\n", "'kind' is repeated"),
        (b"a: &x [1]\nb: *x\n", "aliases"),
        (b"a: .nan", "not a finite number"),
        (b"a: !!python/object:os.system {}", "not supported"),
        (b"[" * 500, "too deep"),
        (b"a" * 300_000, "limit is 262,144"),
    ],
)
def test_what_is_not_plain_yaml_is_refused(octets: bytes, expected: str) -> None:
    assert expected in str(refused(octets))


@pytest.mark.parametrize("indent", [2, "\t"])
def test_a_file_of_json_has_lines_too(indent: int | str) -> None:
    space = {"x": {"type": "uniform", "low": 2, "high": 1}, "y": {"type": "norml"}}
    body = {"kind": "search", "task_type": "digits", "space": space, "max_trials": 0}
    error = refused(json.dumps(body, indent=indent))
    found = dict(zip(error.lines, (problem.path for problem in error.problems), strict=True))
    assert found == {5: "$.space.x", 11: "$.space.y.type", 14: "$.max_trials"}


def test_a_file_of_json_may_escape_any_character() -> None:
    body = {"kind": "task", "task_type": "digits", "parameters": {"note": "a/b \U0001f600"}}
    command = parsed(json.dumps(body).replace("/", "\\/"), SubmitTasks)
    assert command.groups[0].tasks[0].parameters == body["parameters"]


TASKS = """
kind: tasks
queue: night
groups:
  - name: warm-up
    device: cuda:1
    estimate_cuda_memory: 1.5GiB
    tasks:
      - {name: a, task_type: digits, parameters: {lr: 1e-3}, priority: 9}
      - task_type: digits
        retry: {failed: {times: 2, backoff_s: 5}, lost: 1}
        resources: {kind: gpu, devices: 2}
  - tasks: [{task_type: digits}]
"""
SHARED_NAMES = """- {name: a, task_type: x}
      - {name: b, task_type: x}
      - {name: b, task_type: x}
      - task_type: digits
"""
CPU_AND_GPU = "kind: cpu, device: gpu-1, estimate_cuda_memory: 1GB"
TASK = """
kind: task
name: alone
task_type: digits
queue: night
device: gpu-1
estimate_memory: 2GB
retry: {failed: 1}
run_timeout_s: 60
"""


def test_t20_a_file_holds_tasks_in_groups() -> None:
    command = parsed(TASKS, SubmitTasks)
    first, second = command.groups
    assert (command.queue, first.name, first.device, second.name) == ("night", "warm-up", "cuda:1", None)
    assert first.estimate_cuda_memory == 3 * 2**29
    assert (first.tasks[0].priority, first.tasks[0].parameters) == (9, {"lr": 1e-3})
    assert first.tasks[1].retry is not None
    assert first.tasks[1].retry.failed == Retry(times=2, backoff_s=5)


def test_a_file_of_one_task_is_a_batch_of_one_group() -> None:
    command = parsed(TASK, SubmitTasks)
    [group] = command.groups
    [task] = group.tasks
    assert (command.name, command.queue) == ("alone", "night")
    assert (group.device, group.estimate_memory) == ("gpu-1", 2 * 10**9)
    assert (task.name, task.task_type, task.run_timeout_s) == ("alone", "digits", 60)


@pytest.mark.parametrize(
    ("text", "path", "line", "expected"),
    [
        (TASKS.replace("priority", "priorty"), "$.groups[0].tasks[0].priorty", 9, "did you mean 'priority'"),
        (TASKS.replace("device:", "devise:"), "$.groups[0].devise", 6, "did you mean 'device'"),
        (TASKS.replace("kind: gpu", "knd: gpu"), "$.groups[0].tasks[1].resources.knd", 12, "'kind'"),
        (TASKS.replace("times: 2", "tims: 2"), "$.groups[0].tasks[1].retry.failed.tims", 11, "'times'"),
        (TASKS.replace("1.5GiB", "1.5Gib"), "$.groups[0].estimate_cuda_memory", 7, "bits"),
        (TASKS.replace("priority: 9", "priority: 10"), "$.groups[0].tasks[0].priority", 9, "less than"),
        (TASKS.replace("- task_type: digits\n", SHARED_NAMES), "$.groups[0]", 5, "are called a and two b"),
        (TASKS.replace("kind: gpu", CPU_AND_GPU), "$.groups[0].tasks[1].resources", 12, "a CPU slot has no"),
        (TASK.replace("task_type: digits", ""), "$.task_type", 2, "missing"),
        (TASK.replace("queue:", "que:"), "$.que", 5, "did you mean 'queue'"),
        (TASK.replace("60", "0"), "$.run_timeout_s", 9, "greater than 0"),
        (TASK.replace("2GB", "2 elephants"), "$.estimate_memory", 7, "not an amount of memory"),
        (TASKS.replace("night", "big ones"), "$.queue", 3, "not an identifier: expected 1 to 128 letters"),
        (TASK.replace("night", "big ones"), "$.queue", 5, "not an identifier: expected 1 to 128 letters"),
        (TASK + "groups: []", "$.groups", 10, "unknown field"),
    ],
)
def test_an_error_in_a_file_of_tasks_names_its_place(text: str, path: str, line: int, expected: str) -> None:
    error = refused(text)
    assert (error.problem.path, error.line) == (path, line)
    assert expected in str(error)


NNI = sorted(NNI_NAMES.items())
NEEDING = "kind: pipeline\nsteps:\n  - {name: a, task_type: t}\n  - {name: b, task_type: t, depends_on: [a]}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *((f"{name}: 1", f":7: $.{name}: unknown field {name!r}; here it is {ours}") for name, ours in NNI),
        ("tuner: {name: tpe, classArgs: {}}", "classArgs: unknown field 'classArgs'; here it is options"),
        ("assessor: {className: M}", ":7: $.assessor.className: unknown field 'className'; here it is name"),
        (NEEDING, ":4: $.steps[1].depends_on: unknown field 'depends_on'; did you mean 'needs'?"),
    ],
)
def test_a_field_of_nni_in_a_spec_is_refused_with_the_name_that_it_has_here(text: str, expected: str) -> None:
    assert expected in str(refused(text if text == NEEDING else GOOD + text))


def test_an_option_and_a_command_with_a_field_of_nni_are_refused_so_too() -> None:
    space = {"x": {"type": "uniform", "low": 0, "high": 1}}
    [(path, message)] = check_tuner(space, {"name": "tpe", "options": {"optimize_mode": "maximize"}})
    assert path == "$.tuner.options.optimize_mode"
    assert message.endswith("; here it is direction, of the search")
    body = {"task_type": "t", "max_trials": 3, "space": {"x": {"type": "constant", "value": 1}}}
    found = command_of(StartSearch.wire_type(), {**body, "trialConcurrency": 2})
    assert isinstance(found, Problem)
    assert found.message == "unknown field 'trialConcurrency'; here it is concurrency"
