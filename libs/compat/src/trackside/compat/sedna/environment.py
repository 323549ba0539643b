"""The variables that Sedna gives its workers, made of the inputs and parameters of a task.

A task of a round has inputs: to train `samples` and `model`, to evaluate `samples`, `trained` and `deployed`,
to serve `model`. Its parameters are those of its user, and `round` or `service` of the job.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trackside.sdk import trial

OF_THE_JOB = ("round", "service")
"""Parameters that the job gives, and not its user."""
DEFAULTS = {
    "access_key_id": "",
    "backend_type": "TENSORFLOW",
    "data_path_prefix": "",
    "device_category": "CPU",
    "job_name": "sedna",
    "lc_server": "",
    "log_level": "INFO",
    "model_name": None,
    "model_url": None,
    "namespace": "",
    "original_dataset_url": None,
    "parameters": None,
    "pretrained_model_url": "./",
    "s3_endpoint_url": "",
    "secret_access_key": "",
    "service_name": "",
    "test_dataset_url": None,
    "train_dataset_url": None,
    "worker_name": "",
}
"""The settings of a worker of Sedna, and what they are where their variable is not set."""


def environment() -> dict[str, str]:
    """Returns the variables of this task under the names that Sedna has for them.

    Parameters are variables under their own names; those that are no texts are written as JSON.
    """
    given = trial.parameters()
    job = {name: given.pop(name, None) or {} for name in OF_THE_JOB}
    found = {name: value if isinstance(value, str) else json.dumps(value) for name, value in given.items()}
    samples, model = _input("samples"), _input("model")
    trained, deployed = _input("trained"), _input("deployed")
    if trained and deployed:
        found |= {"MODEL_URLS": f"{trained};{deployed}", "TEST_DATASET_URL": samples}
    elif samples:
        found |= {"BASE_MODEL_URL": model, "MODEL_URL": str(model_folder()), "TRAIN_DATASET_URL": samples}
    elif model:
        found |= {"MODEL_URL": model, **_mining(job["service"].get("hard_examples"))}
    name = job["round"].get("job") or job["service"].get("job") or ""
    found |= {"JOB_NAME": name, "WORKER_NAME": trial.task_id(), "NAMESPACE": "default"}
    return {name: value for name, value in found.items() if value}


def model_folder() -> Path:
    """Returns the folder that a trained model is written into, below that of the task."""
    return Path(os.environ.get("TRACKSIDE_WORKDIR") or ".").absolute() / "model"


def _input(name: str) -> str:
    """Returns the path of an input; empty if the task has none of this name."""
    try:
        return str(trial.input(name))
    except ValueError:
        return ""


def _mining(chosen: Mapping[str, Any] | None) -> dict[str, str]:
    if not chosen:
        return {}
    parameters = [{"key": key, "value": value} for key, value in chosen.get("parameters", {}).items()]
    return {"HEM_NAME": str(chosen["miner"]), "HEM_PARAMETERS": json.dumps(parameters)}


class Context:
    """The variables of this task, as scripts of Sedna ask for them."""

    @classmethod
    def get_parameters(cls, param: str, default: Any = None) -> Any:
        """Returns a variable by its name, or by that in upper case; a default if it is not set, or empty."""
        known = {**os.environ, **environment()}
        return known.get(param) or known.get(param.upper()) or default

    @classmethod
    def get_algorithm_from_api(cls, algorithm: str, **param: Any) -> dict[str, Any]:
        """Returns the method and the parameters of an algorithm, such as HEM; an empty dict without one."""
        name = cls.get_parameters(f"{algorithm}_NAME")
        if not name:
            return {}
        try:
            pairs = json.loads(cls.get_parameters(f"{algorithm}_PARAMETERS", "[]"))
            given = {pair["key"]: pair.get("value", "") for pair in pairs if "key" in pair}
        except (TypeError, ValueError):
            given = {}
        return {"method": name, "param": given | param}


class WorkerConfig:
    """The settings of a worker of Sedna as attributes, such as `train_dataset_url`."""

    def __getattr__(self, name: str) -> Any:
        """Returns a setting; raises AttributeError for one that Sedna does not have."""
        if name not in DEFAULTS:
            raise AttributeError(f"BaseConfig has no {name!r}; it has {', '.join(DEFAULTS)}")
        return Context.get_parameters(name.upper(), DEFAULTS[name])

    def __call__(self) -> "WorkerConfig":
        """Returns the settings: scripts use the class of Sedna, and make objects of it."""
        return self


BaseConfig = WorkerConfig()
