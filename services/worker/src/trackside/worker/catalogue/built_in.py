"""The task types that every worker runs itself, whatever its catalogue.

Their code is Trackside's own, so their processes get what no process of users gets: the path of the file with
the host's credentials.
"""

from collections.abc import Mapping
from pathlib import Path

from trackside.contracts.fleet.fleet import CHECK_ARTIFACTS, COPY_MODEL, WATCH_DATASET, WRITE_MANIFEST
from trackside.worker.catalogue.task_catalogue import TaskType

CREDENTIALS = "TRACKSIDE_CREDENTIALS"
_STORES = (CREDENTIALS, "TRACKSIDE_STORE_TIMEOUT_S")
"""The variables of the host that its stores are opened with."""
_TYPES = (
    TaskType(CHECK_ARTIFACTS),
    TaskType(
        WATCH_DATASET,
        "trackside.incremental.watching.watching:WatchDataset",
        environment=_STORES,
        runner="service",
    ),
    TaskType(WRITE_MANIFEST, "trackside.incremental.manifests:WriteManifest", environment=_STORES),
    TaskType(COPY_MODEL, "trackside.incremental.copying:CopyModel", environment=_STORES),
)
BUILT_IN: Mapping[str, TaskType] = {each.name: each for each in _TYPES}
"""By name; an attempt carries out one without an entry itself, without a process."""
BUILT_IN_SERVICES = frozenset(each.name for each in _TYPES if each.runner == "service")
"""Those that run until they are stopped."""


def environment_for_tasks(host: Mapping[str, str]) -> dict[str, str]:
    """Returns the variables of the host, of which tasks get a part.

    The path of the credentials is absolute there: a task has a working directory of its own.
    """
    path = host.get(CREDENTIALS)
    return {**host, CREDENTIALS: str(Path(path).absolute())} if path else dict(host)
