"""The numbers of the first samples of a dataset and of its newest ones, and how far they differ. Pure."""

import csv
import json
import math
import re
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from trackside.aggregates.dataset.messages import DatasetFormat, DriftSpec
from trackside.incremental.watching.drift import DriftColumns, measure_drift

_SEPARATOR = re.compile(r"[\s,;]+")
Numbers = Mapping[str, float]
"""The numbers of a sample by the names of their columns."""


class DriftWindow:
    """The first samples of a dataset and, after these, the newest ones, as numbers."""

    def __init__(self, spec: DriftSpec, format_: DatasetFormat) -> None:
        self._spec = spec
        self._format: DatasetFormat = format_
        self.restart()

    def restart(self) -> None:
        """Forgets all samples: the dataset is read from its beginning again."""
        self._reference: list[Numbers] = []
        self._newest: deque[Numbers] = deque(maxlen=self._spec.window)

    def add(self, samples: Sequence[bytes], columns: Sequence[str]) -> None:
        """Takes the next samples of the dataset; `columns` are those of a csv."""
        lacking = self._spec.reference - len(self._reference)
        self._reference += [numbers_of_sample(self._format, each, columns) for each in samples[:lacking]]
        newest = samples[lacking:][-self._spec.window :]
        self._newest += [numbers_of_sample(self._format, each, columns) for each in newest]

    def value(self) -> float | None:
        """Returns how far the newest samples differ from the first ones; None until there are both.

        Raises ValueError if there is no such detector, it doesn't have these parameters, or there is nothing
        to compare.
        """
        if len(self._newest) < self._spec.window:
            return None
        names = self._spec.columns or sorted(
            {name for row in self._reference for name, number in row.items() if math.isfinite(number)}
        )
        if not names:
            raise ValueError("no column of the first samples has a number")
        reference, window = (_columns(rows, names) for rows in (self._reference, self._newest))
        return measure_drift(self._spec.detector, reference, window, self._spec.parameters)


def numbers_of_sample(format_: DatasetFormat, sample: bytes, columns: Sequence[str]) -> Numbers:
    """Returns the numbers of a sample; what is none is left out.

    Those of a csv have the names of its columns, those of a jsonl the names of the fields of an object.
    Others have their place, counted from 0: in a list of a jsonl, and between commas, semicolons and spaces
    in a txt.
    """
    try:
        return _numbers(_named(format_, sample.decode(), columns))
    except (ValueError, RecursionError, csv.Error):  # it is no sample any more: its digest will say so
        return {}


def _named(format_: DatasetFormat, text: str, columns: Sequence[str]) -> Iterable[tuple[str, Any]]:
    """Returns the values of a sample, which may be numbers, by the names of their columns."""
    if format_ == "csv":
        (fields,) = csv.reader([text])
        return zip(columns, fields, strict=False)
    if format_ == "jsonl":
        value = json.loads(text)
        items = value.items() if isinstance(value, dict) else _places(value)
        return [item for item in items if type(item[1]) in (int, float)]
    return _places(_SEPARATOR.split(text.strip()))


def _places(values: Any) -> list[tuple[str, Any]]:
    listed = values if isinstance(values, list) else [values]
    return [(str(place), value) for place, value in enumerate(listed)]


def _numbers(items: Iterable[tuple[str, Any]]) -> Numbers:
    found = {}
    for name, value in items:
        try:
            found[name] = float(value)
        except (ValueError, OverflowError):
            continue
    return found


def _columns(rows: Sequence[Numbers] | deque[Numbers], names: Sequence[str]) -> DriftColumns:
    return [[row.get(name, math.nan) for row in rows] for name in names]
