"""Samples as scripts of Sedna read them: from lines of text, or from tables."""

from collections.abc import Callable, Iterator
from importlib import import_module
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
    """Samples of tables, as pandas reads them: it must be installed where the task runs."""

    def parse(self, *args: Any, **kwargs: Any) -> None:
        """Reads files, mappings and lists into one table; `label` names the column of the labels.

        `usecols` are the columns to read, the others are options of `pandas.read_csv`.
        """
        pandas = import_module("pandas")
        label, columns = kwargs.pop("label", ""), kwargs.pop("usecols", None)
        columns = columns.split(",") if isinstance(columns, str) and columns else list(columns or [])
        if columns:
            kwargs["usecols"] = [*columns, *([label] if label and label not in columns else [])]
        tables = [self._table(pandas, each, kwargs) for each in args if self._is_there(each)]
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

    def _is_there(self, source: Any) -> bool:
        return isinstance(source, dict | list) or (bool(source) and Path(source).exists())
