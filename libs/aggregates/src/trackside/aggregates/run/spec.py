"""The spec files of runs: a pipeline, of which a run begins at once."""

from trackside.aggregates.run.messages import AbortPipelineRun, AbortStep, StartPipelineRun
from trackside.contracts.envelope.message import Command, Json
from trackside.domain.folding.spec_kind import SpecKind
from trackside.domain.pipelines.definition import PipelineSpec


def stop_command(task: str, reason: str) -> Command:
    """Returns what stops a run, or one step of it."""
    return AbortStep(step=task, reason=reason) if task else AbortPipelineRun(reason=reason)


def _title(command: StartPipelineRun) -> str:
    return command.pipeline.name or command.pipeline.steps[0].name


def _run_of_pipeline(body: Json) -> Json:
    return {"pipeline": body}


SPECS = (
    SpecKind(
        "pipeline",
        StartPipelineRun,
        PipelineSpec.model_fields,
        _title,
        command_body=_run_of_pipeline,
        moved=(("$.pipeline", "$"),),
        has_steps=True,
    ),
)
