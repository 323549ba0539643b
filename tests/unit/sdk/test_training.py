"""What a training leaves on the disk (T24), with a real model: files, going on, a full disk, damage."""

import errno
import json
import logging
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from trackside.sdk import trial
from trackside.sdk.in_task.channel import ScreenChannel
from trackside.sdk.training import Training

pytestmark = pytest.mark.thorough


class RecordingChannel(ScreenChannel):
    def __init__(self) -> None:
        self.calls: list[tuple[str, int, Any]] = []

    def report(self, step: int, value: float | None, others: Mapping[str, float]) -> None:
        self.calls.append(("report", step, value))
        if others:
            self.points(step, others)

    def points(self, step: int, values: Mapping[str, float], time_ms: int | None = None) -> None:
        self.calls.append(("points", step, dict(values)))


@pytest.fixture(autouse=True)
def recorded() -> Iterator[RecordingChannel]:
    channel = RecordingChannel()
    trial.connect(channel)
    yield channel
    trial.connect(ScreenChannel())


def torch() -> Any:
    """Returns torch, imported when a test needs it: `make check` has none, or has no time for it."""
    return pytest.importorskip("torch")


def made(folder: Path, **options: Any) -> tuple[Training, Any]:
    torch().manual_seed(7)
    model = torch().nn.Sequential(torch().nn.Linear(4, 8), torch().nn.Dropout(0.2), torch().nn.Linear(8, 1))
    optimizer = torch().optim.Adam(model.parameters(), lr=0.01)
    schedule = torch().optim.lr_scheduler.MultiStepLR(optimizer, [4, 8, 15])
    inputs = torch().arange(40.0).reshape(10, 4) / 40

    def step() -> dict[str, float]:
        optimizer.zero_grad()
        loss = (model(inputs[torch().randperm(10)]) - 1).square().mean()
        loss.backward()
        optimizer.step()
        schedule.step()
        return {"loss": loss, "rate": schedule.get_last_lr()[0]}

    return Training(folder, model, optimizer, others={"schedule": schedule}, **options), step


def trained(folder: Path, epochs: int, **options: Any) -> Training:
    training, step = made(folder, **options)
    for _ in range(training.resume(), epochs):
        training.record(step())
    training.finish()
    return training


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def states(folder: Path) -> dict[str, Any]:
    """Loads the files of states as anybody may: without running code from them."""
    return {path.name: torch().load(path, weights_only=True) for path in folder.glob("*.pt")}


def same(first: Any, second: Any) -> bool:
    if isinstance(first, torch().Tensor):
        return bool(torch().equal(first, second))
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(same(first[key], second[key]) for key in first)
    if isinstance(first, list | tuple):
        return len(first) == len(second) and all(map(same, first, second))
    return bool(first == second)


def test_t24_a_training_leaves_history_curves_states_and_a_checkpoint_every_10_epochs(
    tmp_path: Path, recorded: RecordingChannel
) -> None:
    trained(tmp_path / "run", 25, objective="loss")
    states_and_history = ["history.json", "history.png", "model.pt", "optimizer.pt", "schedule.pt"]
    assert names(tmp_path / "run") == ["checkpoint-000010.pt", "checkpoint-000020.pt", *states_and_history]
    history = json.loads((tmp_path / "run/history.json").read_text())
    assert [row["epoch"] for row in history] == list(range(25))
    assert history[-1]["loss"] < history[0]["loss"] and history[0]["rate"] == 0.01
    picture = (tmp_path / "run/history.png").read_bytes()
    assert picture.startswith(b"\x89PNG\r\n") and len(picture) > 5_000
    assert states(tmp_path / "run")["model.pt"].keys() == {"0.weight", "0.bias", "2.weight", "2.bias"}
    assert [call[:2] for call in recorded.calls if call[0] == "report"] == [("report", n) for n in range(25)]
    assert ("points", 24, {"rate": history[-1]["rate"]}) in recorded.calls


def test_a_training_that_goes_on_ends_like_one_that_was_never_broken_off(tmp_path: Path) -> None:
    trained(tmp_path / "whole", 25)
    broken, step = made(tmp_path / "broken")
    for _ in range(13):
        broken.record(step())
    again, _ = made(tmp_path / "broken")
    assert again.resume() == 10
    trained(tmp_path / "broken", 25)
    assert same(states(tmp_path / "broken"), states(tmp_path / "whole"))
    assert (tmp_path / "broken/history.json").read_text() == (tmp_path / "whole/history.json").read_text()


def test_fm21_a_full_disk_is_said_and_leaves_the_checkpoint_before_whole(tmp_path: Path) -> None:
    training, step = made(tmp_path)
    for _ in range(19):
        training.record(step())
    before = (tmp_path / "checkpoint-000010.pt").read_bytes()
    (tmp_path / ".checkpoint-000020.pt.part").symlink_to("/dev/full")
    with pytest.raises(
        OSError, match=r"checkpoint-000020\.pt can't be written.*the checkpoint after 10 epochs is whole"
    ) as caught:
        training.record(step())
    assert caught.value.errno == errno.ENOSPC
    assert (tmp_path / "checkpoint-000010.pt").read_bytes() == before
    assert "checkpoint-000020.pt" not in names(tmp_path) and not list(tmp_path.glob(".*"))
    again, _ = made(tmp_path)
    assert again.resume() == 10


@pytest.mark.parametrize("damage", [lambda read: read[:-100], lambda read: read.replace(b"loss", b"lass")])
def test_a_damaged_checkpoint_is_no_use(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: Any
) -> None:
    trained(tmp_path, 20)
    newest = tmp_path / "checkpoint-000020.pt"
    newest.write_bytes(damage(newest.read_bytes()))
    training, _ = made(tmp_path)
    with caplog.at_level(logging.WARNING):
        assert training.resume() == 10
    assert "checkpoint-000020.pt is damaged" in caplog.text


def test_without_matplotlib_there_is_one_warning_and_no_picture(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with caplog.at_level(logging.WARNING):
        trained(tmp_path, 20)
    assert "history.png" not in names(tmp_path) and "model.pt" in names(tmp_path)
    assert [record.getMessage() for record in caplog.records] == [
        "no history.png: matplotlib is not installed (pip install 'trackside[plot]')"
    ]


def test_a_state_that_would_run_code_is_refused_where_it_is(tmp_path: Path) -> None:
    class Clever:
        def state_dict(self) -> dict[str, Any]:
            return {"steps": [1, {"path": Path("x")}]}

        def load_state_dict(self, state: dict[str, Any], /) -> None: ...

    training = Training(tmp_path, torch().nn.Linear(1, 1), others={"clever": Clever()})
    with pytest.raises(TypeError, match=r"states\.clever\.steps\[1\]\.path is a pathlib\.PosixPath"):
        training.checkpoint()
    assert names(tmp_path) == []


def test_what_is_not_finite_is_written_as_text_and_drawn_as_a_gap(tmp_path: Path) -> None:
    training = Training(tmp_path, torch().nn.Linear(1, 1))
    training.record({"loss": float("nan"), "cost in $": 1.0})
    training.finish()
    [row] = json.loads((tmp_path / "history.json").read_text())
    assert row == {"epoch": 0, "loss": "nan", "cost in $": 1.0}
    assert (tmp_path / "history.png").exists()


def test_without_an_objective_metrics_are_only_looked_at(tmp_path: Path, recorded: RecordingChannel) -> None:
    training = Training(tmp_path, torch().nn.Linear(1, 1))
    training.record({"loss/train": 0.5})
    assert recorded.calls == [("points", 0, {"loss/train": 0.5})]


def test_what_cannot_be_kept_is_refused_at_once(tmp_path: Path) -> None:
    model = torch().nn.Linear(1, 1)
    with pytest.raises(ValueError, match="checkpoint_every: expected 1 epoch or more, got 0"):
        Training(tmp_path, model, checkpoint_every=0)
    with pytest.raises(ValueError, match=r"others: '\.\./x' can't be a name"):
        Training(tmp_path, model, others={"../x": model})
    with pytest.raises(ValueError, match=r"expected the objective 'accuracy' .*got \['loss'\]"):
        Training(tmp_path, model, objective="accuracy").record({"loss": 1.0})
    trained(tmp_path, 10)
    with pytest.raises(ValueError, match=r"checkpoint-000010\.pt: has the states .*expected \['model'\]"):
        Training(tmp_path, torch().nn.Linear(1, 1)).resume()
