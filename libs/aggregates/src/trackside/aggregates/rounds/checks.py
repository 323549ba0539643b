"""What is wrong with the definition of a job: all of it at once, by what there is now. Pure."""

import re
from collections.abc import Iterator

from trackside.aggregates.rounds import places, services, triggers
from trackside.aggregates.rounds.child_stages import RESERVED, first_body
from trackside.aggregates.rounds.deploy_messages import DatasetPlace, RoundModel
from trackside.aggregates.rounds.evaluation import METRICS
from trackside.aggregates.rounds.job_spec import (
    HardExampleMining,
    InferenceSpec,
    JobSpec,
    ModelVersionName,
    StageName,
    StageSpec,
)
from trackside.aggregates.rounds.miner_names import BUILT_IN_MINERS, is_number, misspelt
from trackside.aggregates.rounds.others import dataset_state, model_state, round_model
from trackside.aggregates.rounds.parts import file_fields
from trackside.contracts.envelope.message import Json
from trackside.contracts.envelope.refusals import Problem, nearest
from trackside.contracts.envelope.topics import MAX_BATCH_BYTES
from trackside.contracts.streams.children import WantedChild
from trackside.contracts.tasks.artifacts import FOLDER_MEDIA_TYPE
from trackside.domain.fleet.capabilities import (
    Capabilities,
    credential_problem,
    device_problem,
    service_problem,
    type_problem,
)
from trackside.domain.folding.lookup import Lookup

MAX_JOB_BYTES = MAX_BATCH_BYTES // 4
"""How long the definition of a job may be as JSON."""
_FILE = re.compile(r"/[^/]|file://(?:localhost)?/[^/]|s3://[^/]+/[^/]")
_FOLDER = re.compile(r"/|file://(?:localhost)?/|s3://[^/]")


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
    yield from places.problems(job, job_id, lookup, path)
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
