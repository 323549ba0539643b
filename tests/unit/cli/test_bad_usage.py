from pathlib import Path

import pytest

from trackside.cli.app import call

BAD_JOB = """\
kind: rounds
dataset: {name: feed, train_prob: 1.5}
model: digits
initial_model: digits
train: {task_type: train, trigger: {type: condition, metric: num_of_samples, operator: over, threshold: 5}}
eval: {task_type: eval}
deploy: {}
output: {url: /data/out}
"""
FILES = {"batch.yaml": "kind: task\ntask_type: noop\n", "bad.json": "{", "one.json": "{}"}
FILES |= {"there.svg": "", "kind.yaml": "kind: serch\n", "job.yaml": BAD_JOB}
SEARCHES = [
    (["update", "s", "--concurrency", "0"], "concurrency_range at $.concurrency"),
    (["update", "s", "--remove", "seed"], "unknown_value at $.remove"),
    (["request-trials", "s", "0"], "count_range at $.count"),
    (["add-trial", "s", "x"], "expected NAME=VALUE"),
    (["pause", "a/b"], "is not an id"),
    (["import-trials", "s", "nowhere.json"], "nowhere.json: $: cannot be read"),
    (["update-space", "s", "bad.json"], "bad.json:1"),
    (["import-trials", "s", "one.json"], "expected a list"),
]
RUNS = [
    (["retry-failed", "r", "--set", "lr=1"], "expected STEP.NAME=VALUE, such as train.lr=0.1"),
    (["retry-failed", "r", "--index", "train"], "expected STEP.INDEX with an index from 0"),
    (["retry-failed", "r", "--step", "a.b"], "bad_step_name at $.steps[0]"),
    (["restart-from", "r", "pipeline"], "bad_step_name at $.steps[0]"),
    (["skip", "a/b", "step"], "is not an id"),
    (["approve", "r", "gate", "--set", "score"], "expected NAME=VALUE"),
    (["stop", "r", "--index", "3"], "expected trackside stop r STEP --index 3"),
    (["submit", "batch.yaml", "--set", "a=1"], "--set is for the parameters of a pipeline"),
    (["submit", "batch.yaml", "--no-cache"], "--no-cache is for a pipeline"),
]
JOBS = [
    (["fire", "digits", "train", "--force"], "--force is for deploy"),
    (["rollback", "digits", "last"], "expected the number of a version, such as 3, or MODEL@3"),
    (["rollback", "digits", "@3"], "expected the number of a version"),
    (["rollback", "digits", "0"], "expected the number of a version"),
    (["rounds", "a/b"], "is not an id"),
    (["rounds", "digits", "--picture", "rounds.pdf"], "expected a file that ends in .png or .svg"),
    (["rounds", "digits", "--picture", "there.svg"], "exists already"),
    (["approve", "digits", "--set", "a=1"], "--set is for the form of a gate"),
    (["update-job", "digits", "batch.yaml"], "expected `kind: rounds`"),
    (["submit", "job.yaml"], "job.yaml:2: $.dataset.train_prob: "),
    (["submit", "job.yaml"], "job.yaml:4: $.initial_model: "),
    (["submit", "job.yaml"], "job.yaml:5: $.train.trigger.operator: "),
]
OTHERS = [
    (["sumbit"], "submit"),
    (["submit", "kind.yaml"], "kind.yaml:1: $.kind: unknown kind 'serch'"),
    (["replay", "whatif", "digits-1", "--plot", "x.svg"], "can't tell what to draw; expected a name that"),
    (["simulate", "--kind", "batch"], "a fleet runs a search"),
    (["simulate", "--kind", "btch", "--seed", "1"], "search, batch"),
    *((["simulate", "--seconds", text], "expected LOW:HIGH") for text in ("5", "0:1", "3:2", "a:b")),
]


@pytest.mark.parametrize(("arguments", "said"), [*SEARCHES, *RUNS, *JOBS, *OTHERS])
def test_what_can_t_be_right_is_bad_usage_before_anything_is_asked(
    arguments: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    assert call(arguments) == 2
    assert said in capsys.readouterr().err
    assert {path.name for path in tmp_path.iterdir()} == set(FILES)
