"""Commands that back an installation up and restore it: `backup`, `restore`."""

import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from trackside.artifacts.errors import StoreFull
from trackside.artifacts.opening import open_store
from trackside.artifacts.settings import StoreSettings
from trackside.artifacts.store import Store
from trackside.cli.commands import stack_process
from trackside.cli.commands.artifacts.finding import installed_store
from trackside.cli.commands.installation_settings import (
    InstallationSettings,
    put_catalogue,
    read_settings_of,
    settings_here,
    write_settings,
)
from trackside.cli.render import screen
from trackside.cli.render.progress import late_progress
from trackside.cli.runtime import examples
from trackside.cli.runtime.addresses import BOOTSTRAP, Addresses
from trackside.cli.runtime.failures import BadUsage, CommandFailed
from trackside.cli.runtime.run import run
from trackside.contracts.envelope.memory import shown
from trackside.contracts.envelope.topics import Topics
from trackside.contracts.wire.topic_rights import ADMIN, VIEWER
from trackside.domain.display.text import counted
from trackside.embedded.options import StackOptions
from trackside.eventlog.clock import rfc3339
from trackside.eventlog.kafka.kafka_log import KafkaLog
from trackside.eventlog.settings.kafka_settings import KafkaSettings
from trackside.eventlog.settings.settings import read_settings
from trackside.replay.transfer.backup import BackupSummary, CopyArtifacts, add_to_backup, backup_lock
from trackside.replay.transfer.backup_blobs import check_blobs, copy_to_backup, copy_to_store
from trackside.replay.transfer.backup_files import BackupManifest, check_runs, read_manifest
from trackside.replay.transfer.restore import RestoreSummary, check_target, manifest_to_restore, restore

CLIENT = "trackside-backup"


def add(folder: Path, *, with_artifacts: bool, as_json: bool) -> None:
    """Adds what is new in the log to a backup, with the settings, and prints what that was."""
    with readable(folder), roomy(folder), backup_lock(folder):
        known = read_manifest(folder)
        if known is not None and known.runs and (known.blobs is not None) != with_artifacts:
            has = "has artifacts: leave out" if known.blobs is not None else "has no artifacts: add"
            raise BadUsage(
                f"the backup in {folder} {has} --without-artifacts; what a backup has is chosen by its first "
                "run"
            )
        settings = settings_here()
        made = run(add_records(folder, artifact_copier(folder) if with_artifacts else None))
        write_settings(folder, settings)
    manifest, last = made.manifest, made.run
    if as_json:
        screen.emit(
            {"installation": manifest.installation, "runs": len(manifest.runs)}
            | {"file": None if last is None else last.file, "records": 0 if last is None else last.records}
            | {"until_ms": manifest.until_ms, "gaps": list(made.gaps)}
            | {"blobs": None if manifest.blobs is None else len(manifest.blobs)}
            | {"separate": list(settings.separate)}
        )
        return
    blobs = "" if manifest.blobs is None else f"; {counted(len(manifest.blobs), 'artifact blob')} in all"
    if last is None:
        screen.say(f"nothing is new since {rfc3339(manifest.until_ms)}{blobs}")
    else:
        screen.say(
            f"{last.file}: {counted(last.records, 'record')} up to {rfc3339(last.until_ms)}, "
            f"{shown(last.size_bytes)}{blobs}"
        )
    for gap in made.gaps:
        screen.complain(f"the log has deleted records that no run has: {gap}; a restore begins after them")
    screen.say(f"settings: {settings}")
    _say_separate(settings)


def restore_here(folder: Path, *, as_json: bool) -> None:
    """Restores a backup: checks all of it, then writes its artifacts, its records, and its catalogue."""
    addresses = Addresses()
    topics = Topics(prefix=addresses.prefix)
    with readable(folder):
        manifest = manifest_to_restore(topics, folder)
        settings = read_settings_of(folder)
        with late_progress("checking records") as report:
            check_runs(folder, manifest, report)
        with late_progress("checking artifacts") as report:
            check_blobs(folder, manifest.blobs or (), report)
    with _target() as (kafka, store):
        made = run(_restore(folder, kafka, topics, manifest, store))
    put = put_catalogue(settings)
    if as_json:
        screen.emit(
            {"records": made.written + made.found, "written": made.written, "until_ms": manifest.until_ms}
            | {"blobs": None if manifest.blobs is None else len(manifest.blobs)}
            | {"variables": settings.variables or {}, "separate": list(settings.separate)}
        )
        return
    again = f", {made.found} of them by an earlier try" if made.found else ""
    blobs = "" if manifest.blobs is None else f" and {counted(len(manifest.blobs), 'artifact blob')}"
    screen.say(
        f"restored {counted(made.written + made.found, 'record')}{again}{blobs}: the log as it was at "
        f"{rfc3339(manifest.until_ms)}"
    )
    if put:
        screen.say(f"{examples.CATALOGUE} is that of the backup")
    for name, value in (settings.variables or {}).items():
        screen.say(f"the first installation has {name}={value}")
    _say_separate(settings)
    slots = f" --slots {settings.slots}" if settings.slots else ""
    screen.say(f"next: trackside up{slots}; open searches continue, what ran is tried again")


def _say_separate(settings: InstallationSettings) -> None:
    for name in settings.separate:
        screen.say(f"not in the backup: {name}")


@contextmanager
def readable(folder: Path) -> Iterator[None]:
    """Turns what a folder refuses into a message; a full disk has a message of its own."""
    try:
        yield
    except (PermissionError, NotADirectoryError, FileExistsError, IsADirectoryError) as error:
        raise CommandFailed(f"{error.filename or folder}: {error.strerror or error}") from error


@contextmanager
def roomy(folder: Path) -> Iterator[None]:
    """Explains what a full disk means for a backup: the store that is full is the backup's."""
    try:
        yield
    except StoreFull as error:
        raise _no_room(folder) from error
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise _no_room(folder) from error


def _no_room(folder: Path) -> CommandFailed:
    return CommandFailed(
        f"the disk of the backup in {folder} is full: the backup is as it was before this run; make room "
        "there, and repeat the run"
    )


def artifact_copier(folder: Path) -> CopyArtifacts:
    """Returns what copies all artifacts of this installation's store into a folder. Raises if it is away."""
    store = installed_store()
    store.check_reachable()

    def copy() -> list[str]:
        blobs = list(store.list_blobs())
        with late_progress("copying artifacts") as report:
            copy_to_backup(store.blobs, blobs, folder, report)
        return [blob.sha256 for blob in blobs]

    return copy


async def add_records(folder: Path, copy: CopyArtifacts | None) -> BackupSummary:
    """Adds the records of the log that is found here to a backup, and what `copy` copies."""
    addresses = Addresses()
    topics = Topics(prefix=addresses.prefix)
    # Without keys: what is encrypted in the log stays so in the backup, and is forgotten there too.
    async with KafkaLog(addresses.kafka_as(VIEWER), client_id=CLIENT) as log:
        with late_progress("copying records") as report:
            return await add_to_backup(log, topics, folder, report, copy)


@contextmanager
def _target() -> Iterator[tuple[KafkaSettings | str, Store | None]]:
    """Yields the address of Kafka, and the store: of a server that runs, else of this folder.

    The folder's Kafka is started without services, and stopped at the end.
    """
    settings = read_settings(StoreSettings)
    if os.environ.get(BOOTSTRAP) or stack_process.running() is not None:
        kafka = Addresses().kafka_as(ADMIN)
        found = stack_process.running()
        url = settings.store or (found.store if found is not None else "")
        yield kafka, _store_at(settings, url)
        return
    options = StackOptions(store=settings.store or None)
    with stack_process.started_servers(stack_process.folder(), options) as made:
        yield made.kafka(ADMIN), _store_at(settings, made.store)


def _store_at(settings: StoreSettings, url: str) -> Store | None:
    return open_store(settings.model_copy(update={"store": url})) if url else None


async def _restore(
    folder: Path, kafka: KafkaSettings | str, topics: Topics, manifest: BackupManifest, store: Store | None
) -> RestoreSummary:
    if manifest.blobs and store is None:
        raise CommandFailed(
            f"the backup has {counted(len(manifest.blobs), 'artifact blob')}: set TRACKSIDE_STORE to the "
            "store of the new installation"
        )
    async with KafkaLog(kafka, client_id=CLIENT) as log:
        await check_target(log, kafka, topics)
        if manifest.blobs and store is not None:
            _copy_to(store, folder, manifest.blobs)
        with late_progress("restoring records") as report:
            return await restore(log, kafka, topics, folder, manifest, report)


def _copy_to(store: Store, folder: Path, digests: Sequence[str]) -> None:
    """Copies artifacts before the records, which refer to them; raises CommandFailed if the store is full."""
    try:
        with late_progress("copying artifacts") as report:
            copy_to_store(folder, digests, store.blobs, report)
    except StoreFull as error:
        # `artifacts gc`, which the store suggests, would take what has no record yet for garbage.
        raise CommandFailed(
            f"{error.code}: the store {store.blobs.url} is full, no record was written: make room there, and "
            "repeat the restore, which continues"
        ) from error
