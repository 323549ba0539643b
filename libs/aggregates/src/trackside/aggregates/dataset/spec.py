"""The spec files of datasets: where one is, and how it is read."""

from trackside.aggregates.dataset.messages import RegisterDataset
from trackside.domain.folding.spec_kind import SpecKind


def _title(command: RegisterDataset) -> str:
    file = command.url.rpartition("/")[2]
    return file.partition(".")[0] or "dataset"


SPECS = (SpecKind("dataset", RegisterDataset, RegisterDataset.model_fields, _title),)
