"""The spec files of incremental jobs."""

from trackside.aggregates.rounds.job.job_spec import JobSpec
from trackside.aggregates.rounds.messages import CreateIncrementalJob
from trackside.domain.folding.spec_kind import SpecKind


def _title(command: CreateIncrementalJob) -> str:
    return command.name or command.dataset.name


SPECS = (SpecKind("rounds", CreateIncrementalJob, JobSpec.model_fields, _title),)
