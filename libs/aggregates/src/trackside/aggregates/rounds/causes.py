"""The events of an incremental job as short lines, and the rounds that they are about."""

from collections.abc import Mapping, Sequence

from trackside.aggregates.rounds import messages
from trackside.aggregates.rounds.job import deploy_messages as deploys
from trackside.aggregates.rounds.job.deploy_messages import RoundModel
from trackside.aggregates.rounds.state import IncrementalJob
from trackside.contracts.envelope.message import Command, Message
from trackside.domain.display.short_text import named_values
from trackside.domain.streams.causality import Causality, StreamSubject


class RoundsCausality(Causality[IncrementalJob]):
    """Each event of a round rests on the one before it, on its task, or on what a service has said."""

    commanded: Mapping[type[Message], tuple[type[Command], ...]] = {
        messages.IncrementalJobCreated: (messages.CreateIncrementalJob,),
        messages.IncrementalJobUpdated: (messages.UpdateIncrementalJob,),
        messages.IncrementalJobPaused: (messages.PauseIncrementalJob,),
        messages.IncrementalJobResumed: (messages.ResumeIncrementalJob,),
        messages.IncrementalJobDeleted: (messages.DeleteIncrementalJob,),
        deploys.HardExamplesReported: (messages.ReportHardExamples,),
        messages.TriggerEvaluated: (
            messages.FireTrain,
            messages.FireEval,
        ),
        deploys.DeployDecided: (messages.FireDeploy,),
        deploys.DeployApproved: (messages.ApproveDeploy,),
        deploys.DeployRejected: (messages.RejectDeploy,),
        messages.StageEnded: (messages.FireDeploy,),
        messages.RoundEnded: (messages.FireDeploy,),
        deploys.ModelRolledBack: (messages.RollbackModel,),
    }
    decided = frozenset(
        {
            deploys.HardExamplesReported,
            messages.TriggerEvaluated,
            deploys.DeployDecided,
            deploys.DeployRejected,
            messages.StageEnded,
            messages.RoundEnded,
        }
    )
    follows_others = frozenset({messages.SamplesAssigned})

    def part_of(self, event: Message) -> str:
        """Returns the round or update that an event is about, such as `round 3`; empty for none."""
        number = getattr(event, "round", None)
        if isinstance(event, messages.RoundStarted | messages.RoundEnded):
            number = event.number
        if isinstance(number, int):
            return f"round {number}"
        update = getattr(event, "update", None)
        return f"update {update}" if isinstance(update, int) else ""

    def part_of_item(self, root: IncrementalJob, item_id: str) -> str:
        """Returns the round or update that a task or child is for."""
        name = item_id.removeprefix(f"{root.job_id}.").partition(".")[0]
        words = {"r": "round", "u": "update"}
        return f"{words[name[0]]} {name[1:]}" if name[:1] in words and name[1:].isdecimal() else ""

    def brings(self, event: Message) -> tuple[int, int] | None:
        """Returns the numbers of the samples that have come."""
        return (event.begin, event.end) if isinstance(event, messages.SamplesAssigned) else None

    def uses(self, event: Message) -> Sequence[tuple[int, int]]:
        """Returns the samples of a round: those that it trains with, and the versions for its evaluation."""
        return [event.train, *event.evaluation] if isinstance(event, messages.RoundStarted) else ()

    def origin_of(self, event: Message) -> StreamSubject | None:
        """Returns the model that a round began with, or has made."""
        if isinstance(event, messages.RoundStarted):
            return StreamSubject(event.base.model, f"version {event.base.version}")
        return None

    def text_of(self, event: Message) -> str:
        """Returns what has happened in short; other events are their fields."""
        match event:
            case messages.SamplesAssigned():
                divided = f"{event.train:,} train, {event.evaluation:,} eval"
                return f"{event.begin:,} to {event.end:,}: {divided}, digest {event.sha256[:12]}"
            case messages.TriggerEvaluated():
                values = event.values.items()
                seen = {name: each.reason if each.value is None else each.value for name, each in values}
                how = "fired" if event.fired else "holds" if event.result else "does not hold"
                return f"{event.stage} {how} {named_values(seen)}".rstrip()
            case messages.SampleManifestWritten():
                return f"{event.stage} {event.lines:,} lines {event.sha256[:12]} {event.url}"
            case messages.RoundStarted():
                first, end = event.train
                return f"round {event.number} from {_name(event.base)}, samples {first:,} to {end:,}"
            case messages.StageBlocked():
                return f"{event.stage} {event.reason} {event.message}".rstrip()
            case messages.ModelTrained():
                return f"{event.model} {event.version.artifact.sha256[:12]}"
            case messages.StageEnded():
                made = "" if event.model is None else f" {_name(event.model)}"
                return f"{event.stage} {event.status.value}{made} {event.reason} {event.message}".rstrip()
            case messages.RoundEnded():
                how = "deployed" if event.deployed else event.reason
                return f"round {event.number} {event.status} {how}".rstrip()
            case _:
                return _deploy_text(event)


def _deploy_text(event: Message) -> str:
    match event:
        case deploys.DeployDecided():
            return f"{'deploy' if event.deploy else 'do not deploy'}: {event.reason}"
        case deploys.ModelUpdatePublished():
            return f"{_name(event.model)} to {', '.join(event.targets) or 'no target'}"
        case deploys.ModelCopied():
            return f"{event.target} {event.sha256[:12]} {event.url}"
        case deploys.ModelUpdateConfirmed():
            return f"{event.target} {event.sha256[:12]}"
        case deploys.ModelUpdateFailed():
            return f"{event.target}, try {event.failure}: {event.message}"
        case deploys.ModelUpdateTimedOut():
            return ", ".join(event.targets)
        case deploys.ModelDeployed():
            return f"{event.model}@{event.version} {event.sha256[:12]}"
        case deploys.ModelRolledBack():
            return f"from {_name(event.before)} to {_name(event.model)} {event.reason}".rstrip()
        case deploys.ConfigRemovalEnded():
            return f"{event.url} {'removed' if event.removed else 'stays'} {event.message}".rstrip()
        case deploys.HardExamplesReported():
            return f"{event.service} {event.hard:,} of {event.inferences:,}"
        case _:
            return ""


def _name(model: RoundModel) -> str:
    return f"{model.model}@{model.version}"
