"""The causes of a run's events in a log that names none, and these events as short lines."""

from collections.abc import Mapping, Sequence

from trackside.aggregates.run.messages import (
    AbortPipelineRun,
    AbortStep,
    ApproveGate,
    ArchiveRun,
    PausePipelineRun,
    RejectGate,
    RestartFromStep,
    ResumePipelineRun,
    RetryFailedSteps,
    RunAbortRequested,
    RunArchived,
    RunEnded,
    RunPaused,
    RunResumed,
    RunRevived,
    RunStarted,
    RunUpdated,
    SkipStep,
    StartPipelineRun,
    UpdatePipelineRun,
)
from trackside.aggregates.run.state import Run
from trackside.aggregates.run.step_messages import (
    GateDecided,
    StepAbortRequested,
    StepCacheHit,
    StepCacheMissed,
    StepEnded,
    StepExpanded,
    StepReady,
    StepResolved,
    StepSkipped,
)
from trackside.contracts.envelope.message import Command, Message
from trackside.domain.display.short_text import named_values
from trackside.domain.pipelines.compiling import needed
from trackside.domain.proposal import parse_cause
from trackside.domain.streams.causality import Causality
from trackside.domain.streams.stream import Stream


class RunCausality(Causality[Run]):
    """All that a run does rests on what changed it last; the values of a step on what they come from."""

    commanded: Mapping[type[Message], tuple[type[Command], ...]] = {
        RunStarted: (StartPipelineRun,),
        RunAbortRequested: (AbortPipelineRun,),
        RunArchived: (ArchiveRun,),
        RunPaused: (PausePipelineRun,),
        RunResumed: (ResumePipelineRun,),
        RunRevived: (
            RestartFromStep,
            RetryFailedSteps,
        ),
        RunUpdated: (UpdatePipelineRun,),
        StepAbortRequested: (AbortStep,),
        StepSkipped: (SkipStep,),
        GateDecided: (
            ApproveGate,
            RejectGate,
        ),
    }
    decided = frozenset({RunArchived, StepSkipped, GateDecided})

    def also_follows(self, stream: Stream[Run], event: Message) -> Sequence[int]:
        """Returns the ends of the steps that a step needs, what its values come from, why a run failed."""
        run = stream.root
        match event:
            case StepReady() if event.step in run.steps:
                return _last_of(run, needed(run.spec_of(event.step)))
            case StepSkipped() if event.cause:
                return _last_of(run, [event.cause])
            case StepResolved():
                places = [parse_cause(source) for source in event.sources.values()]
                return sorted({place[1] for place in places if place and place[0] == stream.stream_id})
            case RunEnded():
                return _last_of(run, event.causes)
            case _:
                return ()

    def last_control(self, root: Run) -> int:
        """Returns the offset of the event that stopped, paused or resumed it; -1 for none."""
        return root.control_at

    def part_of(self, event: Message) -> str:
        """Returns the step that one of its events is about; empty for none."""
        name = getattr(event, "step", "")
        return f"step {name}" if name else ""

    def part_of_item(self, root: Run, item_id: str) -> str:
        """Returns the step that a task or child is an item of; empty for none."""
        found = root.item_of(item_id)
        return "" if found is None else f"step {found[0]}"

    def text_of(self, event: Message) -> str:
        """Returns what starts, begins and ends; other events are their fields."""
        match event:
            case RunStarted(pipeline=pipeline, copy_of=copied):
                taken = f", {len(event.taken)} taken over" if event.taken else ""
                of = "" if copied is None else f", {copied.kind} of {copied.stream}@{copied.offset}"
                return f"{pipeline.name}, {len(pipeline.steps)} steps{taken}{of}"
            case StepReady():
                return f"step {event.step}"
            case StepResolved():
                return f"step {event.step}: {named_values(event.values)}"
            case StepExpanded():
                return f"step {event.step}: {len(event.items)} items"
            case StepSkipped():
                why = event.expression or event.cause or event.reason
                return f"step {event.step} by {event.by}{f': {why}' if why else ''}"
            case StepEnded():
                error = "" if event.error is None else f": {event.error.message}"
                ends = f": {named_values(event.ends)}" if event.ends else ""
                return f"step {event.step} {event.status.value}{ends}{error}"
            case StepCacheHit():
                return f"step {event.step} from {event.found.stream}/{event.found.step}"
            case StepCacheMissed():
                nearest = event.nearest
                beside = "" if nearest is None else f", nearest {nearest.stream}/{nearest.step}"
                differs = f" differs in {', '.join(event.differs)}" if event.differs else ""
                return f"step {event.step}{f' {event.reason}' if event.reason else ''}{beside}{differs}"
            case GateDecided():
                return f"gate {event.step} {event.decision}{f' by {event.actor}' if event.actor else ''}"
            case RunRevived():
                return f"revival {event.revival}: {', '.join(event.reset)}"
            case RunEnded():
                causes = ", ".join(event.causes)
                return f"{event.status.value}{f': {causes}' if causes else ''}"
            case _:
                return ""


def _last_of(run: Run, steps: Sequence[str]) -> list[int]:
    """Returns the offsets of what changed some steps last, which of those that are over is their end."""
    return sorted(
        {run.steps[name].changed_at for name in steps if name in run.steps and run.steps[name].over}
    )
