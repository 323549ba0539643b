"""Commands that convert specifications of other systems: `convert sedna`."""

import os
import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import yaml

from trackside.cli.render import screen
from trackside.cli.runtime.failures import BadUsage, CommandFailed
from trackside.compat.sedna.conversion import ConvertedFile, SednaConversion, convert
from trackside.compat.sedna.documents import UnreadableError

FOLDER_MODE = 0o755
_NUMBER = re.compile(r"[-+]?\.?[0-9]|[-+]?\.(?i:inf|nan)|~")
"""How texts begin that YAML 1.1 or 1.2 reads as numbers or null."""


def sedna(files: Sequence[Path], to: Path | None, timezone: str, as_json: bool) -> None:
    """Converts documents of Sedna, and writes or prints what they become; raises BadUsage."""
    try:
        made = convert({_name(file): _read(file) for file in files}, timezone)
    except UnreadableError as error:
        raise BadUsage(f"nothing was converted:\n  {error}") from error
    if to is not None:
        _write(made.files, to)
    if as_json:
        screen.emit(_object(made))
        return
    if to is None:
        for file in made.files:
            sys.stdout.write(f"---\n# {file.name}\n{as_yaml(file.content)}")
    _tell(made, to)


def as_yaml(content: dict[str, Any]) -> str:
    """Returns YAML that a spec file is read from with the same values: texts such as 1e-4 are quoted."""
    return yaml.dump(content, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


def _represent(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    # PyYAML writes for YAML 1.1, where other texts than in 1.2 look like numbers.
    style = "'" if _NUMBER.match(text) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent)


def _name(file: Path) -> str:
    return "stdin" if str(file) == "-" else str(file)


def _read(file: Path) -> bytes:
    try:
        return sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    except OSError as error:
        raise BadUsage(f"{file}: {error.strerror or error}") from error


def _write(files: Sequence[ConvertedFile], to: Path) -> None:
    """Writes files into a folder that is not there yet, or is empty: all of them, or none."""
    unfinished = None
    try:
        to.parent.mkdir(parents=True, exist_ok=True)
        unfinished = mkdtemp(prefix=f".{to.name}.", dir=to.parent)
        for file in files:
            Path(unfinished, file.name).write_text(as_yaml(file.content), "utf-8")
        Path(unfinished).chmod(FOLDER_MODE)
        os.rename(unfinished, to)  # noqa: PTH104 - Path.rename says the same, without naming the folder
    except OSError as error:
        if unfinished is not None:
            shutil.rmtree(unfinished, ignore_errors=True)
        if to.exists():
            raise BadUsage(f"{to} is there, and not an empty folder; nothing was written") from error
        raise CommandFailed(f"{to}: cannot be written: {error.strerror or error}") from error


def _tell(made: SednaConversion, to: Path | None) -> None:
    if made.left_out:
        screen.complain("What has no counterpart, or means something else here:")
    for each in made.left_out:
        screen.complain(f"  {each.place}: {each.why}")
    place = "" if to is None else f" in {to}"
    screen.complain(f"Written{place}:" if to is not None else "The files:")
    for file in made.files:
        screen.complain(f"  {file.name}")
    screen.complain("What follows:")
    for command in made.commands:
        screen.complain(f"  {command}")


def _object(made: SednaConversion) -> dict[str, Any]:
    return {
        "files": [{"name": file.name, "content": file.content} for file in made.files],
        "left_out": [{**each.place._asdict(), "why": each.why} for each in made.left_out],
        "commands": made.commands,
    }
