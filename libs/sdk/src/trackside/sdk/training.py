"""Saves the history, curves, checkpoints and trained state of a training.

Files hold plain states and no code: each loads with `torch.load(path, weights_only=True)`. Each is written
atomically.
"""

import json
import logging
import math
import os
import re
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import trackside.sdk.trial as trial
from trackside.sdk.in_task.channel import json_number
from trackside.sdk.in_task.checkpoints import check_plain
from trackside.sdk.in_task.saving import SaveError

log = logging.getLogger("trackside.sdk.training")

HISTORY = "history.json"
CURVES = "history.png"
_CHECKPOINT = re.compile(r"checkpoint-(\d+)\.pt")
_PANEL_INCHES = (6.0, 2.2)


class Stateful(Protocol):
    """An object with a state to save: a torch module, optimizer, scheduler or scaler."""

    def state_dict(self) -> dict[str, Any]:
        """Returns its state as tensors, numbers, texts, lists and dicts."""
        ...

    def load_state_dict(self, state: dict[str, Any], /) -> Any:
        """Restores a state that `state_dict` returned."""
        ...


class Training:
    """One training of a model, in a folder of its own (made if it isn't there).

        training = Training("run", model, optimizer, objective="accuracy")
        for epoch in range(training.resume(), 20):
            ...
            training.record({"loss": loss, "accuracy": accuracy})
        training.finish()

    There are then history.json, history.png (where matplotlib is installed), model.pt, optimizer.pt and
    checkpoint-000010.pt, one more every `checkpoint_every` epochs. `objective` names the metric that tuner
    and assessor use; `others` are further objects with a state to restore, such as a scheduler. A later
    attempt resumes from the checkpoints that the worker has saved in the store, on any worker; without a
    store, the folder must outlive the attempt.
    """

    def __init__(
        self,
        folder: Path | str,
        model: Stateful,
        optimizer: Stateful | None = None,
        *,
        objective: str = "",
        checkpoint_every: int = 10,
        others: Mapping[str, Stateful] | None = None,
    ) -> None:
        if checkpoint_every < 1:
            raise ValueError(f"checkpoint_every: expected 1 epoch or more, got {checkpoint_every}")
        self._folder = Path(folder)
        self._folder.mkdir(parents=True, exist_ok=True)
        self._objective = objective
        self._every = checkpoint_every
        self._parts = {"model": model} | ({} if optimizer is None else {"optimizer": optimizer})
        self._parts |= _named(others or {})
        self._draws = True
        self._saves = True
        self.history: list[dict[str, float]] = []

    def resume(self) -> int:
        """Restores the last undamaged checkpoint; returns the number of epochs done, or 0.

        It is that of the task, else one in the folder; a damaged one is skipped with a warning. Raises what
        `load_state_dict` raises for a model that is not the one of the checkpoint.
        """
        saved = trial.last_checkpoint()
        if saved is not None:
            self._restore(saved.path)
            return len(self.history)
        for path in sorted(self._checkpoints(), reverse=True, key=_epochs_of):
            if _is_whole(path):
                self._restore(path)
                return len(self.history)
            log.warning("%s is damaged and skipped", path)
        return 0

    def record(self, metrics: Mapping[str, float]) -> None:
        """Records and reports the metrics of a finished epoch, and writes a checkpoint if one is due.

        The objective, if set, is reported as the value of the trial, the rest as metrics. Raises
        ValueError if the objective is missing, OSError if the disk is full.
        """
        if self._objective and self._objective not in metrics:
            raise ValueError(
                f"record: expected the objective {self._objective!r} among the metrics; got {sorted(metrics)}"
            )
        epoch = len(self.history)
        found = {name: _number(value) for name, value in metrics.items()}
        self.history.append(found)
        _report(epoch, found, self._objective)
        self._write_history()
        if len(self.history) % self._every == 0 or trial.should_checkpoint():
            self.checkpoint()

    def checkpoint(self) -> Path:
        """Writes a checkpoint of the current state, has it saved in the store, and returns its path.

        Raises OSError if the disk is full: the checkpoint before is undamaged then. Raises TypeError, naming
        the place, for a state that isn't plain, and SaveError.
        """
        state = {
            "history": self.history,
            "states": {name: part.state_dict() for name, part in self._parts.items()},
            "random": _random_state(),
        }
        path = self._folder / f"checkpoint-{len(self.history):06d}.pt"
        self._save(path, state)
        self._keep(path)
        self._draw()
        return path

    def finish(self) -> None:
        """Writes history, curves, and the state of each part: model.pt, optimizer.pt, and so on."""
        self._write_history()
        self._draw()
        for name, part in self._parts.items():
            self._save(self._folder / f"{name}.pt", part.state_dict())

    def _keep(self, path: Path) -> None:
        """Gets a checkpoint saved in the store, if there is one."""
        if not self._saves:
            return
        try:
            trial.checkpoint(len(self.history), path)
        except SaveError as error:
            if error.code != "store_missing":
                raise
            log.warning("checkpoints are in %s only: %s", self._folder, error)
            self._saves = False

    def _checkpoints(self) -> list[Path]:
        return [path for path in self._folder.iterdir() if _CHECKPOINT.fullmatch(path.name)]

    def _restore(self, path: Path) -> None:
        import torch

        found = torch.load(path, map_location="cpu", weights_only=True)
        missing = self._parts.keys() ^ found["states"].keys()
        if missing:
            raise ValueError(
                f"{path}: has the states {sorted(found['states'])}, expected {sorted(self._parts)}"
            )
        for name, part in self._parts.items():
            part.load_state_dict(found["states"][name])
        self.history = found["history"]
        _set_random_state(found["random"])

    def _save(self, path: Path, state: Mapping[str, Any]) -> None:
        import torch

        check_plain(state, path.stem)
        self._written(path, lambda file: torch.save(state, file))

    def _write_history(self) -> None:
        rows = [
            {"epoch": epoch} | {name: json_number(value) for name, value in metrics.items()}
            for epoch, metrics in enumerate(self.history)
        ]
        text = json.dumps(rows, allow_nan=False).replace("}, {", "},\n {") + "\n"
        self._written(self._folder / HISTORY, lambda file: file.write(text.encode()))

    def _written(self, path: Path, write: Callable[[BinaryIO], object]) -> None:
        try:
            replace(path, write)
        except OSError as error:
            last = max(map(_epochs_of, self._checkpoints()), default=0)
            left = f"the checkpoint after {last} epochs is whole" if last else "there is no checkpoint yet"
            raise OSError(
                error.errno, f"{path.name} can't be written: {error.strerror or error}; {left}", str(path)
            ) from error

    def _draw(self) -> None:
        names = sorted({name for metrics in self.history for name in metrics})
        if not names or not self._draws:
            return
        try:
            import matplotlib.figure  # noqa: F401 - only to know whether it is there
        except ImportError:
            log.warning("no %s: matplotlib is not installed (pip install 'trackside[plot]')", CURVES)
            self._draws = False
        else:
            self._written(self._folder / CURVES, lambda file: draw(file, names, self.history))


def replace(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Writes a file atomically: to a temporary file, which then replaces it.

    Raises OSError; the old file is unchanged then, and no other file is left.
    """
    part = path.with_name(f".{path.name}.part")
    try:
        with part.open("wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    finally:
        part.unlink(missing_ok=True)


def draw(file: BinaryIO, names: Sequence[str], history: Sequence[Mapping[str, float]]) -> None:
    """Draws a curve for each metric over the epochs, one below the other, as PNG. Needs matplotlib."""
    from matplotlib.figure import Figure

    width, height = _PANEL_INCHES
    figure = Figure(figsize=(width, height * len(names)), layout="constrained")
    panels = figure.subplots(len(names), sharex=True, squeeze=False)
    for (panel,), name in zip(panels, names, strict=True):
        values = [metrics.get(name, math.nan) for metrics in history]
        panel.plot(values, marker="." if len(values) < 50 else "")
        panel.set_title(name.replace("$", r"\$"), loc="left", fontsize="medium")
        panel.grid(alpha=0.3)
    panels[-1][0].set_xlabel("epoch")
    figure.savefig(file, format="png")


def _named(others: Mapping[str, Stateful]) -> dict[str, Stateful]:
    """Checks the names of further parts, which become file names."""
    for name in others:
        if not re.fullmatch(r"[A-Za-z]\w*", name) or name in ("model", "optimizer"):
            raise ValueError(
                f"others: {name!r} can't be a name; expected letters, digits and _, no model or optimizer"
            )
    return dict(others)


def _epochs_of(path: Path) -> int:
    found = _CHECKPOINT.fullmatch(path.name)
    return int(found[1]) if found else 0


def _is_whole(path: Path) -> bool:
    """Verifies the checksums of a checkpoint: torch itself wouldn't detect a changed byte."""
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.testzip() is None
    except zipfile.BadZipFile:
        return False


def _number(value: Any) -> float:
    """Returns a number as a float, also of torch: `float` of a loss with a gradient would warn."""
    return float(value.item() if hasattr(value, "item") else value)


def _report(epoch: int, metrics: Mapping[str, float], objective: str) -> None:
    others = {name: value for name, value in metrics.items() if name != objective}
    if objective:
        trial.report({"default": metrics[objective], **others}, step=epoch)
        return
    for name, value in others.items():
        trial.metric(name, value, step=epoch)


def _random_state() -> dict[str, Any]:
    """Returns torch's random states, so that a resumed training draws what it would have drawn."""
    import torch

    on_devices = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
    return {"host": torch.get_rng_state(), "devices": list(on_devices)}


def _set_random_state(state: Mapping[str, Any]) -> None:
    import torch

    torch.set_rng_state(state["host"])
    if torch.cuda.is_available() and len(state["devices"]) == torch.cuda.device_count():
        torch.cuda.set_rng_state_all(state["devices"])
