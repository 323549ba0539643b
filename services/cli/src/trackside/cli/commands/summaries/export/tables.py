"""An export as tables, scalars and other values apart: CSV, or Parquet in row groups."""

import csv
import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from trackside.cli.commands.summaries.export.new_files import new_file
from trackside.cli.runtime.failures import CommandFailed
from trackside.projections.summaries.items import StoredValue
from trackside.projections.summaries.jobs import SummaryJobRow
from trackside.projections.summaries.points import PointColumns
from trackside.summaries.kinds.bodies import number

POINT_COLUMNS = ("job", "tag", "attempt", "step", "time_ms", "value")
VALUE_COLUMNS = (
    *("job", "tag", "kind", "attempt", "step", "index", "time_ms", "body", "sha256", "size_bytes"),
    "media_type",
)
GROUP_ROWS = 200_000
VALUE_ROWS = 1_000
"""Rows of other values that are in memory at once: each may have 32 KiB."""


class CsvFiles:
    """`scalars.csv` and `values.csv`; values that are not finite are nan, inf and -inf."""

    def __init__(self, points: Any, values: Any) -> None:
        self._points, self._values = points, values

    def begin_job(self, job: SummaryJobRow) -> None:
        """Begins nothing: a row has its job."""

    def begin_curve(self, *, single: bool) -> None:
        """Begins nothing: a row has its tag."""

    def add_points(self, job_id: str, tag: str, attempt: int, points: PointColumns) -> None:
        """Adds rows of points."""
        columns = zip(points.steps.tolist(), points.times_ms.tolist(), points.values.tolist(), strict=True)
        self._points.writerows(
            (job_id, tag, attempt, step, time_ms, number(value)) for step, time_ms, value in columns
        )

    def add_value(self, value: StoredValue) -> bool:
        """Adds a row."""
        self._values.writerow(_row(value))
        return True


@contextmanager
def csv_files(folder: Path) -> Iterator[CsvFiles]:
    """Yields the files of an export as CSV."""
    with new_file(folder / "scalars.csv") as points, new_file(folder / "values.csv") as values:
        files = [io.TextIOWrapper(each, "utf-8", newline="", write_through=True) for each in (points, values)]
        writers = [csv.writer(each, lineterminator="\n") for each in files]
        writers[0].writerow(POINT_COLUMNS)
        writers[1].writerow(VALUE_COLUMNS)
        yield CsvFiles(*writers)
        for each in files:
            each.detach()


class ParquetFiles:
    """`scalars.parquet` and `values.parquet`, written in row groups."""

    def __init__(self, points: "_Groups", values: "_Groups") -> None:
        self._points, self._values = points, values

    def begin_job(self, job: SummaryJobRow) -> None:
        """Begins nothing: a row has its job."""

    def begin_curve(self, *, single: bool) -> None:
        """Begins nothing: a row has its tag."""

    def add_points(self, job_id: str, tag: str, attempt: int, points: PointColumns) -> None:
        """Adds rows of points."""
        count = len(points.steps)
        same = ([each] * count for each in (job_id, tag, attempt))
        self._points.add([*same, points.steps, points.times_ms, points.values], count)

    def add_value(self, value: StoredValue) -> bool:
        """Adds a row."""
        self._values.add([[cell] for cell in _row(value)], 1)
        return True


class _Groups:
    """Collects rows until they are a row group."""

    def __init__(self, writer: Any, arrow: Any, size: int) -> None:
        self._writer, self._arrow, self._size = writer, arrow, size
        self._parts: list[Any] = []
        self._rows = 0

    def add(self, columns: list[Any], rows: int) -> None:
        """Adds rows; writes a group once there are enough."""
        schema = self._writer.schema
        arrays = [
            self._arrow.array(column, field.type) for column, field in zip(columns, schema, strict=True)
        ]
        self._parts.append(self._arrow.record_batch(arrays, schema=schema))
        self._rows += rows
        if self._rows >= self._size:
            self.flush()

    def flush(self) -> None:
        """Writes what is collected."""
        if self._parts:
            table = self._arrow.Table.from_batches(self._parts)
            self._writer.write_table(table, row_group_size=self._size)
        self._parts, self._rows = [], 0


@contextmanager
def parquet_files(folder: Path) -> Iterator[ParquetFiles]:
    """Yields the files of an export as Parquet. Raises CommandFailed without pyarrow."""
    try:
        import pyarrow as arrow
        from pyarrow import parquet
    except ImportError:
        raise CommandFailed(
            "Parquet needs pyarrow (pip install 'trackside[parquet]'); --format csv does not"
        ) from None
    text, integer = arrow.string(), arrow.int64()
    points = arrow.schema(
        zip(POINT_COLUMNS, (text, text, integer, integer, integer, arrow.float64()), strict=True)
    )
    kinds = (text, text, text, integer, integer, integer, integer, text, text, integer, text)
    values = arrow.schema(zip(VALUE_COLUMNS, kinds, strict=True))
    with (
        new_file(folder / "scalars.parquet") as points_file,
        new_file(folder / "values.parquet") as values_file,
        parquet.ParquetWriter(points_file, points) as points_writer,
        parquet.ParquetWriter(values_file, values) as values_writer,
    ):
        groups = _Groups(points_writer, arrow, GROUP_ROWS), _Groups(values_writer, arrow, VALUE_ROWS)
        yield ParquetFiles(*groups)
        for each in groups:
            each.flush()


def _row(value: StoredValue) -> tuple[Any, ...]:
    body = json.dumps(value.body, ensure_ascii=False)
    head = (value.job_id, value.tag, value.kind, value.attempt, value.step, value.index, value.time_ms, body)
    return (*head, value.sha256, value.size_bytes, value.media_type)
