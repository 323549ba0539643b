"""The settings of an installation in its backup: what `trackside up` was told, and its catalogue; no secret.

A variable or a file with a password, a key or a token is left out and named, to be brought separately.
"""

import json
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import yaml

from trackside.cli.commands import stack_process
from trackside.cli.runtime import examples
from trackside.embedded.files import write_whole
from trackside.embedded.folder import read_plan
from trackside.embedded.stack import Stack
from trackside.eventlog.settings.variables import SETTINGS
from trackside.replay.history.errors import DamagedFileError

FOLDER, FILE = "settings", "settings.json"
CATALOGUE_VARIABLE, SLOTS_VARIABLE = "TRACKSIDE_WORKER_CATALOGUE", "TRACKSIDE_WORKER_CPU_SLOTS"
ENCRYPT_VARIABLE = "TRACKSIDE_DISPATCHER_ENCRYPT_STREAMS"
STREAM_KEYS = "the keys of encrypted streams, schema trackside_keys in Postgres"
_SECRET = re.compile("PASSWORD|TOKEN|SECRET|KEY|CREDENTIAL|DSN")
_PLACES = frozenset(
    f"TRACKSIDE_{name}" for name in ("KAFKA_BOOTSTRAP", "STORE", "STORE_COPIES", "PAST_FOLDER")
) | {CATALOGUE_VARIABLE, SLOTS_VARIABLE}
"""Variables that another installation has other values of, and those that are kept under another name."""


@dataclass(frozen=True, slots=True)
class InstallationSettings:
    """What an installation is started with; `separate` names what a backup does not have.

    `catalogue` is the text of the worker's catalogue, empty if it is that of an example; `catalogue_path` is
    where it is. `slots` is 0 if it is not known.
    """

    catalogue: str = ""
    catalogue_path: str = ""
    slots: int = 0
    variables: Mapping[str, str] | None = None
    separate: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Returns what there is, as a part of a sentence."""
        slots = [f"{self.slots} slots"] if self.slots else []
        parts = [examples.CATALOGUE] * bool(self.catalogue) + slots + sorted(self.variables or {})
        return ", ".join(parts) or "none"


def settings_here() -> InstallationSettings:
    """Returns the settings of the stack that runs here; without one, what the environment says."""
    found = stack_process.running()
    environment = dict(os.environ) if found is None else _environment_of(found)
    told = {} if found is None else _worker_variables(found)
    path = Path(told.get(CATALOGUE_VARIABLE) or environment.get(CATALOGUE_VARIABLE) or examples.CATALOGUE)
    own = path.is_file() and not path.is_relative_to(examples.folder(examples.DIGITS).parent)
    text = path.read_text("utf-8") if own else ""
    mine = {name: value for name, value in environment.items() if name in SETTINGS - _PLACES}
    separate = [f"the code of tasks in {folder}" for folder in _code_folders(path, text)]
    if found is not None and found.status.secure:
        separate.append(f"{found.status.secure}, with passwords and signing keys: before the restore")
    separate += sorted(name for name in mine if _SECRET.search(name))
    if environment.get(ENCRYPT_VARIABLE):
        separate.append(STREAM_KEYS)
    slots = told.get(SLOTS_VARIABLE) or environment.get(SLOTS_VARIABLE) or "0"
    return InstallationSettings(
        text,
        str(path.resolve()) if own else "",
        int(slots) if slots.isdigit() else 0,
        {name: value for name, value in sorted(mine.items()) if not _SECRET.search(name)},
        tuple(separate),
    )


def write_settings(backup: Path, settings: InstallationSettings) -> None:
    """Replaces the settings in the folder of a backup."""
    folder = backup / FOLDER
    folder.mkdir(exist_ok=True)
    body = asdict(settings)
    text = body.pop("catalogue")
    if text:
        write_whole(folder / examples.CATALOGUE, text)
    else:
        (folder / examples.CATALOGUE).unlink(missing_ok=True)
    write_whole(folder / FILE, json.dumps(body, indent=1) + "\n")


def read_settings_of(backup: Path) -> InstallationSettings:
    """Reads the settings in a backup; those of a backup of an earlier release are empty.

    Raises DamagedFileError.
    """
    folder = backup / FOLDER
    try:
        body: dict[str, Any] = json.loads((folder / FILE).read_text("utf-8"))
        catalogue = folder / examples.CATALOGUE
        text = catalogue.read_text("utf-8") if catalogue.is_file() else ""
        return InstallationSettings(text, **body | {"separate": tuple(body["separate"])})
    except FileNotFoundError:
        return InstallationSettings()
    except (ValueError, TypeError, KeyError, AttributeError):
        raise DamagedFileError(
            f"{FOLDER}/{FILE} can't be read; use another copy of the backup, or remove the file to restore "
            "without settings"
        ) from None


def put_catalogue(settings: InstallationSettings) -> bool:
    """Writes the catalogue into the current folder; returns whether there was none."""
    path = Path(examples.CATALOGUE)
    if not settings.catalogue or path.exists():
        return False
    write_whole(path, settings.catalogue)
    return True


def _environment_of(found: Stack) -> dict[str, str]:
    """Returns the environment that the stack was started in, as its supervisor has it."""
    try:
        packed = Path(f"/proc/{found.status.supervisor_pid}/environ").read_bytes()
    except OSError:
        return dict(os.environ)
    lines = packed.decode("utf-8", "surrogateescape").split("\0")
    return dict(line.split("=", 1) for line in lines if "=" in line)


def _worker_variables(found: Stack) -> Mapping[str, str]:
    for process in read_plan(found.folder).processes:
        if process.name == stack_process.WORKER:
            return process.env
    return {}


def _code_folders(path: Path, text: str) -> list[str]:
    """Returns the folders of code that a catalogue names."""
    tasks = (yaml.safe_load(text) or {}).get("tasks", {}) if text else {}
    named = {each.get("path") for each in tasks.values() if isinstance(each, dict)}
    return sorted(str((path.parent / each).resolve()) for each in named if each)
