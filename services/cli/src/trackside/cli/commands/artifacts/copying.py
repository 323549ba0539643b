"""Copies artifacts out of the store, and files into it."""

import secrets
import shutil
from collections.abc import Sequence
from pathlib import Path

from trackside.artifacts.errors import BadArtifact
from trackside.cli.commands.artifacts.finding import artifact_called, installed_store, reference_of
from trackside.cli.render import screen
from trackside.cli.render.progress import late_progress
from trackside.cli.runtime.addresses import Addresses
from trackside.cli.runtime.failures import BadUsage, CommandFailed
from trackside.cli.runtime.run import run
from trackside.contracts.envelope.ids import is_identifier
from trackside.contracts.envelope.memory import shown
from trackside.contracts.tasks.artifacts import ArtifactReference
from trackside.domain.rows.table import ViewRow
from trackside.projections.reading.reads import open_read_models


def get(text: str, target: Path | None, as_json: bool, *, force: bool) -> None:
    """Writes an artifact to a path where nothing is, or instead of what is there."""
    row = run(_artifact(text))
    name = str(row["name"])
    if target is None and not is_identifier(name):
        raise BadUsage(f"{name!r} can't name a file here: name a TARGET")
    path = Path(name) if target is None else target
    if row["forgotten_at"] is not None:
        raise CommandFailed(f"{row['source']} was forgotten on {row['forgotten_at']}: its bytes may be gone")
    if not force and (path.exists() or path.is_symlink()):
        raise BadUsage(f"{path} exists already: name another TARGET, or replace it with --force")
    _copy(reference_of(row), path)
    if as_json:
        screen.emit({"artifact": row["source"], "sha256": row["sha256"], "target": str(path)})
    else:
        screen.say(f"{path}: {shown(row['size_bytes'])}, sha256 {row['sha256'][:12]}")


def put(paths: Sequence[Path], as_json: bool) -> None:
    """Saves files and folders, and prints a reference for each."""
    for path in paths:
        if not path.exists():
            raise BadUsage(f"{path}: no such file or folder")
    store, found = installed_store(), list[ArtifactReference]()
    with late_progress("saving") as report:
        for number, path in enumerate(paths, 1):
            found.append(store.put(path))
            report(number, len(paths))
    references = [each.model_dump(mode="json") for each in found]
    if as_json:
        screen.emit(references)
        return
    for reference in references:
        screen.emit_line(reference)


async def _artifact(text: str) -> ViewRow:
    async with open_read_models(Addresses().dsn) as models:
        return await artifact_called(models, text)


def _copy(reference: ArtifactReference, path: Path) -> None:
    """Writes an artifact beside its target, then puts it there; what was there is replaced by the whole."""
    if not path.parent.is_dir():
        raise BadUsage(f"{path.parent} is not a folder; create it first")
    fresh = path.with_name(f".{secrets.token_hex(8)}.new")
    with late_progress("copying") as report:
        try:
            installed_store().get(reference, fresh, report)
        except BadArtifact as error:
            raise CommandFailed(f"{path}: {error}") from error
        except OSError as error:
            raise CommandFailed(f"{path} can't be written: {error.strerror or error}") from error
    old = path.with_name(f".{secrets.token_hex(8)}.old")
    if path.exists() or path.is_symlink():
        path.rename(old)
    fresh.rename(path)
    if old.is_dir() and not old.is_symlink():
        shutil.rmtree(old)
    else:
        old.unlink(missing_ok=True)
