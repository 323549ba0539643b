"""What the dispatcher decides about the stages of a round: manifests, tasks or children, ends. Pure."""

from collections.abc import Collection, Iterator

from trackside.aggregates.rounds.job.child_stages import RESERVED, child_body
from trackside.aggregates.rounds.job.job_spec import StageSpec
from trackside.aggregates.rounds.job.referenced_streams import model_state, round_model
from trackside.aggregates.rounds.job.split import SplitRule
from trackside.aggregates.rounds.messages import (
    ModelTrained,
    ModelVersionSummary,
    RoundEnded,
    RoundStarted,
    SampleManifestWritten,
    StageBlocked,
    StageEnded,
    StageState,
)
from trackside.aggregates.rounds.stages.stage_events import OPEN
from trackside.aggregates.rounds.stages.task_ids import file_fields, file_task_needs, round_task, samples_of
from trackside.aggregates.rounds.state import IncrementalJob, Round, TaskOutcome
from trackside.contracts.envelope.message import Event, Json
from trackside.contracts.fleet.fleet import WRITE_MANIFEST
from trackside.contracts.streams.children import ChildRequested
from trackside.contracts.tasks.artifacts import FOLDER_MEDIA_TYPE, ArtifactReference
from trackside.contracts.tasks.tasks import TaskSubmitted
from trackside.domain.folding.lookup import Lookup
from trackside.domain.proposal import Proposal
from trackside.domain.streams.command import ReceivedCommand
from trackside.domain.streams.outgoing import answer_of, effect_is_read
from trackside.domain.streams.stream import Stream


def lacking(stream: Stream[IncrementalJob], lookup: Lookup) -> Iterator[Proposal]:
    """Yields what the current round lacks now."""
    job, round_ = stream.root, stream.root.round
    if round_ is None:
        return
    events: list[Event] = []
    follows = job.changed_at
    if job.stage_state is StageState.READY and job.stage != "deploy":
        events, follows = _prepare(job, round_)
    elif job.stage_state in OPEN and job.stage != "deploy":
        outcome = round_.outcomes.get(job.stage)
        if outcome is not None:
            follows = outcome.ended_at
            events = _end(stream, round_, outcome, lookup)
    if events:
        yield Proposal(f"{job.stage} of round", events, follows, stream.traceparent)


def _prepare(job: IncrementalJob, round_: Round) -> tuple[list[Event], int]:
    """Returns what a stage lacks before it runs: its samples in a file, then its task."""
    stage = job.stage
    purpose = samples_of(stage)
    outcome = round_.outcomes.get(purpose)
    if stage in round_.manifests:
        if round_.base is None:  # its manifest is read, and what was written with it is not yet
            return [_started(job, round_)], job.changed_at
        if stage in job.open_tasks:
            return [], -1
        return [_stage_task(job, round_)], job.changed_at
    if purpose in job.open_tasks:
        return [], -1
    if outcome is None:
        return [submit_manifest(job, round_)], job.changed_at
    if outcome.succeeded:
        written = _written(job, round_, outcome)
        if written is not None:
            return written, outcome.ended_at
        outcome = TaskOutcome(False, outcome.ended_at, reason="bad_manifest", message="its task said nothing")
    if outcome.reason != job.blocked:
        return [_blocked(job, round_, outcome.reason, outcome.message)], outcome.ended_at
    return [], -1


def _written(job: IncrementalJob, round_: Round, outcome: TaskOutcome) -> list[Event] | None:
    """Returns that the samples are in a file, and of the first stage, that the round has started."""
    result = outcome.result
    try:
        reference = ArtifactReference.model_validate(
            {"uri": result.get("url"), "sha256": result.get("sha256"), "size_bytes": result.get("size_bytes")}
        )
        lines = int(result.get("lines", 0))
    except (ValueError, TypeError):
        return None
    events: list[Event] = [
        SampleManifestWritten(
            stage=job.stage,
            round=round_.number,
            url=reference.uri,
            sha256=reference.sha256,
            size_bytes=reference.size_bytes,
            lines=lines,
        )
    ]
    if job.stage == "train":
        events.append(_started(job, round_))
    return events


def _started(job: IncrementalJob, round_: Round) -> RoundStarted:
    return RoundStarted(number=round_.number, base=job.base, train=round_.train, evaluation=round_.evaluation)


def _blocked(job: IncrementalJob, round_: Round, reason: str, message: str) -> StageBlocked:
    return StageBlocked(stage=job.stage, round=round_.number, reason=reason, message=message[:1_000])


def submit_manifest(job: IncrementalJob, round_: Round) -> TaskSubmitted:
    """Returns the task that writes the samples of the stage."""
    spec, dataset, stage = round_.spec, round_.dataset, job.stage
    ranges = [round_.train] if stage == "train" else round_.evaluation
    task_id, part = round_task(job, samples_of(stage))
    parameters: Json = {
        "dataset": dataset.model_dump(mode="json", exclude_none=True),
        "end": {"size": round_.size_bytes, "sha256": round_.sha256},
        "segments": [_segment(each) for each in round_.segments],
        "ranges": [list(each) for each in ranges],
        "use": stage,
        "output": spec.output.model_dump(mode="json", exclude_none=True),
        "path": f"data/{stage}/{round_.number}/data.{dataset.format}",
    }
    queue = (spec.train if stage == "train" else spec.eval).needs.queue
    needs = file_task_needs(queue, dataset.credential, spec.output.credential)
    return TaskSubmitted(
        task_id=task_id, task_type=WRITE_MANIFEST, parameters=parameters, part=part, needs=needs
    )


def _segment(segment: SplitRule) -> Json:
    return {"begin": segment.begin, "share": segment.share, "carry": segment.carry}


def _stage_task(job: IncrementalJob, round_: Round) -> Event:
    """Returns the task or child that is a stage, with its samples and models."""
    spec: StageSpec = round_.spec.train if job.stage == "train" else round_.spec.eval
    task_id, part = round_task(job, job.stage)
    manifest = round_.manifests[job.stage]
    about: Json = {
        "job": job.job_id,
        "number": round_.number,
        "stage": job.stage,
        "lines": manifest.lines,
    }
    inputs = {**spec.inputs, "samples": manifest.reference, **_models(job, round_)}
    if spec.kind is not None:
        return ChildRequested(child_id=task_id, kind=spec.kind, body=child_body(spec, inputs, about))
    assert spec.task_type is not None
    return TaskSubmitted(
        task_id=task_id,
        task_type=spec.task_type,
        parameters={**spec.parameters, RESERVED: about},
        part=part,
        needs=spec.needs,
        inputs=inputs,
    )


def _models(job: IncrementalJob, round_: Round) -> dict[str, ArtifactReference]:
    if job.stage == "train":
        assert round_.base is not None
        return {"model": round_.base.artifact}
    assert round_.trained is not None
    return {"trained": round_.trained.artifact, "deployed": job.compared.artifact}


def _end(stream: Stream[IncrementalJob], round_: Round, outcome: TaskOutcome, lookup: Lookup) -> list[Event]:
    """Returns the end of a stage whose task or child has ended; of training, first its model."""
    job = stream.root
    if not outcome.succeeded:
        return failed(job, round_, outcome.reason, outcome.message)
    if job.stage == "eval":
        metrics = _results(outcome.result)
        return [StageEnded(stage="eval", round=round_.number, status=StageState.COMPLETED, metrics=metrics)]
    if round_.found is None:
        found = _pick(job, outcome)
        if isinstance(found, str):
            return failed(job, round_, "no_model", found)
        fields = file_fields(job.spec.deploy)
        if fields and found.artifact.media_type == FOLDER_MEDIA_TYPE:
            message = f"its task saved a folder; by {fields} models are copied to where one file is read"
            return failed(job, round_, "folder_model", message)
        return [ModelTrained(round=round_.number, model=round_.spec.model, version=found)]
    other = lookup.find(round_.spec.model)
    answer = answer_of(stream, round_.found_at, other)
    return [] if answer is None else _added(job, round_, answer, lookup)


def _pick(job: IncrementalJob, outcome: TaskOutcome) -> ModelVersionSummary | str:
    """Returns the trained model of a round, or why there is none: the first that fits, by task and name."""
    wanted, devices = job.initial.format, set(job.spec.devices)
    if not outcome.models:
        return 'its task saved no artifact of kind `model`: expected trial.save(name, file, kind="model")'
    fitting = [
        each
        for each in outcome.models
        if each.format in ("", wanted) and (not devices or not each.devices or devices & set(each.devices))
    ]
    if not fitting:
        saved = ", ".join(_kind(each.format, each.devices) for each in outcome.models)
        return f"its task saved no model that fits: expected {_kind(wanted, devices)}, it saved {saved}"
    found = fitting[0]
    return found if found.format else found.model_copy(update={"format": wanted})


def _kind(name: str, devices: Collection[str]) -> str:
    return f"{name} for {', '.join(sorted(devices)) or 'any device'}"


def _added(job: IncrementalJob, round_: Round, answer: ReceivedCommand, lookup: Lookup) -> list[Event]:
    """Returns the end of training once its model is a version, or can't be one."""
    if not answer.decided:
        return []
    assert round_.found is not None
    name, sha256 = round_.spec.model, round_.found.artifact.sha256
    state = model_state(lookup, name)
    number = None if state is None else state.with_digest(sha256)
    model = None if number is None else round_model(lookup, name, number)
    if model is None and not answer.refusal and not effect_is_read(answer, lookup.find(name)):
        return []
    if model is None:
        missing = f"model {name} has no version with its bytes"
        problem = answer.refusal[0].message if answer.refusal else missing
        return failed(job, round_, "model_refused", problem)
    return [StageEnded(stage="train", round=round_.number, status=StageState.COMPLETED, model=model)]


def _results(result: Json) -> dict[str, Json]:
    """Returns the metrics of the two models; a list of two, as of Sedna, is of the trained one first."""
    listed = result.get("results")
    if isinstance(listed, list) and len(listed) == 2:
        result = {"trained": listed[0], "deployed": listed[1]}
    return {
        name: dict(result[name]) for name in ("trained", "deployed") if isinstance(result.get(name), dict)
    }


def failed(job: IncrementalJob, round_: Round, reason: str, message: str) -> list[Event]:
    """Returns the end of a round whose stage has failed: its samples go back."""
    return [
        StageEnded(
            stage=job.stage,
            round=round_.number,
            status=StageState.FAILED,
            reason=reason,
            message=message[:1_000],
        ),
        RoundEnded(
            number=round_.number,
            status="failed",
            stage=job.stage,
            deployed=False,
            reason=reason,
            released=round_.train,
        ),
    ]
