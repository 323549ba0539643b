"""A pipeline as tests tell of it."""

from typing import Any

from tests.unit.domain.given import STREAM, Told, accepted, received
from trackside.aggregates.pipeline.messages import PipelineDefined, RunNumbered, run_id
from trackside.aggregates.pipeline.state import DefinedPipeline
from trackside.contracts.streams.children import ChildEnded, ChildRequested
from trackside.domain.pipelines.compiling import digest
from trackside.domain.pipelines.definition import PipelineSpec


def definition(number: int = 1) -> PipelineSpec:
    """Returns a pipeline of one step, whose content differs from that of any other number."""
    steps = [{"name": "train", "task_type": "digits", "parameters": {"number": number}}]
    return PipelineSpec.model_validate({"steps": steps})


def defined(change: int = 1, version: int = 1, number: int = 0, max_runs: int = 2) -> PipelineDefined:
    """Returns that a definition is the current one; its content is of the version, or of `number`."""
    content = definition(number or version)
    what: dict[str, Any] = {"pipeline": content, "sha256": digest(content), "max_runs": max_runs}
    return PipelineDefined(command_id="c-1", change=change, version=version, **what)


def numbered(number: int, version: int = 1, **more: Any) -> RunNumbered:
    return RunNumbered(command_id="c-2", number=number, run=run_id(STREAM, number), version=version, **more)


def asked(number: int) -> ChildRequested:
    return ChildRequested(child_id=run_id(STREAM, number), kind="run", body={})


def run_over(number: int, status: str = "SUCCEEDED") -> ChildEnded:
    return ChildEnded(child_id=run_id(STREAM, number), status=status, result={})


def pipeline_defined(versions: int = 1, max_runs: int = 2) -> Told:
    told = Told()
    told.tell(received())
    told.tell(accepted(), defined(max_runs=max_runs))
    for version in range(2, versions + 1):
        told.tell(defined(version, version, max_runs=max_runs))
    return told


def pipeline(told: Told) -> DefinedPipeline:
    assert isinstance(told.stream.root, DefinedPipeline)
    return told.stream.root
