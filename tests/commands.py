"""Bodies of commands, as every service reads them, and an input that many of them have."""

from trackside.aggregates.registry import AGGREGATES
from trackside.contracts.envelope.message import Command, Json
from trackside.contracts.envelope.refusals import Problem
from trackside.contracts.tasks.artifacts import ArtifactReference
from trackside.contracts.wire import codec

INPUT = ArtifactReference(
    uri="s3://datasets/digits.npz",
    sha256="e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    size_bytes=1_048_576,
    media_type="application/x-npz",
    source="prepare-1/prepare-1.1.1/digits@1",
    credential="datasets",
)


def command_of(wire_type: str, body: Json) -> Command | Problem:
    """Reads a command's body, or returns the first of its problems."""
    return codec.command_of(wire_type, body, AGGREGATES.commands)
