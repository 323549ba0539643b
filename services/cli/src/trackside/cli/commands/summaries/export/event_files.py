"""An export as event files that TensorBoard reads: a folder with one file for each job."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO

from trackside.artifacts.store import Store
from trackside.cli.commands.summaries.export.new_files import new_file
from trackside.cli.commands.summaries.values import safe_name
from trackside.projections.summaries.items import StoredValue
from trackside.projections.summaries.jobs import SummaryJobRow
from trackside.projections.summaries.points import PointColumns
from trackside.projections.summaries.values import unpack_value
from trackside.summaries.event_files.tensors import BadTensor
from trackside.summaries.event_files.values import HParams
from trackside.summaries.event_files.writing import (
    first_record,
    graph_record,
    hparams_records,
    record,
    tensor_scalar,
)

_PLAIN = frozenset({"image", "histogram", "text", "tensor"})


class ExportedEventFiles:
    """One event file a job. A curve that needs 64 bits is written as tensors, the others as simple values."""

    def __init__(self, folder: Path, files: ExitStack, open_store: Callable[[], Store]) -> None:
        self._folder, self._files, self._open_store = folder, files, open_store
        self._store: Store | None = None
        self._file: BinaryIO | None = None
        self._single = True
        self._hparams: tuple[StoredValue, HParams] | None = None

    def begin_job(self, job: SummaryJobRow) -> None:
        """Begins the file of a job."""
        self.end_job()
        folder = self._folder / safe_name(job.job_id)
        folder.mkdir()
        begun_ms = job.first_ms or 0
        name = f"events.out.tfevents.{max(0, begun_ms // 1_000)}.trackside"
        self._file = self._files.enter_context(new_file(folder / name))
        self._file.write(first_record(begun_ms))

    def end_job(self) -> None:
        """Ends the file of a job: with its hyper-parameters, for their parts are records of their own."""
        if self._hparams is not None and self._file is not None:
            first, found = self._hparams
            self._file.write(hparams_records(first.step, first.time_ms, found))
        self._hparams = None
        self._files.close()

    def begin_curve(self, *, single: bool) -> None:
        """Chooses the form of the next curve."""
        self._single = single

    def add_points(self, job_id: str, tag: str, attempt: int, points: PointColumns) -> None:
        """Adds a record for each point."""
        assert self._file is not None
        columns = zip(points.steps.tolist(), points.times_ms.tolist(), points.values.tolist(), strict=True)
        for step, time_ms, value in columns:
            if self._single:
                self._file.write(record(tag, step, time_ms, value))
            else:
                self._file.write(tensor_scalar(tag, step, time_ms, value, double=True))

    def add_value(self, value: StoredValue) -> bool:
        """Adds a value where event files have a form for its kind."""
        assert self._file is not None
        if value.kind not in _PLAIN and value.kind not in ("graph", "hparams"):
            return False
        if self._store is None:
            self._store = self._open_store()
        found = unpack_value(self._store, value)
        if value.kind == "graph":
            octets = graph_record(value.step, value.time_ms, found)
        elif value.kind == "hparams":
            before = (value, HParams()) if self._hparams is None else self._hparams
            self._hparams = before[0], _joined(before[1], found)
            return True
        else:
            try:
                octets = record(value.tag, value.step, value.time_ms, found)
            except BadTensor:
                return False
        self._file.write(octets)
        return True


@contextmanager
def event_files(folder: Path, open_store: Callable[[], Store]) -> Iterator[ExportedEventFiles]:
    """Yields the event files of an export."""
    with ExitStack() as files:
        written = ExportedEventFiles(folder, files, open_store)
        yield written
        written.end_job()


def _joined(first: HParams, second: HParams) -> HParams:
    """Returns the parts of the hyper-parameters of a run as one; what is said later counts."""
    return HParams(
        {**first.values, **second.values},
        list(dict.fromkeys([*first.metrics, *second.metrics])),
        second.group or first.group,
        second.status or first.status,
    )
