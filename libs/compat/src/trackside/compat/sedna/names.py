"""The modules that scripts of Sedna import, with what they have here."""

import logging
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from trackside.compat.sedna.datasources import BaseDataSource, CSVDataParse, TxtDataParse
from trackside.compat.sedna.environment import BaseConfig, Context
from trackside.compat.sedna.learning import IncrementalLearning
from trackside.compat.sedna.registered import ClassFactory, ClassType


class FileOps:
    """The functions for files that scripts call; all of them are for files of this host."""

    @staticmethod
    def clean_folder(target: list[str], clean: bool = True) -> list[str]:
        """Makes folders; removes the files in them with `clean`."""
        for folder in target:
            Path(folder).mkdir(parents=True, exist_ok=True)
            for path in Path(folder).iterdir() if clean else ():
                if path.is_file():
                    path.unlink()
        return target

    @staticmethod
    def exists(folder: str) -> bool:
        """Returns whether a file or folder is there."""
        return Path(folder).exists()

    @staticmethod
    def join_path(*paths: str) -> str:
        """Returns a path of several parts."""
        return str(Path(*paths))

    @staticmethod
    def is_local(src: str) -> bool:
        """Returns whether a path is that of a file or folder here."""
        return Path(os.fspath(src)).exists()


MODULES: dict[str, dict[str, Any]] = {
    "sedna.common.class_factory": {"ClassFactory": ClassFactory, "ClassType": ClassType},
    "sedna.common.config": {"BaseConfig": BaseConfig, "Context": Context},
    "sedna.common.file_ops": {"FileOps": FileOps},
    "sedna.common.log": {"LOGGER": logging.getLogger("sedna")},
    "sedna.core.incremental_learning": {"IncrementalLearning": IncrementalLearning},
    "sedna.core.incremental_learning.incremental_learning": {"IncrementalLearning": IncrementalLearning},
    "sedna.datasources": {
        "BaseDataSource": BaseDataSource,
        "CSVDataParse": CSVDataParse,
        "TxtDataParse": TxtDataParse,
    },
}


def install() -> None:
    """Makes the modules of Sedna those of this process, whether it is installed or not."""
    for name, members in MODULES.items():
        parts = name.split(".")
        for end in range(1, len(parts) + 1):
            module = sys.modules.get(".".join(parts[:end]))
            if module is None or getattr(module, "__path__", None) != []:
                module = ModuleType(".".join(parts[:end]), "Names of Sedna, by trackside.compat.sedna.")
                module.__path__ = []  # it is a package, and nothing else of it is found
                sys.modules[module.__name__] = module
        vars(sys.modules[name]).update(members)
