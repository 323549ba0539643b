"""What the tasks and children of a job are for, and how they are called. Pure.

JOB.rROUND.STAGE-samples.N      writes the samples of a stage
JOB.rROUND.STAGE.1              the stage itself: a task or a child
JOB.uUPDATE.copy.N              copies a model; `config` for services that read a file
JOB.serve.NAME.REPLICA.N        serves a model
JOB.delete.folder.N             removes the folder below `config` of a job that was deleted
"""

from trackside.aggregates.rounds.job.job_spec import DeploySpec, InferenceSpec, StageName
from trackside.aggregates.rounds.state import REMOVAL_TASKS, IncrementalJob
from trackside.contracts.envelope.parts import Part
from trackside.contracts.tasks.resources import Needs, Resources

ROUND, UPDATE, SERVE, DELETE = "round", "update", "serve", "delete"
"""The kinds of parts that tasks are for; the number is that of the round, update, replica or try."""
FOLDER = "folder"
"""What the task of a deletion is for."""
COPY, CONFIG = "copy", "config"
"""The targets of an update that are files."""
FILE_TASK_BYTES = 268_435_456
"""The memory that a task of Trackside reserves that writes or removes files: it holds few bytes at a time."""


def samples_of(stage: StageName) -> str:
    """Returns the purpose of the tasks that write the samples of a stage."""
    return f"{stage}-samples"


def round_task(job: IncrementalJob, purpose: str) -> tuple[str, Part]:
    """Returns the id and the part of the next task for a purpose of the current round."""
    assert job.round is not None
    number = job.round.tasks.get(purpose, 0) + 1
    part = Part(kind=ROUND, number=job.round.number, name=purpose)
    return f"{job.job_id}.r{job.round.number}.{purpose}.{number}", part


def update_task(job: IncrementalJob, target: str) -> tuple[str, Part]:
    """Returns the id and the part of the next task for a target of the current update."""
    assert job.update is not None
    number = job.update.tasks.get(target, 0) + 1
    part = Part(kind=UPDATE, number=job.update.number, name=target)
    return f"{job.job_id}.u{job.update.number}.{target}.{number}", part


def removal_task(job: IncrementalJob) -> tuple[str, Part]:
    """Returns the id and the part of the next task that removes the folder of a job that was deleted."""
    assert job.removal is not None
    number = job.removal.tasks + 1
    return f"{job.job_id}.{REMOVAL_TASKS}.{number}", Part(kind=DELETE, number=number, name=FOLDER)


def service_task(job: IncrementalJob, target: str, number: int | None = None) -> tuple[str, Part]:
    """Returns the id and the part of a task of a service, by default of the next one."""
    service = job.services[target]
    replica = int(target.rpartition(".")[2])
    part = Part(kind=SERVE, number=replica, name=service.spec.name)
    return f"{job.job_id}.{target}.{service.tasks + 1 if number is None else number}", part


def file_task_needs(queue: str, *credentials: str | None) -> Needs:
    """Returns what a task of Trackside needs that writes or removes files, with those of the credentials."""
    return Needs(
        queue=queue,
        resources=Resources(devices=0, estimate_memory=FILE_TASK_BYTES),
        credentials=sorted({each for each in credentials if each is not None}),
    )


def service_targets(deploy: DeploySpec) -> dict[str, InferenceSpec]:
    """Returns the services of a job by their targets: `serve.NAME.REPLICA`, replicas from 1."""
    return {
        f"{SERVE}.{service.name}.{replica}": service
        for service in deploy.services
        for replica in range(1, service.replicas + 1)
    }


def file_targets(deploy: DeploySpec) -> list[str]:
    """Returns the targets of a job that are files."""
    named = {COPY: deploy.copy_to, CONFIG: deploy.config}
    return [target for target, wanted in named.items() if wanted is not None]


def file_fields(deploy: DeploySpec) -> str:
    """Returns the fields of a job that define targets that are files, as a text; empty without one."""
    fields = {COPY: "deploy.copy_to", CONFIG: "deploy.config"}
    return " and ".join(fields[target] for target in file_targets(deploy))


def targets_of(deploy: DeploySpec) -> list[str]:
    """Returns all targets of an update, the files first."""
    return [*file_targets(deploy), *service_targets(deploy)]
