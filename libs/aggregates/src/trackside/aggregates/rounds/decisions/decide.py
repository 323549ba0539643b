"""What the dispatcher decides about jobs of incremental learning, whatever its reason. Pure."""

import re
from collections.abc import Iterator

from trackside.aggregates.rounds.decisions import deploying, output_paths, services
from trackside.aggregates.rounds.job.child_stages import RESERVED, first_body
from trackside.aggregates.rounds.job.deploy_messages import (
    DatasetPlace,
    DeployApproved,
    DeployRejected,
    HardExamplesReported,
    ModelRolledBack,
    RoundModel,
)
from trackside.aggregates.rounds.job.job_spec import (
    HardExampleMining,
    InferenceSpec,
    JobSpec,
    ModelVersionName,
    StageName,
    StageSpec,
)
from trackside.aggregates.rounds.job.miner_names import BUILT_IN_MINERS, is_number, misspelt
from trackside.aggregates.rounds.job.referenced_streams import dataset_state, model_state, round_model
from trackside.aggregates.rounds.job.split import added, count, share_of
from trackside.aggregates.rounds.messages import (
    ApproveDeploy,
    CreateIncrementalJob,
    DeleteIncrementalJob,
    FireDeploy,
    FireEval,
    FireTrain,
    IncrementalJobCreated,
    IncrementalJobDeleted,
    IncrementalJobPaused,
    IncrementalJobResumed,
    IncrementalJobUpdated,
    JobStatus,
    PauseIncrementalJob,
    RejectDeploy,
    ReportHardExamples,
    ResumeIncrementalJob,
    RollbackModel,
    SamplesAssigned,
    StageState,
    UpdateIncrementalJob,
)
from trackside.aggregates.rounds.stages import deletion, stages, triggers
from trackside.aggregates.rounds.stages.deploy_events import MAX_FOREIGN, was_live
from trackside.aggregates.rounds.stages.evaluation import (
    METRICS,
    decide_deploy,
    evaluate,
    known_of,
    next_evaluation_ms,
    trigger_event,
    trigger_of,
)
from trackside.aggregates.rounds.stages.stage_events import has_samples
from trackside.aggregates.rounds.stages.task_ids import FOLDER, file_fields, samples_of
from trackside.aggregates.rounds.stages.triggers import holds
from trackside.aggregates.rounds.state import IncrementalJob, Round, job_of
from trackside.contracts.envelope.message import Event, Json
from trackside.contracts.envelope.refusals import Problem, nearest
from trackside.contracts.envelope.topics import MAX_BATCH_BYTES
from trackside.contracts.streams.children import ChildStopRequested, WantedChild
from trackside.contracts.tasks.artifacts import FOLDER_MEDIA_TYPE
from trackside.contracts.tasks.tasks import TaskStopRequested
from trackside.domain.fleet.capabilities import (
    Capabilities,
    credential_problem,
    device_problem,
    service_problem,
    type_problem,
)
from trackside.domain.folding.aggregate import Decided
from trackside.domain.folding.lookup import Lookup
from trackside.domain.proposal import Proposal
from trackside.domain.streams.stream import Stream, check_not_begun

MAX_JOB_BYTES = MAX_BATCH_BYTES // 4
"""How long the definition of a job may be as JSON."""
_FILE = re.compile(r"/[^/]|file://(?:localhost)?/[^/]|s3://[^/]+/[^/]")
_FOLDER = re.compile(r"/|file://(?:localhost)?/|s3://[^/]")


def lacking(stream: Stream[IncrementalJob], lookup: Lookup) -> Iterator[Proposal]:
    """Yields what a job lacks now: samples of its dataset, stages, deployments, services, stops."""
    job = stream.root
    if job.status is JobStatus.DELETED:
        yield from _stops(stream)
        yield from deletion.lacking(stream)
    else:
        yield from _samples(stream, lookup)
        yield from stages.lacking(stream, lookup)
        yield from deploying.lacking(stream)
    yield from services.lacking(stream, lookup)


def _samples(stream: Stream[IncrementalJob], lookup: Lookup) -> Iterator[Proposal]:
    """Yields the division of the samples of the dataset that the job has not taken in yet."""
    job = stream.root
    pool, name = job.pool, job.spec.dataset.name
    dataset = dataset_state(lookup, name)
    if dataset is None or dataset.end.lines <= pool.end or dataset.end.size <= pool.size_bytes:
        return
    begin, end, share = pool.end, dataset.end.lines, share_of(job.spec.dataset.train_prob)
    segments = added(pool.segments, begin, share)
    trained = count(segments, begin, end, "train")
    assigned = SamplesAssigned(
        begin=begin,
        end=end,
        share=share,
        carry=segments[-1].carry_at(begin),
        train=trained,
        evaluation=end - begin - trained,
        size_bytes=dataset.end.size,
        sha256=dataset.end.sha256,
        metrics=dict(dataset.metrics),
    )
    yield Proposal("assign samples", [assigned], dataset.changed_at, stream.traceparent, name)


def _stops(stream: Stream[IncrementalJob]) -> Iterator[Proposal]:
    """Yields the stops of what is open of a job that was deleted."""
    job = stream.root
    removes = job.removal is not None and not job.removal.ended
    for purpose, open_id in job.open_tasks.items():
        if purpose == FOLDER and removes:
            continue
        task, child = stream.tasks.get(open_id), stream.children.get(open_id)
        stop: Event | None = None
        if task is not None and not task.stop_reason:
            stop = TaskStopRequested(task_id=open_id, reason="user")
        elif child is not None and child.open and not child.stopping:
            stop = ChildStopRequested(child_id=open_id, reason="user")
        if stop is not None:
            yield Proposal("stop task", [stop], job.changed_at, stream.traceparent)


def next_due_ms(stream: Stream[IncrementalJob]) -> int | None:
    """Returns when the next thing follows from time alone: a trigger, another try, a time limit."""
    job = stream.root
    if job.status is JobStatus.DELETED:
        return deletion.next_due_ms(job)
    found = (next_evaluation_ms(job), deploying.next_due_ms(stream), _manifest_again_ms(job))
    return min((each for each in found if each is not None), default=None)


def _manifest_again_ms(job: IncrementalJob) -> int | None:
    """Returns when the samples of a stage are written again after a failure; None without one."""
    round_ = job.round
    if round_ is None or job.stage_state is not StageState.READY or job.stage == "deploy":
        return None
    outcome = round_.outcomes.get(samples_of(job.stage))
    return None if outcome is None or outcome.succeeded or not job.again_ms else job.again_ms


def due(stream: Stream[IncrementalJob], now_ms: int) -> Iterator[Proposal]:
    """Yields what follows from the times that are reached."""
    job = stream.root
    if job.status is JobStatus.DELETED:
        yield from deletion.due(stream, now_ms)
        return
    due_ms = next_evaluation_ms(job)
    if due_ms is not None and now_ms >= due_ms:
        events = evaluate(job, now_ms, due_ms)
        yield Proposal("evaluate trigger", events, job.changed_at, stream.traceparent)
    yield from deploying.due(stream, now_ms)
    again_ms = _manifest_again_ms(job)
    if job.round is not None and again_ms is not None and now_ms >= again_ms:
        submitted = stages.submit_manifest(job, job.round)
        yield Proposal("write samples", [submitted], job.changed_at, stream.traceparent)


def create(stream: Stream, wanted: CreateIncrementalJob, command_id: str, lookup: Lookup) -> Decided:
    """Begins a job, unless its stream is taken or it asks for what there is not; returns all problems."""
    job = JobSpec(**{name: getattr(wanted, name) for name in JobSpec.model_fields})
    taken = check_not_begun(stream)
    found = (*([] if taken is None else [taken]), *problems(job, stream.stream_id, lookup))
    if found:
        return found
    initial = model_of(job.initial_model, lookup)
    compared = job.eval.initial_model
    return [
        IncrementalJobCreated(
            command_id=command_id,
            job=job,
            dataset=place_of(job, lookup),
            initial=initial,
            initial_eval=initial if compared is None else model_of(compared, lookup),
        )
    ]


def update(stream: Stream, wanted: UpdateIncrementalJob, command_id: str, lookup: Lookup) -> Decided:
    """Replaces the definition of a job, from its next round on."""
    job = _changeable(stream)
    if isinstance(job, Problem):
        return job
    found = tuple(problems(wanted.job, job.job_id, lookup, "$.job"))
    if found:
        return found
    if wanted.job == job.spec:
        return []
    place = place_of(wanted.job, lookup)
    return [
        IncrementalJobUpdated(command_id=command_id, change=job.changes + 1, job=wanted.job, dataset=place)
    ]


def pause(stream: Stream, wanted: PauseIncrementalJob, command_id: str, lookup: Lookup) -> Decided:
    """Pauses a job; one that is paused stays so."""
    job = _changeable(stream)
    if isinstance(job, Problem):
        return job
    if job.status is JobStatus.PAUSED:
        return []
    return [IncrementalJobPaused(command_id=command_id, change=job.changes + 1, reason=wanted.reason)]


def resume(stream: Stream, wanted: ResumeIncrementalJob, command_id: str, lookup: Lookup) -> Decided:
    """Continues a job; one that is not paused stays as it is."""
    job = _changeable(stream)
    if isinstance(job, Problem):
        return job
    if job.status is JobStatus.ACTIVE:
        return []
    return [IncrementalJobResumed(command_id=command_id, change=job.changes + 1)]


def delete(stream: Stream, wanted: DeleteIncrementalJob, command_id: str, lookup: Lookup) -> Decided:
    """Ends a job; one that was deleted stays so."""
    job = job_of(stream)
    if job is None:
        return _no_job(stream)
    if job.status is JobStatus.DELETED:
        return []
    return [IncrementalJobDeleted(command_id=command_id, change=job.changes + 1, reason=wanted.reason)]


def fire_train(stream: Stream, wanted: FireTrain, command_id: str, lookup: Lookup) -> Decided:
    """Begins a round, whatever the trigger says."""
    return _fire(stream, "train", command_id)


def fire_eval(stream: Stream, wanted: FireEval, command_id: str, lookup: Lookup) -> Decided:
    """Begins the evaluation of the round, whatever the trigger says."""
    return _fire(stream, "eval", command_id)


def _fire(stream: Stream, stage: StageName, command_id: str) -> Decided:
    job = _waiting(stream, stage)
    if isinstance(job, Problem):
        return job
    if not has_samples(job):
        what = "training" if stage == "train" else "evaluation"
        message = f"job {job.job_id} has no sample for {what}; append some to dataset {job.spec.dataset.name}"
        return Problem(code="no_samples", path="$partitionkey", message=message)
    now_ms = job.clock_ms
    return [
        trigger_event(
            job,
            now_ms,
            result=holds(trigger_of(job), known_of(job), now_ms),
            fired=True,
            due_ms=None,
            command_id=command_id,
        )
    ]


def fire_deploy(stream: Stream, wanted: FireDeploy, command_id: str, lookup: Lookup) -> Decided:
    """Decides now whether the model of the round is deployed; with `force` it is."""
    job = _waiting(stream, "deploy")
    if isinstance(job, Problem):
        return job
    if job.round is None or job.round.decided is not None:
        message = f"whether the model of round {job.rounds} is deployed is decided already"
        return Problem(code="already_decided", path="$partitionkey", message=message)
    return decide_deploy(job, job.clock_ms, command_id=command_id, force=wanted.force)


def approve(stream: Stream, wanted: ApproveDeploy, command_id: str, lookup: Lookup) -> Decided:
    """Approves the deployment that waits for a person."""
    round_ = _waits_for_approval(stream)
    if isinstance(round_, Problem):
        return round_
    return [DeployApproved(command_id=command_id, round=round_.number, actor=wanted.actor)]


def reject(stream: Stream, wanted: RejectDeploy, command_id: str, lookup: Lookup) -> Decided:
    """Rejects the deployment that waits for a person."""
    round_ = _waits_for_approval(stream)
    if isinstance(round_, Problem):
        return round_
    return [
        DeployRejected(command_id=command_id, round=round_.number, actor=wanted.actor, reason=wanted.reason)
    ]


def rollback(stream: Stream, wanted: RollbackModel, command_id: str, lookup: Lookup) -> Decided:
    """Makes a version live again that was live before; the one that is live stays so."""
    job = _changeable(stream)
    if isinstance(job, Problem):
        return job
    name = wanted.model or job.spec.model
    model = next(
        (each for each in (job.live, job.initial) if (each.model, each.version) == (name, wanted.version)),
        None,
    ) or round_model(lookup, name, wanted.version)
    if model is None or not was_live(job, model):
        live = [f"{job.spec.model}@{version}" for version in job.newest_live]
        known = ", ".join(dict.fromkeys([f"{job.initial.model}@{job.initial.version}", *live]))
        message = f"{name}@{wanted.version} was never live in job {job.job_id}; those were: {known}"
        return Problem(code="never_live", path="$.version", message=message)
    if job.deploying:
        message = f"the model of round {job.rounds} is being deployed; roll back once that has ended"
        return Problem(code="update_in_progress", path="$partitionkey", message=message)
    if model == job.live and job.update is None:
        return []
    return [
        ModelRolledBack(
            command_id=command_id,
            change=job.changes + 1,
            before=job.live,
            model=model,
            reason=wanted.reason,
        )
    ]


def report_hard_examples(
    stream: Stream, wanted: ReportHardExamples, command_id: str, lookup: Lookup
) -> Decided:
    """Counts what a service outside of Trackside has seen."""
    job = _changeable(stream)
    if isinstance(job, Problem):
        return job
    if wanted.hard > wanted.inferences:
        message = f"expected at most as many hard examples as inferences, {wanted.inferences}"
        return Problem(code="bad_counts", path="$.hard", message=message)
    known = job.foreign.get(wanted.service)
    if known is None and len(job.foreign) == MAX_FOREIGN:
        message = f"{MAX_FOREIGN} services outside of Trackside have reported to job {job.job_id}, the limit"
        return Problem(code="too_many_services", path="$.service", message=message)
    return [
        HardExamplesReported(
            service=wanted.service,
            window=1 if known is None else known.windows + 1,
            inferences=wanted.inferences,
            hard=wanted.hard,
            artifact=wanted.artifact,
            command_id=command_id,
        )
    ]


def _no_job(stream: Stream) -> Problem:
    hint = f"; it is of kind {stream.kind}" if stream.kind else ""
    message = f"no incremental job {stream.stream_id!r}{hint}"
    return Problem(code="unknown_incremental_job", path="$partitionkey", message=message)


def _changeable(stream: Stream) -> IncrementalJob | Problem:
    job = job_of(stream)
    if job is None:
        return _no_job(stream)
    if job.status is JobStatus.DELETED:
        message = f"job {job.job_id} was deleted; create another one, under another id"
        return Problem(code="already_terminal", path="$partitionkey", message=message)
    return job


def _waiting(stream: Stream, stage: StageName) -> IncrementalJob | Problem:
    """Returns a job that waits in a stage, or why that can't begin."""
    job = _changeable(stream)
    if isinstance(job, Problem):
        return job
    if job.status is JobStatus.PAUSED:
        message = f"job {job.job_id} is paused; resume it first: `trackside resume {job.job_id}`"
        return Problem(code="paused", path="$partitionkey", message=message)
    if job.stage != stage or job.stage_state is not StageState.WAITING:
        message = f"job {job.job_id} is at {job.stage}, {job.stage_state.value}; it has to wait for {stage}"
        return Problem(code="wrong_stage", path="$partitionkey", message=message)
    return job


def _waits_for_approval(stream: Stream) -> Round | Problem:
    job = _changeable(stream)
    if isinstance(job, Problem):
        return job
    if job.round is None or not job.round.waits_for_approval:
        message = f"no deployment of job {job.job_id} waits for an approval"
        return Problem(code="no_open_gate", path="$partitionkey", message=message)
    return job.round


def problems(job: JobSpec, job_id: str, lookup: Lookup, path: str = "$") -> Iterator[Problem]:
    """Yields everything that is wrong with a definition at a path."""
    capabilities = lookup.capabilities
    yield from _sources(job, lookup, path)
    for name, stage in (("train", job.train), ("eval", job.eval)):
        yield from _stage(stage, capabilities, f"{path}.{name}")
    yield from triggers.problems(job.train.trigger, f"{path}.train.trigger", METRICS)
    yield from triggers.problems(job.eval.trigger, f"{path}.eval.trigger", METRICS)
    yield from triggers.problems(job.deploy.trigger, f"{path}.deploy.trigger")
    yield from _services(job.deploy.services, lookup, f"{path}.deploy.services")
    yield from output_paths.problems(job, job_id, lookup, path)
    files = {"output": job.output, "deploy.copy_to": job.deploy.copy_to, "deploy.config": job.deploy.config}
    for name, place in files.items():
        if place is not None:
            yield from _place(place.url, f"{path}.{name}.url", is_file=name == "deploy.copy_to")
            found = credential_problem(capabilities, place.credential, f"{path}.{name}.credential")
            yield from [found] if found is not None else []
    yield from _folder(job, lookup, path)
    size = len(job.model_dump_json())
    if size > MAX_JOB_BYTES:
        message = (
            f"the job takes {size:,} bytes, the limit is {MAX_JOB_BYTES:,}; save what is large as artifacts"
        )
        yield Problem(code="too_long", path=path, message=message)


def _place(url: str, path: str, *, is_file: bool) -> Iterator[Problem]:
    if (_FILE if is_file else _FOLDER).match(url) is None:
        what, end = ("file", "/FILE") if is_file else ("folder", "")
        key = "/KEY" if is_file else ""
        message = (
            f"expected a {what} of the workers' hosts, as /FOLDER{end} or file:///..., or s3://BUCKET{key}"
        )
        yield Problem(code="bad_url", path=path, message=message)


def _sources(job: JobSpec, lookup: Lookup, path: str) -> Iterator[Problem]:
    dataset = dataset_state(lookup, job.dataset.name)
    if dataset is None or dataset.status == "DELETED":
        what = "there is no dataset" if dataset is None else "it was deleted: there is no dataset"
        message = f"{what} {job.dataset.name!r}; register one with `trackside submit`, kind: dataset"
        yield Problem(code="unknown_dataset", path=f"{path}.dataset.name", message=message)
    model = model_state(lookup, job.model)
    if model is None or model.status == "ARCHIVED":
        what = "is archived; restore it first" if model is not None else "is not registered"
        message = f"model {job.model!r}, which trained models become versions of, {what}"
        yield Problem(code="unknown_model", path=f"{path}.model", message=message)
    named = {"initial_model": job.initial_model, "eval.initial_model": job.eval.initial_model}
    for name, wanted in named.items():
        if wanted is not None and round_model(lookup, wanted.model, wanted.version) is None:
            message = f"there is no version {wanted.version} of a model {wanted.model!r}"
            yield Problem(code="unknown_model_version", path=f"{path}.{name}", message=message)


def _folder(job: JobSpec, lookup: Lookup, path: str) -> Iterator[Problem]:
    """Yields that the initial model is a folder, which can't be copied to where one file is read."""
    named, fields = job.initial_model, file_fields(job.deploy)
    model = round_model(lookup, named.model, named.version)
    if fields and model is not None and model.artifact.media_type == FOLDER_MEDIA_TYPE:
        message = (
            f"{named.model}@{named.version} is a folder, and by {fields} models are copied to where one file "
            f"is read; save models as one file, or leave {fields} out and let services load them"
        )
        yield Problem(code="folder_model", path=f"{path}.initial_model", message=message)


def _stage(stage: StageSpec, capabilities: Capabilities, path: str) -> Iterator[Problem]:
    if (stage.task_type is None) == (stage.kind is None):
        message = "expected either task_type, or kind with spec for a child such as a search, and not both"
        yield Problem(code="bad_stage", path=path, message=message)
    if stage.task_type is not None:
        found = (
            type_problem(capabilities, stage.task_type, f"{path}.task_type"),
            service_problem(
                capabilities, stage.task_type, stage.needs.service is not None, f"{path}.task_type"
            ),
            device_problem(capabilities, stage.needs.resources.device, f"{path}.needs.resources.device"),
        )
        yield from (problem for problem in found if problem is not None)
    yield from _reserved(stage.parameters, RESERVED, f"{path}.parameters")
    for name in ("samples", "model", "trained", "deployed"):
        if name in stage.inputs:
            message = f"the input {name!r} is what the round gives to its stages; choose another name"
            yield Problem(code="reserved_name", path=f"{path}.inputs.{name}", message=message)
    for name, given in stage.inputs.items():
        missing = credential_problem(capabilities, given.credential, f"{path}.inputs.{name}.credential")
        yield from [missing] if missing is not None else []


def _reserved(parameters: Json, name: str, path: str) -> Iterator[Problem]:
    if name in parameters:
        message = f"the parameter {name!r} is what the job gives to its tasks; choose another name"
        yield Problem(code="reserved_name", path=f"{path}.{name}", message=message)


def _services(wanted: list[InferenceSpec], lookup: Lookup, path: str) -> Iterator[Problem]:
    capabilities, seen = lookup.capabilities, set[str]()
    for at, service in enumerate(wanted):
        own = f"{path}[{at}]"
        if service.name in seen:
            message = f"there are two services called {service.name!r}; expected another name, or `replicas`"
            yield Problem(code="already_exists", path=f"{own}.name", message=message)
        seen.add(service.name)
        found = (
            type_problem(capabilities, service.task_type, f"{own}.task_type"),
            service_problem(capabilities, service.task_type, True, f"{own}.task_type"),
            device_problem(capabilities, service.needs.resources.device, f"{own}.needs.resources.device"),
        )
        yield from (problem for problem in found if problem is not None)
        yield from _reserved(service.parameters, services.RESERVED, f"{own}.parameters")
        if service.hard_examples is not None:
            yield from _mining(service.hard_examples, lookup, f"{own}.hard_examples")


def _mining(mining: HardExampleMining, lookup: Lookup, path: str) -> Iterator[Problem]:
    if (ours := misspelt(mining.miner)) is not None:
        message = f"there is no miner {mining.miner!r}; did you mean {ours!r}?"
        yield Problem(code="unknown_value", path=f"{path}.miner", message=message)
    taken = BUILT_IN_MINERS.get(mining.miner, frozenset(mining.parameters))
    for name, value in mining.parameters.items():
        if name not in taken:
            known = ", ".join(sorted(taken)) or "none"
            hint = nearest(name, taken)
            message = f"miner {mining.miner} has no parameter {name!r}; expected one of: {known}{hint}"
            yield Problem(code="unknown_field", path=f"{path}.parameters.{name}", message=message)
        elif mining.miner in BUILT_IN_MINERS and not is_number(value):
            message = f"expected a number for {name} of miner {mining.miner}"
            yield Problem(code="wrong_type", path=f"{path}.parameters.{name}", message=message)
    target = mining.append_to
    if target is not None and dataset_state(lookup, target) is None:
        message = f"there is no dataset {target!r} to append hard examples to"
        yield Problem(code="unknown_dataset", path=f"{path}.append_to", message=message)


def children_of(job: JobSpec, job_id: str, path: str) -> Iterator[WantedChild]:
    """Yields the children that a definition asks for, as of its first round."""
    stages: dict[StageName, StageSpec] = {"train": job.train, "eval": job.eval}
    for name, stage in stages.items():
        if stage.kind is not None:
            body = first_body(stage, name, job_id)
            yield WantedChild(f"{path}.{name}", f"{job_id}.r1.{name}.1", stage.kind, body)


def place_of(job: JobSpec, lookup: Lookup) -> DatasetPlace:
    """Returns where the dataset of a definition is, in which `problems` finds nothing wrong."""
    dataset = dataset_state(lookup, job.dataset.name)
    assert dataset is not None
    spec = dataset.spec
    return DatasetPlace(url=spec.url, format=spec.format, credential=spec.credential)


def model_of(named: ModelVersionName, lookup: Lookup) -> RoundModel:
    """Returns a version that a definition names, in which `problems` finds nothing wrong."""
    model = round_model(lookup, named.model, named.version)
    assert model is not None
    return model
