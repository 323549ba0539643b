"""INV-23 and INV-24: each sample is in one place, and a model that is live was decided and confirmed.

And INV-10: rounds are consecutive, a stage ends once and in its order, a decision is made once for a round.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from trackside.aggregates.rounds import agreement, messages
from trackside.aggregates.rounds.job import deploy_messages as deploys
from trackside.aggregates.rounds.job.job_spec import DeploySpec, JobSpec
from trackside.aggregates.rounds.messages import Range, ReportHardExamples
from trackside.contracts.envelope.message import Record
from trackside.contracts.envelope.parts import Part
from trackside.contracts.tasks.artifacts import ArtifactReference, place_of
from trackside.contracts.tasks.resources import Needs
from trackside.contracts.tasks.tasks import TaskSubmitted
from trackside.domain.checks.findings import Findings
from trackside.domain.checks.invariants import AggregateInvariants, CheckedTask, check_needs

STAGES = ("train", "eval", "deploy")
SAMPLES, LIVE = "INV-23", "INV-24"


class RoundsInvariants(AggregateInvariants):
    """Keeps how far samples were divided and used, the current round, and the update that is open."""

    def __init__(self, record: Record, tasks: Mapping[str, CheckedTask], findings: Findings) -> None:
        """Begins with the record of IncrementalJobCreated."""
        super().__init__(record, tasks, findings)
        event: Any = record.message
        self.assigned = self.used = event.job.dataset.begin
        self.dataset = event.job.dataset.name
        self.round = 0
        self.ranges: Range | None = None
        self.train: Range | None = None
        self.ended: set[str] = set()
        self.decided: bool | None = None
        self.approved = True
        self.update: deploys.ModelUpdatePublished | None = None
        self.updates = 0
        self.unconfirmed: set[str] = set()
        self.was_live = {event.initial.artifact.sha256}
        self.trained = ""
        self.deleted = False
        self.job: JobSpec = event.job
        self.last: messages.StageEnded | None = None
        self.version: messages.ModelTrained | None = None
        self.went_live = False
        self.evaluations = 0
        self.why = ""
        self.format = event.initial.format
        self.conditions: list[tuple[str, str, float]] = []
        self.gated = False
        self.triggered: dict[str, bool] = {}
        self.copied_to: set[str] = set()
        self.removals: list[str] = []
        self.windows = Counter[str]()
        self._note_urls(event.job.deploy)

    def take(self, event: Any, record: Record) -> None:
        """Checks an event of the job after its first one."""
        match event:
            case messages.SamplesAssigned():
                self._assigned(event, record)
            case messages.TriggerEvaluated():
                self._evaluated(event, record)
                if event.fired and event.stage == "train":
                    self._fired(record)
            case messages.SampleManifestWritten():
                self._written(event, record)
            case messages.ModelTrained():
                self._trained(event, record)
            case messages.IncrementalJobUpdated():
                self.job = event.job
                self._note_urls(event.job.deploy)
                self.unconfirmed &= agreement.targets(event.job.deploy)
                if event.job.dataset.name != self.dataset:
                    self.dataset = event.job.dataset.name
                    self.assigned = self.used = event.job.dataset.begin
                    self.train = None
            case messages.IncrementalJobDeleted():
                self.deleted = True
            case deploys.ConfigRemovalEnded():
                self._removed(event, record)
            case messages.RoundStarted():
                self._started(event, record)
            case messages.StageEnded():
                self._stage_ended(event, record)
            case messages.RoundEnded():
                self._round_ended(event, record)
            case _:
                self._take_deploy(event, record)

    def ignored(self, event: Any) -> str:
        """Returns that an event without effect is of a round or an update that comes later."""
        begins = isinstance(event, messages.TriggerEvaluated | messages.RoundStarted | messages.StageBlocked)
        number = getattr(event, "round", getattr(event, "number", 0)) or 0
        if number > self.round + begins or (getattr(event, "update", 0) or 0) > self.updates + 1:
            return f"it is of a round after {self.round}"
        if isinstance(event, deploys.HardExamplesReported) and event.window > self.windows[event.service] + 1:
            return f"{event.service} has reported {self.windows[event.service]} times"
        waits = isinstance(event, messages.StageEnded) and event.stage not in self.ended
        waits = waits or (isinstance(event, messages.RoundEnded) and self.train is not None)
        waits = waits and number == self.round and not self.deleted
        return f"round {self.round} waits for it" if waits else ""

    def unfinished(self) -> str:
        """Returns that a round has not ended whose stages have, or that a task of a deleted job has not."""
        if "deploy" in self.ended and self.train is not None:
            return f"round {self.round} has not ended, and its stages have"
        running = next((name for name, task in self.tasks.items() if not task.has_ended), "")
        if self.deleted and running:
            return f"the job is deleted, and task {running} has not ended"
        return "its folder is neither removed nor does it stay" if self.removals else ""

    def accepted_alone(self, command: Any) -> str:
        """Returns that what a service has counted is missing."""
        return "there is no such report" if isinstance(command, ReportHardExamples) else ""

    def repeated_by(self, event: Any) -> Iterable[tuple[str, str, object]]:
        """Returns what it says of samples of its dataset, and of versions of models."""
        if isinstance(event, messages.SamplesAssigned):
            yield self.dataset, f"sample {event.end}", (event.size_bytes, event.sha256, event.metrics)
        for name in ("base", "model", "initial", "initial_eval"):
            model = getattr(event, name, None)
            if isinstance(model, deploys.RoundModel):
                yield model.model, f"the artifact of version {model.version}", place_of(model.artifact)
                yield model.model, f"the format of version {model.version}", model.format
        if isinstance(event, messages.IncrementalJobCreated | messages.IncrementalJobUpdated):
            yield event.job.dataset.name, "its place", (event.dataset.url, event.dataset.format)
        if isinstance(event, deploys.ModelDeployed):
            yield event.model, f"version {event.version}", event.sha256

    def task_submitted(self, event: TaskSubmitted, record: Record) -> None:
        """Takes in that a service begins: it is asked for the model of the current update."""
        part = event.part
        if part is None or part.kind != "serve":
            check_needs(event, self._needs_of(part), record, self.findings)
        if part is not None and part.kind == "delete":
            self.removals.append(event.task_id)
        if part is not None and part.kind == "serve" and self.update is not None:
            self.unconfirmed.add(f"serve.{part.name}.{part.number}")

    def artifacts_of(self, event: Any) -> Iterable[ArtifactReference]:
        """Returns the models of other streams that an event names."""
        if isinstance(event, messages.RoundStarted):
            return (event.base.artifact,)
        return (event.version.artifact,) if isinstance(event, messages.ModelTrained) else ()

    def _removed(self, event: deploys.ConfigRemovalEnded, record: Record) -> None:
        """Checks what became of the folder of a deleted job."""
        if not self.deleted:
            self.findings.illegal(record, "its folder is removed, and it was not deleted")
        config = self.job.deploy.config
        if config is not None:
            self.findings.compare(record, "the URL", event.url, f"{config.url.rstrip('/')}/{self.stream_id}")
        self.findings.compare(record, "a message", bool(event.message), not event.removed)
        self.findings.compare(record, "the tries", event.tries, len(self.removals))
        if event.due_ms is None and self.removals:
            last = self.tasks[self.removals[-1]]
            removed = last.succeeded and not (last.result or {}).get("others", 0)
            self.findings.compare(record, "removed", event.removed, removed)
        self.removals = []

    def _counted(self, event: deploys.HardExamplesReported, record: Record) -> None:
        """Checks that what a service has counted is in its next window, by the attempt that it has."""
        self.windows[event.service] += 1
        self.findings.compare(record, "the window", event.window, self.windows[event.service])
        by_command = bool(event.command_id)
        self.findings.compare(record, "an attempt", bool(event.attempt), not by_command)
        self.findings.compare(record, "a placement", bool(event.placement), not by_command)

    def _note_urls(self, deploy: DeploySpec) -> None:
        self.gated = self.gated or deploy.gate is not None
        self.conditions += agreement.conditions(deploy.model_dump(mode="json").get("trigger"))
        if deploy.copy_to is not None:
            self.copied_to.add(deploy.copy_to.url)

    def _needs_of(self, part: Part | None) -> Needs:
        """Returns what a task asks for: that of a stage is as the job says, others have nothing special."""
        stages = {"train": self.job.train, "eval": self.job.eval}
        found = stages.get(part.name) if part is not None and part.kind == "round" else None
        return Needs() if found is None else found.needs

    def _results(self, *parts: str) -> list[Any]:
        """Returns what the tasks of a stage of this round have returned."""
        begin = ".".join((self.stream_id, f"r{self.round}", *parts)) + "."
        return [task.result for name, task in self.tasks.items() if name.startswith(begin)]

    def _evaluated(self, event: messages.TriggerEvaluated, record: Record) -> None:
        self.evaluations += 1
        self.findings.compare(record, "the evaluation", event.evaluation, self.evaluations)
        if event.fired and not event.command_id:
            self.findings.compare(record, "the result", event.result, True)
        elif not event.fired and event.stage in self.triggered:
            self.findings.compare(record, "the result", event.result, not self.triggered[event.stage])
        self.triggered[event.stage] = event.result and not event.fired
        if event.due_ms is not None and event.evaluated_ms < event.due_ms:
            self.findings.differs(record, "its time", event.evaluated_ms, f"at least {event.due_ms}")

    def _written(self, event: messages.SampleManifestWritten, record: Record) -> None:
        names = ("url", "sha256", "size_bytes", "lines")
        said = {name: getattr(event, name) for name in names}
        results = [
            {name: result.get(name) for name in names}
            for result in self._results(f"{event.stage}-samples")
            if result is not None
        ]
        if said not in results:
            self.findings.differs(record, "a manifest", said, results)

    def _trained(self, event: messages.ModelTrained, record: Record) -> None:
        self.version, version = event, event.version
        child = f"{self.stream_id}.r{self.round}."
        own = version.stream == self.stream_id or version.stream.startswith(child)
        self.findings.compare(record, "a stream of the job", own, True)
        self.findings.compare(record, "the round", event.round, self.round)
        self.findings.compare(record, "the model", event.model, self.job.model)
        if version.stream == self.stream_id:
            self.findings.compare(record, "the format", version.format, self.format)
            task, name = self.tasks.get(version.task), f"{version.stream}/{version.task}/"
            self.findings.compare(record, "a task that has ended", task is not None and task.has_ended, True)
            self.findings.compare(record, "the source", version.artifact.source.startswith(name), True)
            if task is not None:
                self.findings.compare(record, "the attempt", version.attempt, task.attempt)

    def _check_stage(self, event: messages.StageEnded, record: Record) -> None:
        """Checks what a stage has found: train its model, eval the results of its task."""
        if event.stage == "train" and event.model is not None and self.version is not None:
            version = self.version.version
            said = (event.model.model, event.model.artifact.sha256)
            trained = (self.version.model, version.artifact.sha256)
            self.findings.compare(record, "the model", said, trained)
        elif event.stage != "train":
            self.findings.compare(record, "a model", event.model, None)
        results = self._results("eval")
        if event.stage == "eval" and results and event.status.value == "Completed":
            if event.metrics not in results:
                self.findings.differs(record, "the metrics", event.metrics, results)
        elif event.stage != "eval":
            self.findings.compare(record, "metrics", event.metrics, {})
        if event.status.value == "Completed" and event.stage != "deploy":
            self.findings.compare(record, "a reason", event.reason + event.message, "")
        if event.stage == "deploy" and event.status.value == "Completed":
            self.findings.compare(record, "a decision before", self.decided is not None, True)

    def _assigned(self, event: messages.SamplesAssigned, record: Record) -> None:
        self.findings.checked[SAMPLES] += 1
        if event.begin != self.assigned or event.end <= event.begin:
            message = f"samples {event.begin} to {event.end} are divided, the next one is {self.assigned}"
            self.findings.add(SAMPLES, record, message)
        if event.train + event.evaluation != event.end - event.begin:
            message = f"{event.train} and {event.evaluation} samples are not {event.end - event.begin}"
            self.findings.add(SAMPLES, record, message)
        self.assigned = event.end

    def _fired(self, record: Record) -> None:
        self.findings.checked[SAMPLES] += 1
        if self.train is not None:
            self.findings.illegal(record, f"round {self.round} has not ended")
        self.round += 1
        self.train = (self.used, self.assigned)
        self.used = self.assigned
        self.ended, self.decided, self.approved, self.trained = set(), None, True, ""
        self.last, self.version, self.went_live = None, None, False

    def _started(self, event: messages.RoundStarted, record: Record) -> None:
        self.findings.checked[SAMPLES] += 1
        if event.number != self.round:
            self.findings.illegal(record, f"round {event.number} starts, expected {self.round}")
        if self.train is not None and event.train != self.train:
            message = f"the round trains with samples {event.train}, expected {self.train}"
            self.findings.add(SAMPLES, record, message)

    def _stage_ended(self, event: messages.StageEnded, record: Record) -> None:
        before = STAGES[: STAGES.index(event.stage)]
        if event.round != self.round or event.stage in self.ended:
            self.findings.illegal(record, f"{event.stage} of round {event.round} can't end")
        missing = [stage for stage in before if stage not in self.ended]
        if missing:
            self.findings.illegal(record, f"{event.stage} ends before {missing[0]}")
        self._check_stage(event, record)
        self.ended.add(event.stage)
        self.last = event
        if event.model is not None:
            self.trained = event.model.artifact.sha256

    def _round_ended(self, event: messages.RoundEnded, record: Record) -> None:
        self.findings.checked[SAMPLES] += 1
        if event.number != self.round:
            self.findings.illegal(record, f"round {event.number} ends, expected {self.round}")
        expected = self.train if event.status == "failed" else None
        if self.train is not None and event.released != expected:
            self.findings.add(SAMPLES, record, f"{event.released} is released, expected {expected}")
        if event.released is not None and self.train is not None:
            self.used = event.released[0]
        self.train = None
        if self.last is not None:
            self.findings.compare(record, "the stage", event.stage, self.last.stage)
            reasons = {self.last.reason, self.last.message, self.why, "rejected"}
            if event.reason not in reasons:
                self.findings.differs(record, "the reason", event.reason, reasons)
        self.findings.compare(record, "deployed", event.deployed, self.went_live)

    def _take_deploy(self, event: Any, record: Record) -> None:
        match event:
            case deploys.DeployDecided():
                if self.decided is not None or "eval" not in self.ended:
                    self.findings.illegal(
                        record, f"the deployment of round {event.round} can't be decided now"
                    )
                self.why = event.reason
                self.findings.compare(record, "the round", event.round, self.round)
                if not (self.gated and event.deploy):
                    self.findings.compare(record, "an approval", event.approval, False)
                agreement.check_decision(event, self.last, self.conditions, record, self.findings)
                self.decided, self.approved = event.deploy, not event.approval
            case deploys.HardExamplesReported():
                self._counted(event, record)
            case deploys.ModelUpdateTimedOut():
                self.findings.compare(record, "the targets", set(event.targets), self.unconfirmed)
            case deploys.ModelUpdateFailed() if not event.target.startswith("serve."):
                self.findings.compare(record, "the instruction", event.instruction, 0)
            case deploys.DeployApproved():
                self.approved = True
            case deploys.DeployRejected():
                self.decided = False
            case deploys.ModelUpdatePublished():
                self._published(event, record)
            case deploys.ModelCopied() | deploys.ModelUpdateConfirmed():
                self._confirmed(event, record)
            case deploys.ModelDeployed():
                self._deployed(event, record)
            case deploys.ModelRolledBack():
                self.findings.checked[LIVE] += 1
                if event.model.artifact.sha256 not in self.was_live:
                    name = f"{event.model.model}@{event.model.version}"
                    self.findings.add(LIVE, record, f"{name} was never live")

    def _published(self, event: deploys.ModelUpdatePublished, record: Record) -> None:
        self.findings.checked[LIVE] += 1
        self.updates += 1
        if event.update != self.updates:
            self.findings.illegal(record, f"update {event.update} is published, expected {self.updates}")
        sha256 = event.model.artifact.sha256
        if event.cause == "round" and not (self.decided and self.approved and sha256 == self.trained):
            self.findings.add(
                LIVE, record, f"that the model of round {event.round} is deployed was not decided"
            )
        if event.cause != "round" and sha256 not in self.was_live:
            self.findings.add(LIVE, record, "a model is to be live again that never was")
        self.update, self.unconfirmed = event, set(event.targets)

    def _confirmed(self, event: deploys.ModelCopied | deploys.ModelUpdateConfirmed, record: Record) -> None:
        self.findings.checked[LIVE] += 1
        update = self.update
        url = event.url if isinstance(event, deploys.ModelCopied) and event.target == "copy" else None
        if url is not None and url not in self.copied_to:
            self.findings.differs(record, "the URL", url, sorted(self.copied_to))
        if update is None or event.update != update.update or event.target not in self.unconfirmed:
            self.findings.add(LIVE, record, f"{event.target} confirms an update that it was not asked for")
        elif event.sha256 != update.model.artifact.sha256:
            self.findings.add(LIVE, record, f"{event.target} confirms other bytes than those of the update")
        self.unconfirmed.discard(event.target)

    def _deployed(self, event: deploys.ModelDeployed, record: Record) -> None:
        self.findings.checked[LIVE] += 1
        update = self.update
        if update is None or event.update != update.update or event.sha256 != update.model.artifact.sha256:
            self.findings.add(LIVE, record, "the model that is live is not that of the update")
        if self.unconfirmed:
            names = ", ".join(sorted(self.unconfirmed))
            self.findings.add(LIVE, record, f"a model is live that {names} has not confirmed")
        if update is not None and update.cause == "round" and update.round == self.round:
            self.went_live = True
        self.was_live.add(event.sha256)
        self.update = None
