"""Which commands users may publish for a model and its versions."""

from trackside.aggregates.model.messages import ArchiveModel, RestoreModel, SetModelStage, TagModel
from trackside.console.commands.forms import Form
from trackside.console.commands.schema_inputs import inputs_of
from trackside.domain.rows.table import ViewRow


def model_actions(model_id: str, row: ViewRow) -> list[Form]:
    """Returns the commands that make sense for a model."""
    if row["ended_at"] is not None:
        return [Form("Restore", model_id, RestoreModel)]
    reason = inputs_of(ArchiveModel, ("reason",))
    confirm = "Archive this model? It is not changed any more; its versions remain."
    return [
        Form("Set stage", model_id, SetModelStage, inputs_of(SetModelStage, ("version", "stage"))),
        Form("Change tags", model_id, TagModel, inputs_of(TagModel, ("add", "remove"))),
        Form("Archive", model_id, ArchiveModel, reason, confirm=confirm, is_danger=True),
    ]


def version_actions(model_id: str, model: ViewRow, version: ViewRow) -> list[Form]:
    """Returns the commands that make sense for a version of a model."""
    if model["ended_at"] is not None:
        return []
    fixed = {"version": version["version"]}
    stages = inputs_of(SetModelStage, ("stage",), version)
    return [
        Form("Set stage", model_id, SetModelStage, stages, fixed),
        Form("Change tags", model_id, TagModel, inputs_of(TagModel, ("add", "remove")), fixed),
    ]
