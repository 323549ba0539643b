import json
import math
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.unit.compat.sedna_scripts import write_samples, write_scripts
from trackside.compat.sedna import (
    BaseConfig,
    ClassFactory,
    ClassType,
    Context,
    CSVDataParse,
    IncrementalLearning,
    TxtDataParse,
    datasources,
)
from trackside.compat.sedna.learning import plain_metrics
from trackside.sdk import trial
from trackside.sdk.in_task.channel import ScreenChannel

ROUND = {"number": 3, "stage": "train", "lines": 200, "job": "sorter"}
SEED = 20


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the scripts and an empty folder `inputs`, in which a task without a worker runs."""
    (tmp_path / "inputs").mkdir()
    write_scripts(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("TRACKSIDE_INPUTS", str(tmp_path / "inputs"))
    for name in ("TRACKSIDE_WORKDIR", "TRACKSIDE_PARAMETERS", "MODEL_URL", "MODEL_URLS", "HEM_NAME"):
        monkeypatch.delenv(name, raising=False)
    trial.connect(ScreenChannel())
    return tmp_path


def give(monkeypatch: pytest.MonkeyPatch, **parameters: Any) -> None:
    monkeypatch.setenv("TRACKSIDE_PARAMETERS", json.dumps(parameters))


def run(script: str, folder: Path, **parameters: Any) -> str:
    """Runs a script as the program of a task does, without a worker; returns its output."""
    command, env = [sys.executable, "-m", "trackside.compat.sedna", script], {**os.environ}
    env["TRACKSIDE_PARAMETERS"] = json.dumps(parameters)
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def weights(path: Path, *values: float) -> Path:
    with path.open("wb") as file:
        np.savez(file, weights=np.array(values))
    return path


@pytest.mark.thorough
def test_a_script_that_trains_saves_the_model_and_one_that_evaluates_compares_two(folder: Path) -> None:
    sys.stdout.write(f"seed {SEED}\n")
    inputs = folder / "inputs"
    write_samples(inputs / "samples", SEED)
    weights(inputs / "model", 0, 0, 0)
    assert "model" in run("train.py", folder, epochs=50, round=ROUND)
    saved = next(path for path in (folder / "outputs").rglob("*") if path.is_file() and "model" in str(path))
    write_samples(inputs / "samples", SEED + 1)
    (inputs / "trained").write_bytes(saved.read_bytes())
    weights(inputs / "deployed", -1, 1, 0)
    result = json.loads(run("eval.py", folder, round=ROUND | {"stage": "eval"}).splitlines()[-1])["result"]
    assert set(result) == {"trained", "deployed"}
    assert result["trained"]["accuracy"] > 0.9 > result["deployed"]["accuracy"]
    assert len(result["trained"]["recall"]) == 2 and result["trained"] != result["deployed"]


def test_the_inputs_of_a_round_have_the_names_of_sedna(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = folder / "inputs"
    give(monkeypatch, round=ROUND, batch_size=32, ORIGINAL_DATASET_URL="/feed/parts.txt", names=["a"])
    write(folder, samples="", model="")
    assert BaseConfig.train_dataset_url == str(inputs / "samples")
    assert Context.get_parameters("base_model_url") == str(inputs / "model")
    assert BaseConfig().model_url == str(folder / "model")
    assert Context.get_parameters("original_dataset_url") == "/feed/parts.txt"
    assert (Context.get_parameters("batch_size"), Context.get_parameters("names")) == ("32", '["a"]')
    assert (BaseConfig.job_name, BaseConfig.worker_name) == ("sorter", "alone")
    assert Context.get_parameters("round") is None and Context.get_parameters("absent", 7) == 7
    write(folder, trained="", deployed="")
    assert BaseConfig.test_dataset_url == str(inputs / "samples") and BaseConfig.train_dataset_url is None
    assert Context.get_parameters("model_urls") == f"{inputs}/trained;{inputs}/deployed"
    with pytest.raises(AttributeError, match="train_dataset_url"):
        _ = BaseConfig.dataset


class Scores:
    def __init__(self, bias: float = 0.0) -> None:
        self.bias, self.factor = bias, 1.0

    def fit(self, train_data: Any, epochs: int = 1) -> None:
        self.factor = sum(train_data) * epochs

    def evaluate(self, data: Any) -> Any:
        return {"sum": np.float32(sum(data) * self.factor), "each": np.array(data) * self.factor}

    def predict(self, data: Any) -> list[float]:
        return [data * self.factor, 1 - data * self.factor]

    def save(self, path: str) -> None:
        Path(path).write_text(str(self.factor))

    def load(self, model_url: str) -> None:
        self.factor = float(Path(model_url).read_text())


def test_fit_is_train_and_unknown_options_are_left_out(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    give(monkeypatch, MODEL_NAME="factor.txt")
    options: dict[str, Any] = {"epochs": 2, "colour": "red", "post_process": lambda it: it.factor}
    assert IncrementalLearning(Scores).train([1.0, 2.0], valid_data=[3.0], **options) == 6.0
    assert (folder / "model" / "factor.txt").read_text() == "6.0"
    monkeypatch.setattr(Scores, "save", lambda self, path: None)
    (folder / "model" / "factor.txt").unlink()
    with pytest.raises(FileNotFoundError, match="save has not written"):
        IncrementalLearning(Scores).train([1.0])


def test_each_model_is_loaded_into_an_object_of_its_own_before_it_is_evaluated(folder: Path) -> None:
    """In Sedna's backend for torch both have the weights of the first one."""
    write(folder, samples="", trained="2", deployed="1")
    for estimator in (Scores, Scores()):
        learning = IncrementalLearning(estimator)
        learning.evaluate([1, 2])
        trained, deployed = {"sum": 6.0, "each": [2.0, 4.0]}, {"sum": 3.0, "each": [1.0, 2.0]}
        assert learning.result == {"trained": trained, "deployed": deployed}
    learning = IncrementalLearning(Additive)
    learning.evaluate([1])
    assert learning.result["deployed"]["sum"] == 1.0


def test_a_callback_makes_metrics_which_are_json(folder: Path) -> None:
    write(folder, samples="1", trained="1", deployed="1")
    ClassFactory.register(ClassType.CALLBACK, alias="halved")(lambda found: {"half": found["sum"] / 2})
    learning = IncrementalLearning(Scores)
    found = learning.evaluate([1, 3], post_process="halved")
    assert [each["metrics"] for each in found] == [{"half": 2.0}, {"half": 2.0}]
    with pytest.raises(TypeError, match="post_process"):
        learning.evaluate([1], post_process=lambda found: [1.0])
    with pytest.raises(ValueError, match="halved"):
        learning.evaluate([1], post_process="quartered")
    odd = {"a": np.array([1, 2]), "b": float("nan"), "c": (1, float("-inf"))}
    assert plain_metrics(odd) == {"a": [1, 2], "b": "nan", "c": [1, "-inf"]}
    with pytest.raises(TypeError, match="metric a: expected a number"):
        plain_metrics({"a": "much"})


def test_an_inference_has_an_answer_and_may_be_hard(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """I40."""
    write(folder, model="0.5")
    learning = IncrementalLearning(Scores)
    assert learning.get_hem_algorithm_from_config(threshold=1) == {}
    assert learning.inference(1.0) == ([0.5, 0.5], [0.5, 0.5], False), "without a miner no example is hard"
    chosen = {"miner": "CrossEntropy", "parameters": {"threshold_cross_entropy": 0.5}}
    give(monkeypatch, service={"job": "sorter", "name": "inference", "hard_examples": chosen})
    miner = IncrementalLearning.get_hem_algorithm_from_config(threshold_cross_entropy=0.4)
    assert miner == {"method": "CrossEntropy", "param": {"threshold_cross_entropy": 0.4}}
    learning = IncrementalLearning(Scores)
    assert [learning.inference(value)[2] for value in (1.0, 2.0)] == [True, False]
    raw, processed, hard = learning.inference(2.0, post_process=halve)
    assert (raw, processed, hard) == ([1.0, 0.0], [0.5, 0.0], False), "a callback may change its argument"


def write(folder: Path, **texts: str) -> None:
    for name, text in texts.items():
        (folder / "inputs" / name).write_text(text)


def halve(scores: list[float]) -> list[float]:
    scores[:] = [each / 2 for each in scores]
    return scores


class InstructedChannel(ScreenChannel):
    """A channel with instructions, of which each is read once; their artifacts are files."""

    def __init__(self) -> None:
        self.instructions: list[tuple[int, dict[str, Any]]] = []
        self.said: list[Any] = []

    def instruction(self, wait_s: float) -> Any:
        return self.instructions.pop(0) if self.instructions else None

    def acknowledge(self, number: int, ok: bool, detail: Mapping[str, Any]) -> None:
        self.said.append((number, ok, detail["update"]))

    def ready(self, detail: Mapping[str, Any]) -> None:
        self.said.append((detail["version"], detail["inferences"], detail["hard"]))

    def give(self, number: int, file: Path) -> None:
        model = {"version": number, "artifact": {"uri": file.as_uri(), "sha256": "", "size_bytes": 1}}
        self.instructions.append((number, {"update": number * 10, "model": model}))


class Additive(Scores):
    """Adds up what it loads, as graphs of TensorFlow do; a load may fail when it is half done."""

    def __init__(self, bias: float = 0.0) -> None:
        super().__init__(bias)
        self.factor = 0.0

    def load(self, model_url: str) -> None:
        for line in Path(model_url).read_text().split():
            self.factor += float(line)


def test_a_model_is_taken_whole_between_two_answers(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """I28."""
    channel = InstructedChannel()
    trial.connect(channel)
    for name, text in (("inputs/model", "1"), ("second", "2"), ("bad", "7 seven"), ("third", "3")):
        (folder / name).write_text(text)
    give(monkeypatch, service={"job": "sorter", "model": {"version": 5}})
    learning = IncrementalLearning(Additive)
    answers = [learning.inference(1.0)[0][0]]
    for number, name in enumerate(("second", "bad", "third"), start=1):
        channel.give(number, folder / name)
        answers.append(learning.inference(1.0)[0][0])
    assert answers == [1.0, 2.0, 2.0, 3.0]
    assert channel.said == [
        (5, 0, 0), (1, True, 10), (1, 1, 0), (2, False, 20), (3, True, 30), (3, 3, 0)
    ]  # fmt: skip
    trial.connect(ScreenChannel())


def test_an_instruction_that_is_there_at_first_wins(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    channel = InstructedChannel()
    trial.connect(channel)
    write(folder, model="1", second="2")
    give(monkeypatch, service={"job": "sorter"})
    channel.give(4, folder / "inputs" / "second")
    assert IncrementalLearning(Additive).inference(1.0)[0][0] == 2.0
    assert channel.said == [(4, True, 40), (4, 0, 0)]
    trial.connect(ScreenChannel())


def test_a_miner_of_the_script_s_own_is_called_by_its_name() -> None:
    @ClassFactory.register(ClassType.HEM, alias="Above")
    class Above:
        def __init__(self, limit: float) -> None:
            self.limit = limit

        def __call__(self, scores: Any) -> bool:
            return bool(max(scores) > self.limit)

    Path("inputs/model").write_text("1")
    learning = IncrementalLearning(Scores(), {"method": "Above", "param": {"limit": 3}})
    assert [learning.inference(value)[2] for value in (2.0, 5.0)] == [False, True]


def test_lines_are_features_and_labels_as_sedna_reads_them(folder: Path) -> None:
    (folder / "a.txt").write_text("a.png 3\n\nb.png\n")
    data = TxtDataParse(data_type="train")
    data.parse(str(folder / "a.txt"), "missing.txt", None)
    assert (data.x.tolist(), data.y.tolist(), len(data)) == (["a.png", "b.png"], ["3", "0"], 2)
    data = TxtDataParse(data_type="test", func=lambda line: line.upper())
    data.parse(str(folder / "a.txt"), use_raw=True)
    assert data.x.tolist() == ["A.PNG 3", "B.PNG"] and data.is_test_data


@pytest.fixture(name="_without_pandas")
def _hides_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasources, "find_spec", lambda name: None)
    monkeypatch.setitem(sys.modules, "pandas", None)


@pytest.mark.usefixtures("_without_pandas")
def test_tables_are_arrays_without_pandas(folder: Path) -> None:
    (folder / "a.csv").write_text("\ufeffx,name,y\n1,one,2\n3,,4.5\n")
    (folder / "b.csv").write_text("x,y\n,6\n")
    data = CSVDataParse("train")
    data.parse(str(folder / "a.csv"), "missing.csv", None, label="y", usecols="x")
    assert (data.x.tolist(), data.y.tolist(), len(data)) == ([[1], [3]], [2.0, 4.5], 2)
    data.parse(str(folder / "a.csv"), {"x": 5, "name": "five", "y": 7}, label="y")
    assert data.x.tolist() == [[1, "one"], [3, ""], [5, "five"]]
    data.parse(str(folder / "a.csv"), str(folder / "b.csv"), label="y", usecols=["x"])
    assert data.y.tolist() == [2.0, 4.5, 6.0] and data.x[1][0] == 3 and math.isnan(data.x[2][0])
    data = CSVDataParse("test")
    data.parse([1, 2.5])
    assert (data.x.tolist(), data.y) == ([[1, 2.5]], None)
    with pytest.raises(ValueError, match=r"no column 'z'; it has \['x', 'name', 'y'\]"):
        data.parse(str(folder / "a.csv"), usecols="z")
    (folder / "a.csv").write_text("x,y\n1,2\n3,4,5\n")
    with pytest.raises(ValueError, match="row 2 has more cells"):
        data.parse(str(folder / "a.csv"))


@pytest.mark.usefixtures("_without_pandas")
@pytest.mark.parametrize(("func", "options"), [(None, {"sep": ";"}), (lambda table: table, {})])
def test_what_only_pandas_can_read_says_so(folder: Path, func: Any, options: dict[str, str]) -> None:
    (folder / "a.csv").write_text("x;y\n1;2\n")
    with pytest.raises(ImportError, match="pandas"):
        CSVDataParse("train", func=func).parse(str(folder / "a.csv"), label="y", **options)


def test_tables_are_those_of_pandas_if_it_is_there(folder: Path) -> None:
    pytest.importorskip("pandas")
    (folder / "a.csv").write_text("x,y\n1,2\n")
    data = CSVDataParse("train")
    data.parse(str(folder / "a.csv"), label="y")
    assert (data.x["x"].tolist(), data.y.tolist()) == ([1], [2])


@pytest.mark.thorough
def test_what_is_no_script_is_bad_usage() -> None:
    command = [sys.executable, "-m", "trackside.compat.sedna", "no.py"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2 and "usage: python -m trackside.compat.sedna" in done.stderr
