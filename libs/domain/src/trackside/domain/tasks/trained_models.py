"""The trained models that a task has saved or a child has found: the artifact, and what is known of it. Pure.

A model is JSON: `artifact` (its reference), `format` (empty if not given), `devices`, `metrics` (by name),
and the `stream`, `task` and `attempt` that saved it. Format, devices and metrics are from its metadata.
"""

import math
from collections.abc import Mapping
from typing import Any

from trackside.contracts.envelope.ids import is_identifier
from trackside.contracts.envelope.message import Json
from trackside.domain.tasks.task import SavedArtifact

TRAINED_MODELS = "trained_models"
"""Where the outcome of a search or a run has the models that it has found; only the kernel writes it."""
MAX_MODELS = 10
"""How many models an outcome has."""
MAX_DEVICES = 20
MAX_METRICS = 1_000
MAX_FORMAT_LENGTH = 100


def trained_model(saved: SavedArtifact) -> Json:
    """Returns a model that a task has saved; what its metadata have in another form is left out."""
    stream, task, _ = saved.reference.source.split("/", 2)
    named = saved.metadata.get("format")
    return {
        "artifact": saved.reference.model_dump(mode="json"),
        "format": named if isinstance(named, str) and len(named) <= MAX_FORMAT_LENGTH else "",
        "devices": _devices(saved.metadata.get("devices")),
        "metrics": _metrics(saved.metadata.get("metrics")),
        "stream": stream,
        "task": task,
        "attempt": saved.attempt or 1,  # unknown only for what an older release took over
    }


def models_of_child(result: Json) -> list[Json]:
    """Returns the models that a child has found, by the result of its end; the one that counts is the first.

    Of a search they are those of its best trials, the best one first. Of a run they are those among its
    outputs: the output `model`, then the others in their order.
    """
    return list(result.get(TRAINED_MODELS, ()))


def _devices(devices: Any) -> list[str]:
    listed = devices if isinstance(devices, list) else [devices]
    return [each for each in listed if isinstance(each, str) and is_identifier(each)][:MAX_DEVICES]


def _metrics(metrics: Any) -> dict[str, float]:
    given: Mapping[str, Any] = metrics if isinstance(metrics, dict) else {}
    numbers = [
        (name, value) for name, value in given.items() if type(value) in (int, float) and math.isfinite(value)
    ]
    return dict(numbers[:MAX_METRICS])
