"""The events of a model as short lines, and the tasks that its versions come from."""

from collections.abc import Mapping

from trackside.aggregates.model.messages import (
    AddModelVersion,
    ArchiveModel,
    ModelArchived,
    ModelRegistered,
    ModelRestored,
    ModelStageSet,
    ModelTagged,
    ModelVersionAdded,
    RegisterModel,
    RestoreModel,
    SetModelStage,
    TagModel,
    source_of,
)
from trackside.aggregates.model.state import Model
from trackside.contracts.envelope.message import Command, Message
from trackside.domain.streams.causality import Causality, StreamSubject


class ModelCausality(Causality[Model]):
    """Each event of a model rests on its command; a version of a task rests on what that has saved."""

    commanded: Mapping[type[Message], tuple[type[Command], ...]] = {
        ModelRegistered: (RegisterModel,),
        ModelVersionAdded: (AddModelVersion,),
        ModelTagged: (TagModel,),
        ModelStageSet: (SetModelStage,),
        ModelArchived: (ArchiveModel,),
        ModelRestored: (RestoreModel,),
    }

    def part_of(self, event: Message) -> str:
        """Returns the version that an event is about, such as `version 3`; empty for none."""
        if not isinstance(event, ModelVersionAdded | ModelTagged | ModelStageSet):
            return ""
        return "" if event.version is None else f"version {event.version}"

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
            case ModelTagged():
                return _tags(event)
            case ModelStageSet():
                taken = "" if event.replaces is None else f", which version {event.replaces} had"
                return f"version {event.version} {event.stage}{taken}"
            case _:
                return ""


def _tags(event: ModelTagged) -> str:
    """Returns what changed of the tags and labels: `version 1 +checked -small license=mit`."""
    words = [] if event.version is None else [f"version {event.version}"]
    words += [f"+{name}" for name in event.added] + [f"-{name}" for name in event.removed]
    words += [f"-{name}" if text is None else f"{name}={text}" for name, text in event.labels.items()]
    return " ".join(words)
