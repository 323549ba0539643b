"""Makes whole references of short ones, from the read models and the store, before a command is published."""

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeGuard

from trackside.aggregates.model.aggregate import MODEL
from trackside.aggregates.model.view import VERSIONS
from trackside.artifacts.errors import ArtifactError, CredentialMissing, StoreMissing, StoreUnreachable
from trackside.artifacts.store import Store
from trackside.cli.commands.artifacts.finding import artifact_called, installed_store, reference_of
from trackside.cli.render import screen
from trackside.cli.render.progress import late_progress
from trackside.cli.runtime.addresses import Addresses
from trackside.cli.runtime.failures import BadUsage, CommandFailed
from trackside.cli.runtime.run import run
from trackside.contracts.envelope.memory import shown
from trackside.contracts.envelope.refusals import Problem, nearest
from trackside.contracts.tasks.artifacts import STORED, ArtifactReference
from trackside.projections.reading.reads import ReadModels, open_read_models
from trackside.sdk.definitions.references import (
    UNKNOWN,
    WantedModelVersion,
    WantedReference,
    unknown_artifact,
    version_number,
    wanted_reference,
)
from trackside.sdk.errors import UnsendableError

ALL_MODELS = 1_000_000
REQUESTS = 8
"""How many blobs the store is asked for at once."""
ANSWER_S = 5.0
"""How long the store may take to say whether it has a blob; then it is not looked for."""
Resolved = ArtifactReference | Problem


def resolve(
    folder: Path, given: Mapping[str, str | ArtifactReference], *, quiet: bool
) -> dict[str, Resolved]:
    """Returns the whole reference of each short or whole one, or its problem, by their paths.

    Files, whose relative paths are below `folder`, are saved; with problems they are left out. Unless
    it is `quiet`, prints what each short one refers to.
    """
    texts = {each for each in given.values() if isinstance(each, str)}
    found = run(_named(texts)) if texts else {}
    files = {text: folder / text for text in texts if text not in found}
    found |= {text: _no_file(path) for text, path in files.items() if not path.exists()}
    missing = _missing((*given.values(), *found.values()))
    if not missing and not any(isinstance(each, Problem) for each in found.values()):
        found |= _saved(files)
    if not quiet:
        for text in sorted(found):
            _show(text, found[text])
    answers = {path: found.get(each) if isinstance(each, str) else each for path, each in given.items()}
    return {
        path: _with_path(path, missing.get(_stored(each), each))
        for path, each in answers.items()
        if each is not None
    }


async def _named(texts: Iterable[str]) -> dict[str, Resolved]:
    """Returns what short references refer to, those to files left out."""
    found: dict[str, Resolved] = {}
    wanted: dict[str, WantedReference] = {}
    for text in texts:
        try:
            wanted[text] = wanted_reference(text)
        except UnsendableError as error:
            found[text] = error.problem
    named = {text: each for text, each in wanted.items() if not isinstance(each, Path)}
    if named:
        async with open_read_models(Addresses().dsn) as models:
            for text, each in named.items():
                if isinstance(each, WantedModelVersion):
                    found[text] = await _version(models, each)
                else:
                    found[text] = await _artifact(models, text)
    return found


async def _artifact(models: ReadModels, text: str) -> Resolved:
    try:
        row = await artifact_called(models, text)
    except BadUsage as error:
        return Problem(code=UNKNOWN, path="$", message=str(error))
    if row["forgotten_at"] is not None:
        message = f"{row['source']} was forgotten on {row['forgotten_at']}: its bytes may be gone"
        return Problem(code="artifact_missing", path="$", message=message)
    return reference_of(row)


async def _version(models: ReadModels, wanted: WantedModelVersion) -> Resolved:
    rows = await models.rows(f"{MODEL.kind}.{VERSIONS}", wanted.model)
    try:
        if not rows:
            raise unknown_artifact(await _no_versions(models, wanted.model))
        return reference_of(rows[version_number(wanted, [row["stage"] for row in rows]) - 1])
    except UnsendableError as error:
        return error.problem


async def _no_versions(models: ReadModels, name: str) -> str:
    known = [row["model_id"] for row in await models.rows(f"{MODEL.kind}.newest", ALL_MODELS)]
    if name in known:
        return f"model {name} has no versions yet"
    return f"there is no model {name}{nearest(name, known)}; `trackside models ls` lists them"


def _missing(references: Iterable[object]) -> dict[str, Resolved]:
    """Returns the digests that should be in the store and aren't, if it responds."""
    wanted = {each.sha256: each for each in references if _is_stored(each)}
    store = _store() if wanted else None
    if store is None:
        return {}
    try:
        with ThreadPoolExecutor(REQUESTS) as threads:
            there = dict(zip(wanted, threads.map(store.exists, wanted.values()), strict=True))
    except StoreUnreachable as error:
        screen.complain(f"trackside: inputs were not looked for in the store: {error}")
        return {}
    return {
        digest: Problem(
            code="artifact_missing",
            path="$",
            message=f"neither the store nor a copy has sha256/{digest}; see `trackside artifacts put`",
        )
        for digest, is_there in there.items()
        if not is_there
    }


def _store() -> Store | None:
    """Opens the store; None if this host has none, or not its credential."""
    try:
        return installed_store(ANSWER_S)
    except StoreMissing:
        return None
    except CredentialMissing as error:
        screen.complain(f"trackside: inputs were not looked for in the store: {error}")
        return None
    except CommandFailed:
        return None  # no stack runs here, and TRACKSIDE_STORE isn't set


def _saved(files: Mapping[str, Path]) -> dict[str, Resolved]:
    """Saves files and folders."""
    if not files:
        return {}
    try:
        store = installed_store()
    except ArtifactError as error:
        return dict.fromkeys(files, _problem(error))
    found: dict[str, Resolved] = {}
    with late_progress("saving") as report:
        for number, (text, path) in enumerate(files.items(), 1):
            try:
                found[text] = store.put(path)
            except ArtifactError as error:
                found[text] = _problem(error)
            report(number, len(files))
    return found


def _problem(error: ArtifactError) -> Problem:
    return Problem(code=error.code, path="$", message=str(error))


def _no_file(path: Path) -> Problem:
    return Problem(code="bad_artifact", path="$", message=f"{path}: no such file or folder")


def _is_stored(each: object) -> TypeGuard[ArtifactReference]:
    return isinstance(each, ArtifactReference) and each.uri.startswith(STORED)


def _stored(each: Resolved) -> str:
    """Returns the digest of what is in the store, empty for others."""
    return each.sha256 if _is_stored(each) else ""


def _with_path(path: str, each: Resolved) -> Resolved:
    return each.model_copy(update={"path": path}) if isinstance(each, Problem) else each


def _show(text: str, found: Resolved) -> None:
    if isinstance(found, ArtifactReference):
        what = found.source or found.uri
        named = "" if found.source in ("", text) else f"{what}, "
        screen.say(f"{text}: {named}{shown(found.size_bytes)}, sha256 {found.sha256[:12]}")
