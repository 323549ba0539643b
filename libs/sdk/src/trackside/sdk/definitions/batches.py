"""Batches as users give them to a client: a command, or its fields."""

from collections.abc import Mapping

from trackside.aggregates.batch.messages import SubmitTasks
from trackside.contracts.wire.codec import validate_command
from trackside.sdk.errors import UnsendableError

BatchInput = SubmitTasks | Mapping[str, object]
"""Tasks in groups: a SubmitTasks, or a mapping with its fields."""


def to_command(batch: BatchInput) -> SubmitTasks:
    """Returns the command that submits a batch; raises UnsendableError with all problems of a mapping."""
    if isinstance(batch, SubmitTasks):
        return batch
    found = validate_command(SubmitTasks.wire_type(), dict(batch), (SubmitTasks,))
    if isinstance(found, tuple):
        raise UnsendableError(*found)
    assert isinstance(found, SubmitTasks)
    return found
