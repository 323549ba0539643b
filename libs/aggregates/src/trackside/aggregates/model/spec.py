"""The spec files of models: what is said of a model as a whole."""

from trackside.aggregates.model.messages import RegisterModel
from trackside.domain.folding.spec_kind import SpecKind


def _title(command: RegisterModel) -> str:
    return next(iter(command.tags), "model")


SPECS = (SpecKind("model", RegisterModel, RegisterModel.model_fields, _title),)
