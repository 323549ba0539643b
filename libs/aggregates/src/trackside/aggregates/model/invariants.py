"""INV-12 and INV-10 of models: versions are consecutive, their bytes differ, a stage has one version.

And INV-20: which artifacts of tasks its versions are; what other streams have is compared at the end.
"""

from collections.abc import Iterable, Mapping
from typing import Any, cast

from trackside.aggregates.model.messages import (
    EXCLUSIVE,
    AddModelVersion,
    ArchiveModel,
    ModelArchived,
    ModelRegistered,
    ModelRestored,
    ModelStageSet,
    ModelTagged,
    ModelVersionAdded,
    RestoreModel,
    SetModelStage,
    TagModel,
)
from trackside.contracts.envelope.message import Message, Record
from trackside.contracts.tasks.artifacts import ArtifactReference, place_of
from trackside.domain.checks.findings import Findings
from trackside.domain.checks.invariants import AggregateInvariants, CheckedTask


class ModelInvariants(AggregateInvariants):
    """Keeps the digests of the versions, and which version has which stage."""

    def __init__(self, record: Record, tasks: Mapping[str, CheckedTask], findings: Findings) -> None:
        """Begins with the record of ModelRegistered."""
        super().__init__(record, tasks, findings)
        self.digests: dict[str, int] = {}
        self.versions = 0
        self.stages: dict[int, str] = {}
        self.archived = False
        model = cast(ModelRegistered, record.message).model
        self.labels: dict[int | None, dict[str, str]] = {None: dict(model.labels)}
        self.tags: dict[int | None, set[str]] = {None: set(model.tags)}

    def take(self, event: Message, record: Record) -> None:
        """Checks an event of the model after its first one."""
        if self.archived and not isinstance(event, ModelRestored):
            self.findings.illegal(record, "the model is archived")
        match event:
            case ModelVersionAdded():
                self._version_added(event, record)
            case ModelStageSet():
                self._stage_set(event, record)
            case ModelTagged():
                if event.version is not None:
                    self._check_version(event.version, record)
                self._tagged(event, record)
            case ModelArchived():
                self.archived = True
            case ModelRestored():
                if not self.archived:
                    self.findings.illegal(record, "the model is not archived")
                self.archived = False

    def accepted_alone(self, command: Any) -> str:
        """Returns that a version was not added, or has another stage."""
        if isinstance(command, AddModelVersion) and command.artifact.sha256 not in self.digests:
            return "there is no such version"
        if isinstance(command, SetModelStage) and self.stages.get(command.version, "none") != command.stage:
            return f"version {command.version} has another stage"
        if (
            isinstance(command, ArchiveModel | RestoreModel)
            and isinstance(command, ArchiveModel) is not self.archived
        ):
            return f"the model is {'' if self.archived else 'not '}archived"
        return ""

    def facts_of(self, event: Message) -> Iterable[tuple[str, object]]:
        """Returns the digest of a version."""
        if isinstance(event, ModelVersionAdded):
            yield f"version {event.version}", event.model.artifact.sha256
            yield f"the artifact of version {event.version}", place_of(event.model.artifact)
            yield f"the format of version {event.version}", event.model.format

    def artifacts_of(self, event: Message) -> Iterable[ArtifactReference]:
        """Returns the artifact of a version."""
        return (event.model.artifact,) if isinstance(event, ModelVersionAdded) else ()

    def _tagged(self, event: ModelTagged, record: Record) -> None:
        """Checks that an event has those of the tags and labels of its command that were not so before."""
        labels, tags = self.labels.get(event.version, {}), self.tags.get(event.version, set())
        wanted = self.command
        if isinstance(wanted, TagModel):
            compare = self.findings.compare
            new = {name: text for name, text in wanted.labels.items() if labels.get(name) != text}
            compare(record, "the labels", event.labels, new)
            compare(record, "new tags", set(event.added), {*wanted.add} - {*wanted.remove} - tags)
            compare(record, "removed tags", set(event.removed), tags & {*wanted.remove})
        changed = {**labels, **event.labels}
        self.labels[event.version] = {name: text for name, text in changed.items() if text is not None}
        self.tags[event.version] = (tags | {*event.added}) - {*event.removed}

    def _version_added(self, event: ModelVersionAdded, record: Record) -> None:
        self.labels[event.version], self.tags[event.version] = dict(event.model.labels), {*event.model.tags}
        self.findings.checked["INV-12"] += 1
        self.versions += 1
        expected, digest = self.versions, event.model.artifact.sha256
        if event.version != expected:
            message = f"version {event.version} is added, the next one is {expected}"
            self.findings.add("INV-12", record, message)
        if digest in self.digests:
            message = f"version {event.version} has the bytes of version {self.digests[digest]}"
            self.findings.add("INV-12", record, message)
        self.digests.setdefault(digest, expected)

    def _stage_set(self, event: ModelStageSet, record: Record) -> None:
        self._check_version(event.version, record)
        if event.replaces is not None:
            self.stages.pop(event.replaces, None)
        self.stages[event.version] = event.stage
        holders = [number for number, stage in sorted(self.stages.items()) if stage == event.stage]
        if event.stage in EXCLUSIVE and len(holders) > 1:
            self.findings.illegal(record, f"versions {holders} would all have the stage {event.stage}")

    def _check_version(self, number: int, record: Record) -> None:
        if not 1 <= number <= self.versions:
            self.findings.illegal(record, f"there is no version {number}")
