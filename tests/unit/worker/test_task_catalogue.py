"""What a catalogue may say, how it is told what is wrong, and what a change of its file does."""

import re
from pathlib import Path
from typing import Any

import pytest
import structlog
from structlog.testing import capture_logs

from tests.integration.worker.harness import EXAMPLES
from trackside.worker.catalogue import task_catalogue
from trackside.worker.catalogue.catalogue_watch import CatalogueChange, CatalogueWatch
from trackside.worker.catalogue.task_catalogue import read_catalogue


def write(folder: Path, text: str) -> Path:
    path = folder / "catalogue.yaml"
    path.write_text(text)
    return path


def read(folder: Path, text: str) -> task_catalogue.TaskCatalogue:
    return task_catalogue.read_catalogue(write(folder, text))


def typed(schema: str) -> str:
    return f"tasks: {{a: {{entry: 'm:C', parameters: {{{schema}}}}}}}"


@pytest.mark.parametrize("example", ["digits", "noop"])
def test_the_examples_have_good_catalogues(example: str) -> None:
    found = task_catalogue.read_catalogue(EXAMPLES / example / "catalogue.yaml")
    assert found.tasks[example].path == str(EXAMPLES / example)


def test_a_folder_is_found_from_where_the_file_is_and_a_missing_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    found = read(tmp_path, "tasks: {a: {entry: 'm:C', path: code, environment: [HTTPS_PROXY]}}")
    assert found.tasks["a"].path == str(tmp_path / "code")
    assert found.tasks["a"].environment == ("HTTPS_PROXY",)
    with pytest.raises(task_catalogue.CatalogueError, match="TRACKSIDE_WORKER_CATALOGUE"):
        task_catalogue.read_catalogue(tmp_path / "none.yaml")


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
        ("tasks: {trackside.x: {entry: 'm:C'}}", r"\$\.tasks\.trackside\.x: names that begin with"),
        ("tasks: {a: {entry: 'm:C', environment: [TRACKSIDE_POSTGRES_DSN]}}", "may hold a secret"),
        ("tasks: {a: {entry: 'm:C', environment: [TRACKSIDE_CREDENTIALS]}}", "may hold a secret"),
        ("tasks: {a: {entry: 'm:C', environment: [MY_API_TOKEN]}}", "may hold a secret"),
        ("tasks: {a: {}}", r"\$\.tasks\.a: expected either entry .* or program"),
        ("tasks: {a: {entry: 'm:C', program: [x]}}", r"\$\.tasks\.a: expected either entry .* or program"),
        ("tasks: {a: {program: []}}", r"\$\.tasks\.a\.program: "),
        ("tasks: {a: {program: python train.py}}", r"\$\.tasks\.a\.program: .*list"),
        ("tasks: {a: {program: [python, 3]}}", r"\$\.tasks\.a\.program\[1\]: .*string"),
        ("tasks: {a: {program: [python, '']}}", r"\$\.tasks\.a\.program: item 1 is empty"),
        ('tasks: {a: {program: ["a\\0b"]}}', r"\$\.tasks\.a\.program: item 0 holds a NUL"),
        ("tasks: {a: {program: [x, '{gpu}']}}", r"item 1: nothing is known to replace \{gpu\} .*\{device\}"),
        ("tasks: {a: {program: [python, ./x.py]}}", r"item 1 \(\./x\.py\) is found from `path`"),
        ("tasks: {a: {program: [bin/x]}}", r"item 0 \(bin/x\) is found from `path`"),
        ("tasks: {a: {entry: 'm:C', parameters: 3}}", r"\$\.tasks\.a\.parameters: "),
        (typed("properties: {lr: {type: text}}"), r'parameters: at \$\.properties\.lr\.type: "text" is not'),
        (
            typed("$ref: 'https://a.org/s.json'"),
            r"a \$ref leads nowhere: .*https://a.org/s.json; expected one within",
        ),
        (
            typed("$ref: '#/$defs/x'"),
            r"a\.parameters: at \$: a \$ref leads nowhere: Pointer '/\$defs/x' does not exist",
        ),
        ("tasks: {a: {entry: 'm:C', environment: [WANDB_TOKEN]}}", r"WANDB_TOKEN: \{secret: NAME\}"),
        ("tasks: {a: {entry: 'm:C', environment: [{A B: {secret: x}}]}}", r"'A B' can't be a variable"),
        ("tasks: {a: {entry: 'm:C', environment: [{TRACKSIDE_X: {secret: x}}]}}", r"no TRACKSIDE_"),
        ("tasks: {a: {entry: 'm:C', environment: [{A: {secret: ../x}}]}}", r"A: expected \{secret: NAME\}"),
        ("tasks: {a: {entry: 'm:C', environment: [{A: x}]}}", r"\$\.tasks\.a\.environment: A: expected"),
        ("tasks: {a: {entry: 'm:C', secrets: [../x]}}", r"\$\.tasks\.a\.secrets\[0\]: .*an identifier"),
        ("tasks: {a: {entry: 'm:C', max_memory: 4Gb}}", r"\$\.tasks\.a\.max_memory: '4Gb' is not an amount"),
        ("tasks: {a: {entry: 'm:C', max_cuda_memory: 0}}", r"\$\.tasks\.a\.max_cuda_memory: "),
        ("tasks: {a: {entry: 'm:C', runner: hot}}", r"\$\.tasks\.a\.runner: .* 'warm' or 'service'"),
        ("tasks: {a: {entry: 'm:C', max_tasks: 3}}", r"\$\.tasks\.a: max_tasks and max_growth are for"),
        ("tasks: {a: {entry: 'm:C', runner: warm, max_tasks: 0}}", r"\$\.tasks\.a\.max_tasks: "),
        ("tasks: {a: {entry: 'm:C', enforce: memory}}", r"\$\.tasks\.a\.enforce: .*'estimate'"),
        ("tasks: {a: {entry: 'm:C', enforce_factor: 2}}", r"\$\.tasks\.a: enforce_factor is for enforce"),
        ("tasks: {a: {entry: 'm:C', enforce: estimate, enforce_factor: 0.9}}", r"\.a\.enforce_factor: "),
        ("tasks: {a: {program: [x], runner: warm}}", r"\$\.tasks\.a: runner: warm is for classes"),
    ],
)
def test_a_bad_catalogue_names_file_key_and_rule(tmp_path: Path, text: str, reason: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(task_catalogue.CatalogueError, match=reason) as raised:
        task_catalogue.read_catalogue(path)
    assert str(path) in str(raised.value)


def test_a_program_is_a_list_whose_relative_paths_are_found_from_its_folder(tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    text = "tasks: {a: {program: [python, ./train.py, '--to={workdir}/x', ../b, c], path: code}}"
    task = read(tmp_path, text).tasks["a"]
    code = tmp_path / "code"
    assert task.program == ("python", str(code / "train.py"), "--to={workdir}/x", str(code / "../b"), "c")
    assert task.entry == ""
    task = read(tmp_path, "tasks: {a: {program: [bin/x], path: code}}").tasks["a"]
    assert task.program == (str(code / "bin" / "x"),)


def test_ceilings_and_the_runner_are_kept(tmp_path: Path) -> None:
    text = (
        "tasks: {a: {entry: 'm:C', max_memory: 4GiB, max_cuda_memory: 1.5GB, runner: warm, "
        "max_tasks: 7, max_growth: 1000}, b: {entry: 'm:C'}}"
    )
    catalogue = read(tmp_path, text)
    warm, plain = catalogue.tasks["a"], catalogue.tasks["b"]
    assert (warm.max_memory_bytes, warm.max_cuda_memory_bytes) == (4 * 2**30, 1_500_000_000)
    assert (warm.runner, warm.max_tasks, warm.max_growth_bytes) == ("warm", 7, 1000)
    assert (plain.runner, plain.max_tasks, plain.max_growth_bytes) == ("process", None, None)
    assert (plain.max_memory_bytes, plain.max_cuda_memory_bytes, plain.parameters) == (None, None, None)
    assert catalogue.max_memory_bytes == {"a": 4 * 2**30}, "what is told to the scheduler"
    assert catalogue.max_cuda_memory_bytes == {"a": 1_500_000_000}


def test_the_factor_of_an_enforced_estimate_and_secrets_are_kept(tmp_path: Path) -> None:
    text = (
        "tasks: {a: {entry: 'm:C'}, b: {entry: 'm:C', enforce: estimate}, "
        "c: {entry: 'm:C', enforce: estimate, enforce_factor: 2}}"
    )
    tasks = read(tmp_path, text).tasks
    assert [tasks[name].enforce_factor for name in "abc"] == [None, task_catalogue.ENFORCE_FACTOR, 2.0]
    assert len({tasks[name].digest for name in "abc"}) == 3
    text = "tasks: {a: {entry: 'm:C', environment: [LANG, {KEY: {secret: k}, B: {secret: b}}], secrets: [x]}}"
    task = read(tmp_path, text).tasks["a"]
    assert task.environment == ("LANG",)
    assert task.secret_environment == (("KEY", "k"), ("B", "b"))
    assert task.secrets == ("x",)


SCHEMA = """tasks:
  a:
    entry: m:C
    parameters:
      type: object
      required: [lr]
      additionalProperties: false
      properties: {lr: {$ref: '#/$defs/rate'}, name: {maxLength: 3}}
      $defs: {rate: {type: number, exclusiveMinimum: 0}}
  b: {entry: 'm:C'}
"""


@pytest.mark.parametrize(
    ("parameters", "reason"),
    [
        ({"lr": 0.1}, None),
        ({"lr": 0}, r"\$\.lr: 0 is less than or equal to .* \(rule: exclusiveMinimum\)"),
        ({"lr": "0.1"}, r'\$\.lr: "0.1" is not of type "number" \(rule: type\)'),
        ({}, r'\$: "lr" is a required property \(rule: required\)'),
        ({"lr": 1, "gamma": 1}, r"\$: .*'gamma' was unexpected\) \(rule: additionalProperties\)"),
        ({"lr": 1, "name": "x" * 9_999}, r'\$\.name: "x{3,}\.\.\. \(rule: maxLength\)'),
    ],
)
def test_parameters_are_held_against_the_schema_of_their_type(
    tmp_path: Path, parameters: dict[str, Any], reason: str | None
) -> None:
    catalogue = read(tmp_path, SCHEMA)
    found = catalogue.violation_of("a", parameters)
    if reason is None:
        assert found is None
    else:
        assert found is not None and re.search(reason, found) and len(found) < 600
    assert catalogue.violation_of("b", parameters) is None


def test_a_check_that_would_hold_up_other_tasks_is_refused_before_it_is_done(tmp_path: Path) -> None:
    patterns = ", ".join(f"{{pattern: '(\\w{{20}}){{9}}|{number}'}}" for number in range(200))
    text = f"tasks: {{a: {{entry: 'm:C', parameters: {{allOf: [{patterns}]}}}}}}"
    with pytest.raises(task_catalogue.CatalogueError, match=r"too long to check: .*200 patterns"):
        read(tmp_path, text)
    kinds = ", ".join(f"{{const: {number}}}" for number in range(500))
    catalogue = read(tmp_path, typed(f"properties: {{x: {{items: {{anyOf: [{kinds}]}}}}}}"))
    found = catalogue.violation_of("a", {"x": [7] * 20_000})
    assert found is not None and "too long to check" in found
    assert catalogue.violation_of("a", {"x": [7] * 20}) is None


ONE = "tasks: {fit: {entry: 'fit:Fit', max_memory: 1GiB}}\n"
TWO = "tasks: {fit: {entry: 'fit:Other', max_memory: 1GiB}, count: {program: [bash, count.sh]}}\n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write(tmp_path, ONE)


@pytest.fixture
def watch(path: Path) -> CatalogueWatch:
    return CatalogueWatch(path, read_catalogue(path))


def seen(watch: CatalogueWatch) -> CatalogueChange | None:
    """Looks twice: a change counts once the file stays as it is."""
    assert watch.look() is None
    return watch.look()


def test_a_changed_file_is_read_with_what_is_new_or_otherwise(watch: CatalogueWatch, path: Path) -> None:
    assert seen(watch) is None
    path.write_text(TWO)
    change = seen(watch)
    assert change is not None
    assert (change.added, change.removed, change.changed) == (("count",), (), ("fit",))
    assert sorted(watch.current.tasks) == ["count", "fit"]
    path.write_text(ONE)
    change = seen(watch)
    assert change is not None and change.removed == ("count",)


def test_a_file_that_is_replaced_in_one_step_is_read_too(watch: CatalogueWatch, path: Path) -> None:
    other = path.with_name("other.yaml")
    other.write_text(TWO)
    other.replace(path)
    assert seen(watch) is not None


def test_an_invalid_file_is_reported_once_and_the_catalogue_stays(watch: CatalogueWatch, path: Path) -> None:
    before = watch.current
    path.write_text("tasks: {fit: {entry: nonsense}}\n")
    structlog.reset_defaults()  # another test may have configured a level that hides errors
    with capture_logs() as logged:
        assert seen(watch) is None and seen(watch) is None
    [line] = logged
    assert "$.tasks.fit.entry: expected module:Class" in line["reason"]
    assert watch.current is before
    path.write_text(TWO)
    assert seen(watch) is not None


def test_a_file_with_other_words_or_none_for_a_moment_is_no_change(watch: CatalogueWatch, path: Path) -> None:
    path.write_text(f"# the same\n{ONE}")
    assert seen(watch) is None
    path.unlink()
    assert seen(watch) is None
    path.write_text(TWO)
    assert seen(watch) is not None
