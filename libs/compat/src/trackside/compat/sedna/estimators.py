"""Estimators of users: classes or objects with train or fit, evaluate, predict, save and load."""

import inspect
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

ENDINGS = {"TORCH": ".pth", "TENSORFLOW": ".pb", "KERAS": ".pb", "MINDSPORE": ".ckpt"}
"""The ending of the file of a model whose name is not set, by the BACKEND_TYPE of its user."""


class UserEstimator:
    """An estimator. An object of a class is made when it is needed, with the options that it takes."""

    def __init__(self, given: Any) -> None:
        self.given = given
        self._made: Any = None if is_class(given) else given

    def again(self) -> "UserEstimator":
        """Returns one that is not trained and has loaded nothing; the same one if it is no class."""
        return UserEstimator(self.given)

    def made(self, options: Mapping[str, Any]) -> Any:
        """Returns the object."""
        if self._made is None:
            self._made = self.given(**taken(self.given, options))
        return self._made

    def train(self, options: dict[str, Any]) -> Any:
        """Trains by `fit`, or by `train`; returns what that returns."""
        made = self.made(options)
        method = getattr(made, "fit", None) or made.train
        return method(**taken(method, options))

    def evaluate(self, model: str, options: dict[str, Any]) -> Any:
        """Evaluates the model of a file; `load` loads it first, unless `evaluate` takes a `model_path`."""
        made = self.made(options)
        if "model_path" not in inspect.signature(made.evaluate).parameters:
            self.load(model, options)
        options = {**options, "model_path": model}
        return made.evaluate(**taken(made.evaluate, options))

    def predict(self, data: Any, options: dict[str, Any]) -> Any:
        """Returns the answer of the model that was loaded."""
        method = self.made(options).predict
        return method(data, **taken(method, options))

    def load(self, model: str, options: Mapping[str, Any] | None = None) -> None:
        """Loads the model of a file, if the estimator can."""
        method = getattr(self.made(options or {}), "load", None)
        if method is not None:
            method(model) if "model_url" not in inspect.signature(method).parameters else method(
                model_url=model
            )

    def save(self, folder: Path, name: str) -> Path:
        """Gets the model written into a folder, and returns the file.

        Raises FileNotFoundError if there is none, or several of other names.
        """
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / (name or f"model{ENDINGS.get(os.environ.get('BACKEND_TYPE', '').upper(), '')}")
        said = self.made({}).save(str(path))
        written = [each for each in folder.iterdir() if each.is_file()]
        if isinstance(said, str) and Path(said).is_file():
            return Path(said)
        if path.is_file():
            return path
        if len(written) == 1:  # such as with an ending that numpy adds
            return written[0]
        raise FileNotFoundError(f"the estimator's save has not written {path}, which is its argument")


def is_class(given: Any) -> bool:
    """Returns whether an estimator is yet to be made: a class, or a function that returns one."""
    return inspect.isclass(given) or inspect.isfunction(given)


def taken(function: Callable[..., Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """Returns those options that a function has parameters for; all if it takes any."""
    parameters = inspect.signature(function).parameters
    if any(each.kind is each.VAR_KEYWORD for each in parameters.values()):
        return dict(options)
    return {name: value for name, value in options.items() if name in parameters}
