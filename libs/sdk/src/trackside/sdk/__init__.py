"""What users import: Client, Task, trial.

Client comes when it is asked for: a task's process needs no connection to Kafka.
"""

from typing import TYPE_CHECKING

from trackside.sdk import trial as trial
from trackside.sdk.task import Task as Task

if TYPE_CHECKING:
    from trackside.sdk.client import Client as Client


def __getattr__(name: str) -> object:
    if name == "Client":
        from trackside.sdk.client import Client

        return Client
    raise AttributeError(f"trackside.sdk has no {name!r}; it has Client, Task and trial")
