"""The command `clone`: a copy of an installation in another folder, with its own Kafka, ports and id."""

import os
from pathlib import Path
from shutil import copytree, rmtree

from trackside.cli.commands import backup, stack_process
from trackside.cli.commands.installation_settings import InstallationSettings, settings_here
from trackside.cli.render import screen
from trackside.cli.render.progress import late_progress
from trackside.cli.runtime import examples
from trackside.cli.runtime.addresses import BOOTSTRAP, DSN, STORE, Addresses
from trackside.cli.runtime.failures import BadUsage
from trackside.cli.runtime.run import run
from trackside.contracts.envelope.topics import Topics
from trackside.contracts.wire.topic_rights import ADMIN
from trackside.domain.display.text import counted
from trackside.embedded.folder import NAME
from trackside.embedded.options import StackOptions
from trackside.embedded.stack import STORE as STORE_FOLDER
from trackside.embedded.stack import Stack
from trackside.eventlog.clock import rfc3339
from trackside.eventlog.kafka.kafka_log import KafkaLog
from trackside.eventlog.settings import secure_folder
from trackside.eventlog.settings.kafka_settings import KafkaSettings
from trackside.replay.transfer.backup import backup_lock
from trackside.replay.transfer.restore import RestoreSummary, manifest_to_restore, restore

RECORDS = "clone.records"
"""The folder with the records on their way; it is removed at the end, and used again by a repeated try."""


def clone(folder: Path, *, with_artifacts: bool, as_json: bool) -> None:
    """Copies the log, the artifacts and the settings of the installation here into an empty folder."""
    home, records = folder.resolve() / NAME, folder.resolve() / RECORDS
    _check_empty(folder, home, records)
    found = stack_process.running()
    settings = settings_here()
    with backup.readable(folder), backup.roomy(folder), backup_lock(records):
        (home / STORE_FOLDER).mkdir(mode=0o700, parents=True, exist_ok=True)
        home.chmod(0o711)
        copied = backup.artifact_copier(home / STORE_FOLDER) if with_artifacts else None
        run(backup.add_records(records, copied))
        _link_catalogue(folder, settings)
        secure = Path(found.status.secure) if found is not None and found.status.secure else None
        if secure is not None:
            _copy_secrets(secure, home / secure_folder.NAME)
        options = StackOptions(secure=secure is not None)
        with stack_process.started_servers(home, options) as made:
            restored = run(_restore(records, made))
        rmtree(records)
    manifest = restored.manifest
    if as_json:
        screen.emit(
            {"folder": str(folder.resolve()), "records": restored.written + restored.found}
            | {"until_ms": manifest.until_ms, "first": manifest.installation}
            | {"blobs": None if manifest.blobs is None else len(manifest.blobs)}
        )
        return
    blobs = "" if manifest.blobs is None else f" and {counted(len(manifest.blobs), 'artifact blob')}"
    screen.say(
        f"the clone in {folder.resolve()} has {counted(restored.written + restored.found, 'record')}{blobs}: "
        f"the log as it was at {rfc3339(manifest.until_ms)}"
    )
    screen.say("once it is started, what has not ended runs in both, and schedules begin runs in both")
    given = [name for name in (BOOTSTRAP, DSN, STORE) if os.environ.get(name)]
    unset = f"unset {' '.join(given)}; " if given else ""
    slots = f" --slots {settings.slots}" if settings.slots else ""
    screen.say(f"next: {unset}cd {folder} && trackside up{slots}")


def _check_empty(folder: Path, home: Path, records: Path) -> None:
    """Raises BadUsage for the folder of an installation, unless a try that was killed has begun it."""
    if home.exists() and not records.exists():
        raise BadUsage(f"{folder} has an installation already: {home}; give the name of a new folder")
    here = stack_process.folder().parent.resolve()
    if folder.resolve() == here:
        raise BadUsage(f"{folder} is the folder of this installation; give the name of a new one")


def _link_catalogue(folder: Path, settings: InstallationSettings) -> None:
    """Lets the clone read the catalogue, and the code next to it, where they are."""
    link = folder / examples.CATALOGUE
    if settings.catalogue_path and not link.exists() and not link.is_symlink():
        link.symlink_to(settings.catalogue_path)


def _copy_secrets(secure: Path, target: Path) -> None:
    """Copies to the clone the users of the first broker, and the signing keys that the log trusts."""
    target.mkdir(mode=0o700, exist_ok=True)  # first: what is copied is not private before it is whole
    target.chmod(0o700)
    copytree(secure, target, dirs_exist_ok=True)


async def _restore(records: Path, made: Stack) -> RestoreSummary:
    topics = Topics(prefix=Addresses().prefix)
    kafka = made.kafka(ADMIN)
    if isinstance(kafka, str):  # in an environment that may be for the first installation's Kafka
        kafka = KafkaSettings(kafka_bootstrap=kafka, kafka_security_protocol="PLAINTEXT")
    manifest = manifest_to_restore(topics, records)
    async with KafkaLog(kafka, client_id=backup.CLIENT) as log:
        with late_progress("restoring records") as report:
            return await restore(log, kafka, topics, records, manifest, report)
