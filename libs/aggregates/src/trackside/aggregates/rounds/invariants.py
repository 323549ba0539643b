"""INV-23 and INV-24: each sample is in one place, and a model that is live was decided and confirmed.

And INV-10: rounds are consecutive, a stage ends once and in its order, a decision is made once for a round.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from trackside.aggregates.rounds import deploy_messages as deploys
from trackside.aggregates.rounds import messages
from trackside.aggregates.rounds.job_spec import DeploySpec
from trackside.aggregates.rounds.messages import Range
from trackside.contracts.artifacts import ArtifactReference
from trackside.contracts.message import Record
from trackside.contracts.tasks import TaskSubmitted
from trackside.domain.findings import Findings
from trackside.domain.invariants import AggregateInvariants, CheckedTask

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

    def take(self, event: Any, record: Record) -> None:
        """Checks an event of the job after its first one."""
        match event:
            case messages.SamplesAssigned():
                self._assigned(event, record)
            case messages.TriggerEvaluated():
                if event.fired and event.stage == "train":
                    self._fired(record)
            case messages.IncrementalJobUpdated():
                self.unconfirmed &= _targets(event.job.deploy)
                if event.job.dataset.name != self.dataset:
                    self.dataset = event.job.dataset.name
                    self.assigned = self.used = event.job.dataset.begin
                    self.train = None
            case messages.IncrementalJobDeleted():
                self.deleted = True
            case deploys.ConfigRemovalEnded():
                if not self.deleted:
                    self.findings.illegal(record, "its folder is removed, and it was not deleted")
            case messages.RoundStarted():
                self._started(event, record)
            case messages.StageEnded():
                self._stage_ended(event, record)
            case messages.RoundEnded():
                self._round_ended(event, record)
            case _:
                self._take_deploy(event, record)

    def task_submitted(self, event: TaskSubmitted, record: Record) -> None:
        """Takes in that a service begins: it is asked for the model of the current update."""
        part = event.part
        if part is not None and part.kind == "serve" and self.update is not None:
            self.unconfirmed.add(f"serve.{part.name}.{part.number}")

    def artifacts_of(self, event: Any) -> Iterable[ArtifactReference]:
        """Returns the models of other streams that an event names."""
        if isinstance(event, messages.RoundStarted):
            return (event.base.artifact,)
        return ()

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
        self.ended.add(event.stage)
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

    def _take_deploy(self, event: Any, record: Record) -> None:
        match event:
            case deploys.DeployDecided():
                if self.decided is not None or "eval" not in self.ended:
                    self.findings.illegal(
                        record, f"the deployment of round {event.round} can't be decided now"
                    )
                self.decided, self.approved = event.deploy, not event.approval
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
        self.was_live.add(event.sha256)
        self.update = None


def _targets(deploy: DeploySpec) -> set[str]:
    named = {"copy": deploy.copy_to, "config": deploy.config}
    files = {target for target, wanted in named.items() if wanted is not None}
    services = (
        f"serve.{service.name}.{replica}"
        for service in deploy.services
        for replica in range(1, service.replicas + 1)
    )
    return files.union(services)
