"""The spec files of repeats."""

from tests.aggregates.repeat.messages import StartRepeat, StopRepeat
from trackside.contracts.envelope.message import Command
from trackside.domain.folding.spec_kind import SpecKind


def stop_command(task: str, reason: str) -> Command:
    """Returns what stops a repeat."""
    return StopRepeat(reason=reason)


def _title(command: StartRepeat) -> str:
    return command.name or command.task_type


SPECS = (SpecKind("repeat", StartRepeat, StartRepeat.model_fields, _title),)
