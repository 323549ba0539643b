"""The causes of a batch's events in a log that names none, and these events as short lines."""

from collections.abc import Mapping

from trackside.aggregates.batch.messages import (
    BatchStarted,
    BatchStopRequested,
    GroupEnded,
    StopTasks,
    SubmitTasks,
)
from trackside.aggregates.batch.state import Batch
from trackside.contracts.envelope.message import Command, Message
from trackside.contracts.streams.children import ChildStopRequested
from trackside.contracts.tasks.tasks import TaskStopRequested
from trackside.domain.display.short_text import named_values
from trackside.domain.streams.causality import Causality


class BatchCausality(Causality[Batch]):
    """All that a batch does rests on what changed it last."""

    commanded: Mapping[type[Message], tuple[type[Command], ...]] = {
        BatchStarted: (SubmitTasks,),
        BatchStopRequested: (StopTasks,),
        TaskStopRequested: (StopTasks,),
        ChildStopRequested: (StopTasks,),
    }
    decided = frozenset({TaskStopRequested, ChildStopRequested})

    def last_control(self, root: Batch) -> int:
        """Returns the offset of the event that stopped it; -1 for none."""
        return root.stopped_at

    def text_of(self, event: Message) -> str:
        """Returns what starts, or how the tasks of a group ended; other events are their fields."""
        match event:
            case BatchStarted(batch=spec):
                tasks = sum(len(group.tasks) for group in spec.groups)
                children = sum(len(group.children) for group in spec.groups)
                more = f", {children} children" if children else ""
                return f"{len(spec.groups)} groups, {tasks} tasks{more}"
            case GroupEnded():
                return f"group {event.group + 1}: {named_values(event.ends)}"
            case _:
                return ""
