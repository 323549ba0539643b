"""No spec files begin a pipeline: one is defined by name, and a file of kind `pipeline` is run as it is."""

from trackside.aggregates.pipeline.messages import CancelPipelineRuns
from trackside.contracts.envelope.message import Command
from trackside.domain.folding.spec_kind import SpecKind

SPECS: tuple[SpecKind, ...] = ()


def stop_command(task: str, reason: str) -> Command | None:
    """Returns what cancels all runs of a pipeline, or with `task` the run of that number."""
    if task and not (task.isascii() and task.isdecimal() and 0 < int(task) <= 2**53):
        return None
    return CancelPipelineRuns(number=int(task) if task else None, reason=reason)
