"""Conversion of Sedna's documents into specifications of ours, with what has no counterpart. Pure."""

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from pydantic import BaseModel, ValidationError

from trackside.aggregates.dataset.messages import DatasetSpec
from trackside.aggregates.rounds.job.job_spec import JobSpec
from trackside.aggregates.rounds.stages.triggers import problems as trigger_problems
from trackside.compat.sedna.documents import (
    DocumentPlace,
    ReadDocument,
    SecretName,
    UnreadableError,
    id_of,
    in_namespace,
    read_documents,
)
from trackside.compat.sedna.kinds import (
    UNSAFE,
    SednaDataset,
    SednaDeploy,
    SednaJob,
    SednaModel,
    SednaTemplate,
    format_of,
)
from trackside.compat.sedna.left_out import NoteField, reasons
from trackside.compat.sedna.templates import is_secret, needs_of, parameters_of, program_of
from trackside.compat.sedna.triggers import convert_trigger
from trackside.contracts.envelope.message import Json
from trackside.contracts.envelope.refusals import Problem, field_names, problems_of

CATALOGUE = "catalogue.yaml"
INFERENCE = "inference"
"""The name of the inference service of a job."""
MOVED = (
    ("$.dataset.train_prob", "$.spec.dataset.trainProb"),
    ("$.dataset", "$.spec.dataset"),
    ("$.model", "$.spec.deploySpec.model.name"),
    ("$.initial_model", "$.spec.initialModel.name"),
    ("$.train.trigger", "$.spec.trainSpec.trigger"),
    ("$.train.check_period_s", "$.spec.trainSpec.trigger.checkPeriodSeconds"),
    ("$.train", "$.spec.trainSpec.template"),
    ("$.eval.initial_model", "$.spec.evalSpec.initialEvalModel.name"),
    ("$.eval", "$.spec.evalSpec.template"),
    ("$.deploy.trigger", "$.spec.deploySpec.trigger"),
    ("$.deploy.check_period_s", "$.spec.deploySpec.trigger.checkPeriodSeconds"),
    ("$.deploy.services", "$.spec.deploySpec"),
    ("$.deploy.config", "$.spec.outputDir"),
    ("$.deploy", "$.spec.deploySpec.model"),
    ("$.output.credential", "$.spec.credentialName"),
    ("$.output", "$.spec.outputDir"),
)
"""Paths of a job, each with its path in the original."""


class LeftOut(NamedTuple):
    """Something that has no counterpart, or means something else here: where it is, and why."""

    place: DocumentPlace
    why: str


class ConvertedFile(NamedTuple):
    """A file of ours: its name, what it has, and of what it was made."""

    name: str
    content: Json
    place: DocumentPlace


@dataclass(slots=True)
class SednaConversion:
    """What documents became: files, what was left out, and the commands that follow."""

    files: list[ConvertedFile] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    commands: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Documents:
    """The documents that are converted together; jobs need the others by their names."""

    read: Sequence[ReadDocument]
    timezone: str
    made: SednaConversion = field(default_factory=SednaConversion)
    problems: list[tuple[DocumentPlace, Problem]] = field(default_factory=list)

    def find(self, kind: type[Any], name: str) -> Any:
        """Returns the document of a kind that becomes a name; None if it is in no file."""
        return next(
            (each.content for each in self.read if _is(each, kind) and id_of(each.content) == name), None
        )

    def tell(self, document: ReadDocument, base: str, path: str, why: str) -> None:
        """Notes something of a document that has no counterpart."""
        self.made.left_out.append(LeftOut(document.place(base + path), why))

    def check(
        self, document: ReadDocument, kind: type[BaseModel], body: Json, moved: Sequence[tuple[str, str]]
    ) -> Any:
        """Returns what a body defines; None, with its problems noted, if it is not valid."""
        try:
            return kind.model_validate(body)
        except ValidationError as error:
            for each in problems_of(error, field_names(kind), body):
                self.refuse(document, each, moved)
            return None

    def refuse(self, document: ReadDocument, problem: Problem, moved: Sequence[tuple[str, str]]) -> None:
        """Notes a problem of a body at its place in the original."""
        place = document.place(original_path(problem.path, moved))
        if not any((place, problem.code) == (other, known.code) for other, known in self.problems):
            self.problems.append((place, problem))


def convert(files: Mapping[str, bytes], timezone: str = "UTC") -> SednaConversion:
    """Returns what the documents of files are here. `timezone` is that of the clock that timers mean.

    Raises UnreadableError, with all problems, if one of the documents can't be converted.
    """
    read, secrets = read_documents(files)
    documents = _Documents(read, timezone)
    for secret in secrets:
        documents.made.left_out.append(_secret(secret))
    steps: tuple[tuple[type[Any], Callable[[_Documents, ReadDocument], None]], ...] = (
        (SednaModel, _convert_model),
        (SednaDataset, _convert_dataset),
        (SednaJob, _convert_job),
    )
    for kind, step in steps:
        for document in read:
            if _is(document, kind):
                documents.made.left_out += [LeftOut(document.place(at), why) for at, why in reasons(document)]
                step(documents, document)
    if documents.problems:
        raise UnreadableError(documents.problems)
    return documents.made


def original_path(path: str, moved: Sequence[tuple[str, str]]) -> str:
    """Returns the path in the original of what is at a path of ours."""
    return next(
        (theirs for ours, theirs in moved if path == ours or path.startswith((f"{ours}.", f"{ours}["))), "$"
    )


def _is(document: ReadDocument, kind: type[Any]) -> bool:
    return isinstance(document.content, kind)


def _secret(secret: SecretName) -> LeftOut:
    why = f"the Secret {secret.name} is not read: have a credential of this name on the hosts of the workers"
    return LeftOut(secret.place, why)


def _convert_dataset(documents: _Documents, document: ReadDocument) -> None:
    dataset = document.content
    assert isinstance(dataset, SednaDataset)
    body: Json = {"url": dataset.spec.url, "format": dataset.spec.format}
    body |= _credential(dataset.spec.credential_name)
    moved = (
        ("$.credential", "$.spec.credentialName"),
        ("$.url", "$.spec.url"),
        ("$.format", "$.spec.format"),
    )
    documents.check(document, DatasetSpec, body, moved)
    name = id_of(dataset)
    file = f"{name}.dataset.yaml"
    documents.made.files.append(ConvertedFile(file, {"kind": "dataset", **body}, document.place("$")))
    documents.made.commands.append(f"trackside submit {file} --id {name}")


def _convert_model(documents: _Documents, document: ReadDocument) -> None:
    model = document.content
    assert isinstance(model, SednaModel)
    spec, name = model.spec, id_of(model)
    body: Json = {"url": spec.url, **_credential(spec.credential_name)}
    documents.check(
        document, DatasetSpec, body, (("$.url", "$.spec.url"), ("$.credential", "$.spec.credentialName"))
    )
    form = spec.format.strip(".").lower()
    if form in UNSAFE:
        documents.tell(
            document, "$.spec.format", "", f"{form} executes code when it is read: save it as safetensors"
        )
    file = f"{name}.model.yaml"
    content: Json = {"kind": "model", "labels": {"sedna-format": form}} if form else {"kind": "model"}
    documents.made.files.append(ConvertedFile(file, content, document.place("$")))
    documents.made.commands += [f"trackside submit {file} --id {name}", *_version(model, name, form)]


def _version(model: SednaModel, name: str, form: str) -> Iterator[str]:
    """Yields the commands that make a file the first version of a model; a digest may be left open."""
    url, options = model.spec.url, [f"--format {format_of(form)}"]
    options += [f"--device {shlex.quote(device)}" for device in model.spec.devices]
    if "://" in url:
        known = f"--url {shlex.quote(url)} --sha256 SHA256 --size BYTES"
        if model.spec.credential_name:
            options.append(f"--credential {shlex.quote(model.spec.credential_name)}")
    else:
        path = shlex.quote(url)
        digest = f'"$(sha256sum < {path} | cut -c 1-64)"'
        yield f"trackside artifacts put {path}"
        known = f'--url store:sha256/{digest} --sha256 {digest} --size "$(stat -c %s {path})"'
    yield f"trackside models add {name} {known} {' '.join(options)}"


def _convert_job(documents: _Documents, document: ReadDocument) -> None:
    job = document.content
    assert isinstance(job, SednaJob)
    spec, name = job.spec, id_of(job)
    initial, deployed = (
        in_namespace(job, each) for each in (spec.initial_model.name, spec.deploy_spec.model.name)
    )
    first = spec.eval_spec.initial_eval_model
    compared = deployed if first is None else in_namespace(job, first.name)
    stage = partial(_stage, documents, document, name)
    body: Json = {
        "name": name,
        "dataset": {"name": in_namespace(job, spec.dataset.name), "train_prob": spec.dataset.train_prob},
        "model": deployed,
        "initial_model": f"{initial}@1",
        "train": stage("train", spec.train_spec.template, "$.spec.trainSpec.template"),
        "eval": stage("eval", spec.eval_spec.template, "$.spec.evalSpec.template"),
        "deploy": {},
        "output": {"url": spec.output_dir, **_credential(spec.credential_name)},
    }
    _tell_absent(documents, document, initial, body["dataset"]["name"])
    if compared != initial:
        body["eval"]["initial_model"] = f"{compared}@1"
    if deployed != initial:
        why = f"until a round has deployed, {initial}@1 is live here, and {deployed} in Sedna"
        documents.tell(document, "$.spec.deploySpec.model.name", "", why)
    _put_trigger(documents, document, body["train"], spec.train_spec.trigger, "train")
    _put_trigger(documents, document, body["deploy"], spec.deploy_spec.trigger, "deploy")
    _put_deployment(documents, document, body, spec.deploy_spec)
    found = documents.check(document, JobSpec, body, MOVED)
    if found is not None:
        for stage_name, trigger in (("train", found.train.trigger), ("deploy", found.deploy.trigger)):
            for problem in trigger_problems(trigger, f"$.{stage_name}.trigger"):
                documents.refuse(document, problem, MOVED)
    file = f"{name}.job.yaml"
    documents.made.files.append(ConvertedFile(file, {"kind": "rounds", **body}, document.place("$")))
    documents.made.commands.append(f"trackside submit {file} --id {name}")


def _tell_absent(documents: _Documents, document: ReadDocument, initial: str, dataset: str) -> None:
    """Notes which documents of a job are in none of the files."""
    if documents.find(SednaModel, initial) is None:
        why = f"the Model {initial} is in none of the files: {initial}@1 must exist"
        documents.tell(document, "$.spec.initialModel.name", "", why)
    if documents.find(SednaDataset, dataset) is None:
        why = f"the Dataset {dataset} is in none of the files: ORIGINAL_DATASET_URL is not set"
        documents.tell(document, "$.spec.dataset.name", "", why)


def _stage(
    documents: _Documents, document: ReadDocument, name: str, stage: str, template: SednaTemplate, path: str
) -> Json:
    """Returns what a stage runs, and adds its program to the catalogue."""
    tell = partial(documents.tell, document, "")
    task_type = f"{name}-{stage}"
    job = document.content
    assert isinstance(job, SednaJob)
    made: Json = {"task_type": task_type}
    parameters = parameters_of(template, path, tell)
    dataset = documents.find(SednaDataset, in_namespace(job, job.spec.dataset.name))
    if stage != INFERENCE and dataset is not None:
        parameters.setdefault("ORIGINAL_DATASET_URL", dataset.spec.url)
    if parameters:
        made["parameters"] = parameters
    if needs := needs_of(template, path, tell):
        made["needs"] = needs
    if program := program_of(template, path, tell):
        runner = {"runner": "service"} if stage == INFERENCE else {}
        _catalogue(documents.made, document)["tasks"][task_type] = {"program": program, "path": ".", **runner}
    return made


def _catalogue(made: SednaConversion, document: ReadDocument) -> Json:
    for each in made.files:
        if each.name == CATALOGUE:
            return each.content
    made.files.append(ConvertedFile(CATALOGUE, {"tasks": {}}, document.place("$")))
    return made.files[-1].content


def _put_trigger(documents: _Documents, document: ReadDocument, into: Json, trigger: Any, stage: str) -> None:
    tell = partial(documents.tell, document, f"$.spec.{stage}Spec.trigger")
    found = convert_trigger(trigger, documents.timezone, stage == "deploy", tell)
    if found is not None:
        into["trigger"] = found
    if trigger is not None and trigger.check_period_seconds is not None:
        into["check_period_s"] = trigger.check_period_seconds


def _put_deployment(documents: _Documents, document: ReadDocument, body: Json, spec: SednaDeploy) -> None:
    """Puts where a model is copied to, the file of its path, and the inference service."""
    base, tell = "$.spec.deploySpec", partial(documents.tell, document, "")
    deploy: Json = body["deploy"]
    model = documents.find(SednaModel, body["model"])
    if model is None:
        message = (
            f"the Model {body['model']} is in none of the files; expected it too: its URL is where models go"
        )
        at = f"{base}.model.name"
        documents.problems.append(
            (document.place(at), Problem(code="missing_field", path=at, message=message))
        )
        return
    deploy["copy_to"] = {"url": model.spec.url, **_credential(model.spec.credential_name)}
    if "://" in model.spec.url:
        tell(f"{base}.model.name", "models are copied over its file: make another copy of it its version 1")
    if spec.model.hot_update_enabled:
        folder = body["output"]["url"].rstrip("/") + "/model-hot-update"
        deploy["config"] = {**body["output"], "url": folder}
        why = (
            f"a service is instructed of a model; for others model_config.json is in {folder}/{body['name']}"
        )
        tell(f"{base}.model.hotUpdateEnabled", why)
    if spec.model.poll_period_seconds is not None:
        tell(f"{base}.model.pollPeriodSeconds", "nothing polls: a service is instructed of a model at once")
    service = {
        "name": INFERENCE,
        **_stage(documents, document, body["name"], INFERENCE, spec.template, f"{base}.template"),
    }
    if spec.hard_example_mining is not None:
        service["hard_examples"] = _miner(spec, base, tell)
    deploy["services"] = [service]


def _miner(spec: SednaDeploy, base: str, tell: NoteField) -> Json:
    mining = spec.hard_example_mining
    assert mining is not None
    parameters: Json = {}
    for at, each in enumerate(mining.parameters):
        if is_secret(each.key, each.value):
            tell(
                f"{base}.hardExampleMining.parameters[{at}]",
                f"{each.key}: it looks like a secret, which is not repeated",
            )
        else:
            parameters[each.key] = _number(each.value)
    if mining.name == "BertRouter":
        tell(f"{base}.hardExampleMining.name", "the service gives its scorer; no model is downloaded")
    return {"miner": mining.name, **({"parameters": parameters} if parameters else {})}


def _number(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


def _credential(name: str) -> Json:
    return {"credential": name} if name else {}
