"""The model as an aggregate type: its events and commands, who folds and who decides them."""

from collections.abc import Iterable, Mapping

from trackside.aggregates.model import decide, evolve
from trackside.aggregates.model.causes import ModelCausality
from trackside.aggregates.model.invariants import ModelInvariants
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
    RegisterModel,
    RestoreModel,
    SetModelStage,
    TagModel,
)
from trackside.aggregates.model.rows import ModelRows, ModelVersionRows
from trackside.aggregates.model.spec import SPECS
from trackside.aggregates.model.state import Model
from trackside.aggregates.model.view import VIEW
from trackside.contracts.envelope.message import Command, Event, Record
from trackside.contracts.tasks.tasks import TaskSubmitted
from trackside.domain.folding.aggregate import AggregateType, Handler
from trackside.domain.folding.lookup import Lookup
from trackside.domain.folding.signals import Signal
from trackside.domain.outcome import Outcome
from trackside.domain.proposal import Proposal
from trackside.domain.streams.stream import Stream
from trackside.domain.tasks.task import Task


class ModelType(AggregateType[Model]):
    """Models."""

    kind = "model"
    state = Model
    begins_with = ModelRegistered
    events: tuple[type[Event], ...] = (
        ModelRegistered,
        ModelVersionAdded,
        ModelTagged,
        ModelStageSet,
        ModelArchived,
        ModelRestored,
    )
    commands: Mapping[type[Command], Handler] = {
        RegisterModel: decide.register,
        AddModelVersion: decide.add_version,
        TagModel: decide.tag,
        SetModelStage: decide.set_stage,
        ArchiveModel: decide.archive,
        RestoreModel: decide.restore,
    }
    causes = ModelCausality()
    specs = SPECS
    invariants = ModelInvariants
    rows = (ModelRows(), ModelVersionRows())
    view = VIEW

    def begin(self, stream_id: str, event: ModelRegistered, record: Record) -> Model:
        """Makes the model of a ModelRegistered event."""
        return evolve.begin(stream_id, event, record)

    def evolve(self, root: Model, tasks: dict[str, Task], record: Record) -> Outcome:
        """Folds an event of the model."""
        return evolve.evolve(root, record)

    def admits(self, root: Model, event: TaskSubmitted) -> bool:
        """Returns False: a model has no tasks."""
        return False

    def signals(self, root: Model) -> Iterable[Signal]:
        """Yields its newest version, those with a stage of their own, and the newest with each tag."""
        named = {"version": len(root.versions)}
        named |= {f"tag.{tag}": version.number for version in root.versions for tag in version.tags}
        named |= {f"stage.{stage}": root.holder(stage) or 0 for stage in sorted(EXCLUSIVE)}
        for name, number in named.items():
            version = root.version(number)
            if version is not None:
                spec = version.spec
                values = {"model": root.model_id, "version": number, "uri": spec.artifact.uri}
                values |= {"sha256": spec.artifact.sha256, "format": spec.format}
                yield Signal(name, str(number), values, "" if spec.task is None else spec.task.stream)

    def lacking(self, stream: Stream[Model], lookup: Lookup) -> Iterable[Proposal]:
        """Yields nothing: a model changes by commands only."""
        return ()


MODEL = ModelType()
