"""Sedna's IncrementalLearning for tasks of Trackside: the same calls, with the inputs of a round."""

import json
import math
import os
import sys
from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any

from trackside.compat.sedna.environment import Context, model_folder
from trackside.compat.sedna.estimators import UserEstimator
from trackside.compat.sedna.kinds import format_of
from trackside.compat.sedna.registered import ClassFactory, ClassType
from trackside.compat.sedna.served import ServedEstimator
from trackside.incremental.serving.miners import find_miner
from trackside.sdk import trial
from trackside.sdk.in_task.descriptor import DESCRIPTOR, DescriptorChannel

MODELS = ("trained", "deployed")
"""The models that an evaluation compares, in the order in which MODEL_URLS has them."""


class IncrementalLearning:
    """Trains, evaluates and serves by an estimator: a class or an object with the methods that Sedna calls.

    `hard_example_mining` is `{"method": NAME, "param": {...}}`; without it that of the job is used, if it
    has one.
    """

    def __init__(self, estimator: Any, hard_example_mining: Mapping[str, Any] | None = None) -> None:
        self.estimator = UserEstimator(estimator)
        self.result: dict[str, Any] = {}
        """What the last evaluation has found, as a task of a job returns it."""
        self.is_hard = _miner(hard_example_mining or self.get_hem_algorithm_from_config())
        self._served: ServedEstimator | None = None

    @classmethod
    def get_hem_algorithm_from_config(cls, **param: Any) -> dict[str, Any]:
        """Returns the miner of the job as `{"method", "param"}`, with other parameters; {} without one."""
        return Context.get_algorithm_from_api("HEM", **param)

    @classmethod
    def get_parameters(cls, param: str, default: Any = None) -> Any:
        """Returns a variable of this task, or a default."""
        return Context.get_parameters(param, default)

    @property
    def model_path(self) -> str:
        """The file of the model that is served, or the folder that a trained one is written into."""
        return str(Context.get_parameters("MODEL_URL") or model_folder())

    def train(self, train_data: Any, valid_data: Any = None, post_process: Any = None, **kwargs: Any) -> Any:
        """Trains, and saves the model as an artifact of this task; returns the estimator.

        What training returns are the metrics of the artifact if it is a dict. Raises SaveError for a model
        that executes code when it is read, such as a pickle.
        """
        found = self.estimator.train({"train_data": train_data, "valid_data": valid_data, **kwargs})
        path = self.estimator.save(model_folder(), Context.get_parameters("MODEL_NAME", ""))
        metadata: dict[str, Any] = {"format": format_of(path.suffix)}
        if isinstance(found, Mapping):
            metadata["metrics"] = plain_metrics(found)
        trial.save("model", path, kind="model", metadata=metadata)
        made = self.estimator.made(kwargs)
        callback = ClassFactory.get_cls(ClassType.CALLBACK, post_process)
        return made if callback is None else callback(made)

    def evaluate(self, data: Any, post_process: Any = None, **kwargs: Any) -> list[dict[str, Any]]:
        """Evaluates the trained and the deployed model; returns both as Sedna does, and sets `result`.

        In a program the result is that of the task; a task class returns `result` from its `train`. Raises
        TypeError unless the metrics of a model are a dict of numbers, or of lists of them.
        """
        callback = ClassFactory.get_cls(ClassType.CALLBACK, post_process)
        urls = [url for url in str(Context.get_parameters("MODEL_URLS", "")).split(";") if url.strip()]
        urls = urls or [url for url in [Context.get_parameters("MODEL_URL")] if url]
        found = []
        for url in urls:
            metrics = self.estimator.again().evaluate(url, {"data": data, **kwargs})
            metrics = metrics if callback is None else callback(metrics)
            found.append({"format": format_of(url.rpartition(".")[2]), "url": url, "metrics": metrics})
        self.result = {
            name: plain_metrics(each["metrics"]) for name, each in zip(MODELS, found, strict=False)
        }
        _say_result(self.result)
        return found

    def inference(self, data: Any = None, post_process: Any = None, **kwargs: Any) -> tuple[Any, Any, bool]:
        """Returns the answer of the model, what `post_process` makes of it, and whether the example is hard.

        In a service of a job the newest model that it was instructed of is loaded before the answer.
        """
        if self._served is None:
            self._served = ServedEstimator(self.estimator, self.model_path, kwargs)
        callback = ClassFactory.get_cls(ClassType.CALLBACK, post_process)
        raw = self._served.newest().predict(data, kwargs)
        processed = raw if callback is None else callback(deepcopy(raw))
        hard = self.is_hard is not None and bool(self.is_hard(processed))
        self._served.count(hard)
        return raw, processed, hard


def plain_metrics(found: Any) -> dict[str, Any]:
    """Returns metrics as JSON has them: numbers and lists of numbers; what is not finite is its name."""
    if not isinstance(found, Mapping):
        hint = "give `post_process` a function that returns such a dict"
        raise TypeError(f"expected metrics as a dict by their names, got {type(found).__name__}; {hint}")
    return {str(name): _plain(str(name), value) for name, value in found.items()}


def _plain(name: str, value: Any) -> Any:
    if hasattr(value, "tolist"):  # of numpy and torch
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [_plain(name, each) for each in value]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"metric {name}: expected a number or a list of numbers, got {type(value).__name__}")
    return value if math.isfinite(value) else str(float(value))


def _miner(chosen: Mapping[str, Any]) -> Callable[[Any], Any] | None:
    """Returns what says of an answer whether it is hard; None without a miner."""
    if not chosen:
        return None
    method, parameters = chosen.get("method", "IBT"), dict(chosen.get("param") or {})
    if ClassFactory.is_exists(ClassType.HEM, method):
        own: Callable[[Any], Any] = ClassFactory.get_cls(ClassType.HEM, method)(**parameters)
        return own
    return find_miner(method, parameters).is_hard


def _say_result(result: Mapping[str, Any]) -> None:
    """Writes the result of a program to its worker; without one, to standard output."""
    line = json.dumps({"result": result})
    if isinstance(trial.channel(), DescriptorChannel):
        left = f"{line}\n".encode()
        while left:
            left = left[os.write(int(os.environ[DESCRIPTOR]), left) :]
    elif not trial.in_task():
        sys.stdout.write(f"{line}\n")
