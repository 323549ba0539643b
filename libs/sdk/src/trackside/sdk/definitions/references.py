"""Short references to artifacts: of a task, of a model, or a path; a command has whole ones. Pure."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from trackside.aggregates.model.messages import EXCLUSIVE
from trackside.contracts.envelope.refusals import Problem
from trackside.sdk.connection.model_versions import WantedArtifact, wanted_artifact
from trackside.sdk.errors import UnsendableError

EXPECTED = (
    "expected STREAM/TASK/NAME or model:NAME, either with @VERSION, a path that begins with `./`, `../` or "
    "`/`, or a mapping with uri, sha256 and size_bytes"
)
UNKNOWN = "unknown_artifact"
"""The code of a reference to what isn't there."""
_MODEL = re.compile(r"model:([^/@:]+)(?:@([1-9][0-9]{0,8}|[a-z]+))?")


@dataclass(frozen=True, slots=True)
class WantedModelVersion:
    """The version of a model that a text names: by its number or its stage, the newest one without them."""

    model: str
    version: int = 0
    stage: str = ""


WantedReference = WantedArtifact | WantedModelVersion | Path


def wanted_reference(text: str) -> WantedReference:
    """Reads a short reference; raises UnsendableError, which doesn't repeat a URL."""
    if "://" in text:
        raise bad_reference("a URL needs a digest: write a mapping with uri, sha256 and size_bytes")
    if text.startswith(("./", "../", "/")):
        return Path(text)
    found = _MODEL.fullmatch(text)
    if found is None:
        return _artifact(text)
    name, at = found[1], found[2] or ""
    if at.isdecimal():
        return WantedModelVersion(name, version=int(at))
    if at and at not in EXCLUSIVE:
        stages = " or ".join(sorted(EXCLUSIVE))
        raise bad_reference(f"{text!r}: expected the number of a version, or {stages}, after the @")
    return WantedModelVersion(name, stage=at)


def _artifact(text: str) -> WantedArtifact:
    try:
        return wanted_artifact(text)
    except UnsendableError:
        raise bad_reference(f"{text!r:.200} refers to no artifact: {EXPECTED}") from None


def version_number(wanted: WantedModelVersion, stages: Sequence[str]) -> int:
    """Returns the number of the version; `stages` are those of versions 1, 2, ... Raises UnsendableError."""
    model, count = wanted.model, len(stages)
    if not count:
        raise unknown_artifact(f"model {model} has no versions yet")
    if wanted.stage:
        if wanted.stage not in stages:
            raise unknown_artifact(f"no version of model {model} is in {wanted.stage}; it has {count}")
        return stages.index(wanted.stage) + 1
    if wanted.version > count:
        raise unknown_artifact(f"model {model} has no version {wanted.version}; it has {count}")
    return wanted.version or count


def bad_reference(message: str) -> UnsendableError:
    """Returns the error for a text that is no reference."""
    return UnsendableError(Problem(code="bad_artifact", path="$", message=message))


def unknown_artifact(message: str) -> UnsendableError:
    """Returns the error for a reference to what isn't there."""
    return UnsendableError(Problem(code=UNKNOWN, path="$", message=message))
