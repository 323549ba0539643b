"""What users import: Client, Search, Pipeline, PipelineRun, NamedPipeline, SummaryWriter, Task, Service,
trial, errors.

All but Task, Service and trial are imported on first use: the process of a task needs no connection to Kafka.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from trackside.sdk import trial as trial
from trackside.sdk.task import Service as Service
from trackside.sdk.task import Task as Task

if TYPE_CHECKING:
    from trackside.sdk.client import Client as Client
    from trackside.sdk.errors import BadKeyError as BadKeyError
    from trackside.sdk.errors import ClientError as ClientError
    from trackside.sdk.errors import EncryptedStreamError as EncryptedStreamError
    from trackside.sdk.errors import NotOverError as NotOverError
    from trackside.sdk.errors import RefusedError as RefusedError
    from trackside.sdk.errors import SearchFailedError as SearchFailedError
    from trackside.sdk.errors import SpecError as SpecError
    from trackside.sdk.errors import UnansweredError as UnansweredError
    from trackside.sdk.errors import UnreachableError as UnreachableError
    from trackside.sdk.errors import UnsendableError as UnsendableError
    from trackside.sdk.in_task.channel import FetchError as FetchError
    from trackside.sdk.in_task.checkpoints import CheckpointError as CheckpointError
    from trackside.sdk.in_task.saving import SaveError as SaveError
    from trackside.sdk.named_pipelines import NamedPipeline as NamedPipeline
    from trackside.sdk.pipeline_runs import PipelineRun as PipelineRun
    from trackside.sdk.pipelines import Pipeline as Pipeline
    from trackside.sdk.search import Search as Search
    from trackside.sdk.summaries.writer import SummaryWriter as SummaryWriter


def __getattr__(name: str) -> object:
    errors = (
        "BadKeyError", "ClientError", "EncryptedStreamError", "NotOverError", "RefusedError",
        "SearchFailedError", "SpecError", "UnansweredError", "UnreachableError", "UnsendableError",
    )  # fmt: skip
    modules = {
        "Client": "client",
        "NamedPipeline": "named_pipelines",
        "Pipeline": "pipelines",
        "PipelineRun": "pipeline_runs",
        "Search": "search",
        "SaveError": "in_task.saving",
        "SummaryWriter": "summaries.writer",
        "CheckpointError": "in_task.checkpoints",
        "FetchError": "in_task.channel",
        **dict.fromkeys(errors, "errors"),
    }
    if name not in modules:
        known = ", ".join(["Task", "Service", "trial", *modules])
        raise AttributeError(f"trackside.sdk has no {name!r}; it has {known}")
    return getattr(import_module(f"trackside.sdk.{modules[name]}"), name)
