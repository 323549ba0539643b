"""The model that a script serves: the newest that it was instructed of, between two answers."""

import time
from collections.abc import Mapping
from typing import Any

from trackside.compat.sedna.estimators import UserEstimator
from trackside.sdk import trial
from trackside.sdk.recent_artifacts import RecentArtifacts

WINDOW_S = 30.0
"""How often the counts are reported."""


class ServedEstimator:
    """An estimator with its model, which instructions replace; says what it serves, and counts.

    A model that can't be loaded leaves the one before in use, and the instruction is refused.
    """

    def __init__(self, estimator: UserEstimator, model: str, options: Mapping[str, Any]) -> None:
        self._options = options
        self._service: Mapping[str, Any] = trial.parameters().get("service") or {}
        self._counts = {"inferences": 0, "hard": 0}
        self._serves = _said(self._service)
        self._artifacts = RecentArtifacts()
        self._said_s = time.monotonic()
        self._estimator = estimator
        instruction = trial.instruction() if self._service else None
        if instruction is None or not self._take(instruction):
            estimator.load(model, options)
            self._say()

    def newest(self) -> UserEstimator:
        """Returns the estimator with the newest model."""
        instruction = trial.instruction() if self._service else None
        if instruction is not None:
            self._take(instruction)
        return self._estimator

    def count(self, hard: bool) -> None:
        """Counts an answer, and reports the counts if that is due."""
        self._counts["inferences"] += 1
        self._counts["hard"] += hard
        if time.monotonic() - self._said_s >= float(self._service.get("window_s") or WINDOW_S):
            self._say()

    def _take(self, instruction: Any) -> bool:
        """Loads the model of an instruction; returns whether it did."""
        body, said = instruction.body, _said(instruction.body)
        try:
            artifact = body["model"]["artifact"]
            path = self._artifacts.fetch(artifact)
            try:
                estimator = self._estimator.again()
                estimator.load(str(path), self._options)
            except BaseException:
                self._artifacts.drop(artifact)
                raise
        except Exception as error:  # noqa: BLE001 - of any reason the model before stays in use
            message = f"{type(error).__name__}: {error}"
            instruction.acknowledge(ok=False, update=said["update"], message=message[:1_000])
            return False
        self._estimator, self._serves = estimator, said
        self._artifacts.use(artifact)
        instruction.acknowledge(**said)
        self._say()
        return True

    def _say(self) -> None:
        self._said_s = time.monotonic()
        if self._service:
            trial.ready(**self._serves, **self._counts)


def _said(given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what a service says of a model that it serves."""
    model = given.get("model") or {}
    artifact = model.get("artifact") or {}
    return {
        "update": given.get("update", 0),
        "version": model.get("version", 0),
        "sha256": artifact.get("sha256", ""),
    }
