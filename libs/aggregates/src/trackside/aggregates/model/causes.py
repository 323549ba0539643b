"""The events of a model as short lines, and the tasks that its versions come from."""

from trackside.aggregates.model.messages import (
    ModelRegistered,
    ModelStageSet,
    ModelTagged,
    ModelVersionAdded,
    source_of,
)
from trackside.aggregates.model.state import Model
from trackside.contracts.message import Message
from trackside.domain.causality import Causality, StreamSubject


class ModelCausality(Causality[Model]):
    """Each event of a model rests on its command; a version of a task rests on what that has saved."""

    def part_of(self, event: Message) -> str:
        """Returns the number of the version that an event is about; empty for none."""
        return str(event.version or "") if isinstance(event, _OF_VERSIONS) else ""

    def origin_of(self, event: Message) -> StreamSubject | None:
        """Returns the attempt that has saved the artifact of a version."""
        if not isinstance(event, ModelVersionAdded) or event.model.task is None:
            return None
        task = event.model.task
        return StreamSubject(task.stream, f"{task.task}/{task.attempt}")

    def text_of(self, event: Message) -> str:
        """Returns which version it is about, with its source; other events are their fields."""
        match event:
            case ModelRegistered():
                return event.model.description
            case ModelVersionAdded():
                artifact = event.model.artifact
                named = artifact.source if source_of(artifact.source) is not None else artifact.uri
                return f"version {event.version} {event.model.format} {named}"
            case ModelStageSet():
                taken = "" if event.replaces is None else f", which version {event.replaces} had"
                return f"version {event.version} {event.stage}{taken}"
            case _:
                return ""


_OF_VERSIONS = (ModelVersionAdded, ModelTagged, ModelStageSet)
