"""Whether a run of a pipeline can be asked for. Pure."""

from collections.abc import Iterator

from pydantic_core import from_json, to_json

from trackside.aggregates.pipeline.messages import (
    MAX_QUEUED_BYTES,
    MAX_QUEUED_RUNS,
    RunNumbered,
)
from trackside.aggregates.pipeline.state import DefinedPipeline, PipelineVersion
from trackside.contracts.envelope.refusals import Problem, nearest
from trackside.contracts.envelope.topics import MAX_BATCH_BYTES
from trackside.domain.pipelines import compiling

MAX_BODY_BYTES = MAX_BATCH_BYTES - 4_096
"""How long the command of a run may be as JSON: it is in one event."""


def size_of(event: RunNumbered) -> int:
    """Returns how long the parameters and overrides of a run are as JSON, in bytes."""
    return len(to_json(event.parameters)) + len(to_json(event.overrides))


def check_run(pipeline: DefinedPipeline, wanted: RunNumbered) -> Iterator[Problem]:
    """Yields why a run can't be asked for: what it is to run is unknown, doesn't fit, or is too much."""
    version = pipeline.version(wanted.version)
    if version is None:
        count = len(pipeline.versions)
        has = "version 1" if count == 1 else f"versions 1 to {count}"
        message = f"pipeline {pipeline.pipeline_id} has no version {wanted.version}; it has {has}"
        yield Problem(code="unknown_pipeline_version", path="$.version", message=message)
        return
    yield from _misfits(version, wanted)
    size = size_of(wanted)
    if size + len(version.definition) > MAX_BODY_BYTES:
        message = (
            f"with its definition the run would take {size + len(version.definition):,} bytes, "
            f"the limit is {MAX_BODY_BYTES:,}: save long values as artifacts"
        )
        yield Problem(code="too_long", path="$.parameters", message=message)
    if len(pipeline.queued) >= MAX_QUEUED_RUNS or pipeline.queued_bytes + size > MAX_QUEUED_BYTES:
        message = (
            f"{len(pipeline.queued):,} runs of pipeline {pipeline.pipeline_id} wait, "
            f"the limit is {MAX_QUEUED_RUNS:,}; at most {pipeline.max_runs} are open: wait, or cancel some"
        )
        yield Problem(code="too_many_runs", path="$partitionkey", message=message)


def _misfits(version: PipelineVersion, wanted: RunNumbered) -> Iterator[Problem]:
    definition = from_json(version.definition)
    schemas, steps = definition.get("parameters", {}), {step["name"] for step in definition["steps"]}
    yield from compiling.parameter_values(schemas, wanted.parameters, "$.parameters")[1]
    for name in sorted(wanted.overrides.keys() - steps):
        message = f"version {version.number} has no step {name!r}{nearest(name, steps)}"
        yield Problem(code="unknown_step", path=f"$.overrides.{name}", message=message)
