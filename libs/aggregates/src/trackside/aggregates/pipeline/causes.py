"""The events of a pipeline as short lines, and what they are about."""

from collections.abc import Mapping

from trackside.aggregates.pipeline.messages import (
    CancelPipelineRuns,
    DefinePipeline,
    PipelineDefined,
    PipelineRetired,
    RetirePipeline,
    RunCancelled,
    RunNumbered,
    RunPipeline,
)
from trackside.aggregates.pipeline.schedule.schedule_messages import (
    CreateSchedule,
    DeleteSchedule,
    FireSchedule,
    PauseSchedule,
    ResumeSchedule,
    ScheduleCreated,
    ScheduleDeleted,
    ScheduleEvent,
    ScheduleFired,
    SchedulePaused,
    ScheduleResumed,
    ScheduleSpec,
    ScheduleUpdated,
    UpdateSchedule,
)
from trackside.aggregates.pipeline.state import DefinedPipeline
from trackside.contracts.envelope.message import Command, Message
from trackside.contracts.streams.children import ChildStopRequested
from trackside.domain.display.short_text import named_values
from trackside.domain.streams.causality import Causality


class PipelineCausality(Causality[DefinedPipeline]):
    """Each event of a pipeline rests on its command, the start of a run on what made room for it."""

    commanded: Mapping[type[Message], tuple[type[Command], ...]] = {
        PipelineDefined: (DefinePipeline,),
        PipelineRetired: (RetirePipeline,),
        RunNumbered: (
            RunPipeline,
            FireSchedule,
        ),
        RunCancelled: (CancelPipelineRuns,),
        ScheduleCreated: (CreateSchedule,),
        ScheduleUpdated: (UpdateSchedule,),
        SchedulePaused: (PauseSchedule,),
        ScheduleResumed: (ResumeSchedule,),
        ScheduleDeleted: (DeleteSchedule,),
        ScheduleFired: (FireSchedule,),
        ChildStopRequested: (CancelPipelineRuns,),
    }
    decided = frozenset({RunNumbered, ScheduleFired, ChildStopRequested})
    follows_others = frozenset({RunNumbered, ScheduleFired})

    def part_of(self, event: Message) -> str:
        """Returns the version or run that an event is about, such as `version 3`; empty for none."""
        match event:
            case PipelineDefined():
                return f"version {event.version}"
            case RunNumbered() | RunCancelled():
                return f"run {event.number}"
            case _ if isinstance(event, ScheduleEvent):
                return f"schedule {event.name}"
            case _:
                return ""

    def text_of(self, event: Message) -> str:
        """Returns which version or run it is about, with its content in short; other events are fields."""
        match event:
            case PipelineDefined():
                return f"version {event.version} {event.sha256[:12]}, {len(event.pipeline.steps)} steps"
            case RunNumbered():
                values = f": {named_values(event.parameters)}" if event.parameters else ""
                return f"run {event.run} of version {event.version}{values}"
            case RunCancelled():
                return f"run {event.number} {event.reason}".rstrip()
            case ScheduleCreated() | ScheduleUpdated():
                return f"{event.name}: {_when(event.schedule)}"
            case ScheduleFired():
                return f"{event.name} {event.run or event.message}"
            case _:
                return ""


def _when(schedule: ScheduleSpec) -> str:
    on = schedule.on
    return f"{schedule.cron} {schedule.timezone}" if on is None else named_values(on.model_dump())
