"""What users import: Client, Search, Task, trial.

Client and Search are imported on first use: the process of a task needs no connection to Kafka.
"""

from typing import TYPE_CHECKING

from trackside.sdk import trial as trial
from trackside.sdk.task import Task as Task

if TYPE_CHECKING:
    from trackside.sdk.client import Client as Client
    from trackside.sdk.search import Search as Search


def __getattr__(name: str) -> object:
    if name == "Client":
        from trackside.sdk.client import Client

        return Client
    if name == "Search":
        from trackside.sdk.search import Search

        return Search
    raise AttributeError(f"trackside.sdk has no {name!r}; it has Client, Search, Task and trial")
