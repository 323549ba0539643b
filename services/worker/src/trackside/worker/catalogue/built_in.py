"""The task types that every worker runs itself, whatever its catalogue."""

from collections.abc import Mapping

from trackside.contracts.fleet import CHECK_ARTIFACTS
from trackside.worker.catalogue.task_catalogue import TaskType

BUILT_IN: Mapping[str, TaskType] = {CHECK_ARTIFACTS: TaskType(CHECK_ARTIFACTS)}
"""They have no code of users: an attempt carries them out without a process. By name."""
