"""Makes whole references of short ones from the log, for programs."""

from pathlib import Path

from trackside.aggregates.model.state import model_of
from trackside.contracts.tasks.artifacts import ArtifactReference
from trackside.sdk.connection.log_client import LogClient
from trackside.sdk.definitions.references import (
    WantedModelVersion,
    bad_reference,
    unknown_artifact,
    version_number,
    wanted_reference,
)


async def reference(client: LogClient, text: str) -> ArtifactReference:
    """Returns what a short reference refers to; raises UnsendableError if there is no such artifact."""
    wanted = wanted_reference(text)
    if isinstance(wanted, Path):
        raise bad_reference(f"{text}: a client saves no files; see `trackside artifacts put`")
    if not isinstance(wanted, WantedModelVersion):
        return (await client.model_version(text)).artifact
    stream = await client.state(wanted.model)
    model = None if stream is None else model_of(stream)
    if model is None:
        raise unknown_artifact(f"there is no model {wanted.model} in the log")
    number = version_number(wanted, [version.stage for version in model.versions])
    return model.versions[number - 1].spec.artifact
