"""Samples as scripts of Sedna read them: from lines of text, or from tables."""

import csv
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from trackside.compat.sedna.registered import ClassFactory, ClassType


class BaseDataSource:
    """Samples: `x` are their features, `y` their labels. `func` reads each sample, or names what does."""

    def __init__(self, data_type: str = "train", func: Callable[[Any], Any] | str | None = None) -> None:
        self.data_type = data_type
        self.process_func = ClassFactory.get_cls(ClassType.CALLBACK, func) if func else None
        self.x: Any = None
        self.y: Any = None
        self.meta_attr: Any = None

    def num_examples(self) -> int:
        """Returns how many samples there are."""
        return 0 if self.x is None else len(self.x)

    def __len__(self) -> int:
        """Returns how many samples there are."""
        return self.num_examples()

    @property
    def is_test_data(self) -> bool:
        """Whether the samples are for a test, and have no labels."""
        return self.data_type == "test"

    def parse(self, *args: Any, **kwargs: Any) -> None:
        """Reads samples from files."""
        raise NotImplementedError(f"{type(self).__name__} has no parse(self, *files)")


class TxtDataParse(BaseDataSource):
    """Samples of text files, one a line: a feature and a label, with spaces between them."""

    def parse(self, *args: Any, **kwargs: Any) -> None:
        """Reads files; those that are not there are left out, as are empty lines.

        With `use_raw` a sample is all that `func` has returned of its line; otherwise its first item is the
        feature, and the second one its label, 0 without one.
        """
        found = [sample for file in args for sample in self._samples(file) if len(sample)]
        if kwargs.get("use_raw"):
            self.x, self.y = np.array(found), np.array([])
            return
        self.x = np.array([sample[0] for sample in found])
        labels = [] if self.is_test_data else [sample[1] if len(sample) > 1 else 0 for sample in found]
        self.y = np.array(labels)

    def _samples(self, file: Any) -> Iterator[Any]:
        if not file or not Path(file).exists():
            return
        read = self.process_func or str.split
        for line in Path(file).read_text("utf-8").splitlines():
            yield read(line.strip())


class CSVDataParse(BaseDataSource):
    """Samples of tables: those of pandas if it is installed where the task runs, as in Sedna, else arrays."""

    def parse(self, *args: Any, **kwargs: Any) -> None:
        """Reads files, mappings and lists into one table; `label` names the column of the labels.

        `usecols` are the columns to read, the others are options of `pandas.read_csv`. Without pandas `x` is
        an array with a row a sample and `y` one of their labels; ImportError for options, and for a `func`,
        which takes a table of pandas.
        """
        label, columns = kwargs.pop("label", ""), kwargs.pop("usecols", None)
        columns = columns.split(",") if isinstance(columns, str) and columns else list(columns or [])
        if columns and label and label not in columns:
            columns.append(label)
        sources = [each for each in args if self._is_there(each)]
        if kwargs or self.process_func or find_spec("pandas") is not None:
            self._parse_with_pandas(sources, label, {**kwargs, "usecols": columns} if columns else kwargs)
        else:
            self._parse_into_arrays(sources, label, columns)

    def _parse_with_pandas(self, sources: list[Any], label: str, options: dict[str, Any]) -> None:
        pandas = import_module("pandas")
        tables = [self._table(pandas, each, options) for each in sources]
        labelled = [table for table in tables if not label or label in table.columns]
        if not labelled:
            return
        self.y = pandas.concat([table[label] for table in labelled]) if label else None
        self.x = pandas.concat([table.drop(columns=label) if label else table for table in labelled])

    def _table(self, pandas: Any, source: Any, options: dict[str, Any]) -> Any:
        if isinstance(source, dict | list):
            table = pandas.DataFrame([source])
        else:
            table = pandas.read_csv(source, **options)
        return self.process_func(table) if self.process_func else table

    def _parse_into_arrays(self, sources: list[Any], label: str, columns: list[str]) -> None:
        rows = [row for each in sources for row in _rows(each, columns)]
        labelled = [row for row in rows if not label or label in row]
        if not labelled:
            return
        names = dict.fromkeys(name for row in labelled for name in row if name != label)
        features = [_column([row.get(name, "") for row in labelled]) for name in names]
        mixed = any(each.dtype == object for each in features)
        self.y = _column([row[label] for row in labelled]) if label else None
        self.x = np.array(features, dtype=object if mixed else None).reshape(len(features), -1).T

    def _is_there(self, source: Any) -> bool:
        return isinstance(source, dict | list) or (bool(source) and Path(source).exists())


def _rows(source: Any, columns: list[str]) -> list[dict[Any, Any]]:
    """Returns the rows of a file, or the one of a mapping or list; of a file only `columns`, if there are.

    Raises ValueError for a file without one of them, and for a line with more cells than the first.
    """
    if isinstance(source, dict | list):
        return [dict(source if isinstance(source, dict) else enumerate(source))]
    with Path(source).open(encoding="utf-8-sig", newline="") as file:
        reader = csv.DictReader(file, restval="")
        if missing := [name for name in columns if name not in (reader.fieldnames or ())]:
            raise ValueError(f"{source} has no column {missing[0]!r}; it has {reader.fieldnames}")
        rows = list(reader)
    if long := [number for number, row in enumerate(rows, 1) if None in row]:
        raise ValueError(f"{source}: row {long[0]} has more cells than the first line")
    return [{name: row[name] for name in row if name in columns or not columns} for row in rows]


def _column(values: list[Any]) -> Any:
    """Returns the values of a column: numbers if all are, NaN for an empty cell; else as they are."""
    numbers = [_number(value) for value in values]
    if all(isinstance(each, int | float) for each in numbers):
        return np.array(numbers)
    return np.array(values, dtype=object)


def _number(cell: Any) -> Any:
    """Returns the number that a cell of a file is, NaN if it is empty; else the cell."""
    if not isinstance(cell, str):
        return cell
    for kind in (int, float):
        try:
            return kind(cell or "nan")
        except ValueError:
            continue
    return cell
