"""Sedna: its documents are converted, its worker scripts run as tasks; see docs/sedna.md.

Its names are imported on first use: what converts documents needs none of the libraries of a task.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trackside.compat.sedna.datasources import BaseDataSource as BaseDataSource
    from trackside.compat.sedna.datasources import CSVDataParse as CSVDataParse
    from trackside.compat.sedna.datasources import TxtDataParse as TxtDataParse
    from trackside.compat.sedna.environment import BaseConfig as BaseConfig
    from trackside.compat.sedna.environment import Context as Context
    from trackside.compat.sedna.learning import IncrementalLearning as IncrementalLearning
    from trackside.compat.sedna.registered import ClassFactory as ClassFactory
    from trackside.compat.sedna.registered import ClassType as ClassType


def __getattr__(name: str) -> object:
    modules = {
        **dict.fromkeys(("BaseDataSource", "CSVDataParse", "TxtDataParse"), "datasources"),
        **dict.fromkeys(("BaseConfig", "Context"), "environment"),
        **dict.fromkeys(("ClassFactory", "ClassType"), "registered"),
        "IncrementalLearning": "learning",
    }
    if name not in modules:
        raise AttributeError(f"trackside.compat.sedna has no {name!r}; it has {', '.join(modules)}")
    return getattr(import_module(f"trackside.compat.sedna.{modules[name]}"), name)
