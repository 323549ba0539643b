"""The commands `trackside backup` and `restore`: a whole installation in a folder."""

from pathlib import Path
from typing import Annotated

import typer

from trackside.cli.interface.options import JsonOption, ProcessesOption

BackupArgument = Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder of the backup.")]


def backup(
    folder: BackupArgument,
    without_artifacts: Annotated[
        bool, typer.Option("--without-artifacts", help="Leave out the bytes of artifacts.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Add all that is new in the log to a backup, with artifacts and settings. Services continue meanwhile.

    The first run begins the backup. A run writes one file with the records since the last run, up to one
    moment in all partitions, then copies the artifacts that the backup lacks. A run that fails or is killed
    leaves the backup as it was. Whether a backup has artifacts is chosen by its first run.

    Settings are the catalogue, the number of slots and the TRACKSIDE_ variables that the stack was started
    with. Passwords and keys are never copied: the output names what is to be brought separately.

    \b
    Examples:
      trackside backup /backup/trackside
      trackside backup /backup/trackside --without-artifacts --json
    """
    from trackside.cli.commands import backup

    backup.add(folder, with_artifacts=not without_artifacts, as_json=as_json)


def restore(folder: BackupArgument, as_json: JsonOption = False) -> None:
    """Restore a backup to a new installation: in this folder, or at TRACKSIDE_KAFKA_BOOTSTRAP.

    The installation may have no data yet. In this folder Kafka runs for the restore only. All files are
    checked before the first record is written. Each record gets the offset and the time that it had, so the
    read models that services make from the log are the same. Once services are started, open searches
    continue. A catalogue is written into this folder if it has none. Repeat a restore that was interrupted.

    \b
    Examples:
      trackside restore /backup/trackside
      trackside restore /backup/trackside --json
    """
    from trackside.cli.commands import backup

    backup.restore_here(folder, as_json=as_json)


def clone(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="New folder of the clone.")],
    without_artifacts: Annotated[
        bool, typer.Option("--without-artifacts", help="Leave out the bytes of artifacts.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Copy the installation of this folder into another one, to try an upgrade there. Services continue.

    The clone has a Kafka, a Postgres, a store, ports and an id of its own, so both can run next to each
    other, and the workers of one refuse the log of the other. The catalogue is a link to the one of this
    installation: tasks of the clone run the same code. What has not ended runs in both. The clone of a stack
    with users has copies of its passwords, certificates and signing keys.

    \b
    Examples:
      trackside clone ../trial && cd ../trial && trackside up
    """
    from trackside.cli.commands import clone

    clone.clone(folder, with_artifacts=not without_artifacts, as_json=as_json)


def upgrade(
    check: Annotated[
        bool, typer.Option("--check", help="Say what this release would change; change nothing.")
    ] = False,
    backup: Annotated[
        Path | None, typer.Option("--backup", metavar="FOLDER", help="Check this backup, not the live log.")
    ] = None,
    processes: ProcessesOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check what this release would change in the read models that the running release has made of the log.

    Reads the whole log with the code of this release and compares every table with the live one: rows that
    would change, be added or removed, and columns. Exit 0 if nothing would change, 1 if something would. The
    services of the running release continue.

    With --backup no installation is needed: the records are those of a backup, and a Postgres runs for the
    check only. Exit 0 if this release knows every event and no invariant is violated, else 1. A backup has no
    read models to compare with, so the rows and the digest of each table are printed: do the same with the
    running release, and compare the two outputs.

    \b
    Examples:
      trackside upgrade --check
      trackside upgrade --check --backup /backup/trackside
      trackside upgrade --check --json
    """
    from trackside.cli.commands import upgrade
    from trackside.cli.runtime.failures import BadUsage

    if not check:
        raise BadUsage(
            "services are upgraded by starting those of another release, see docs/operations.md: this only "
            "checks what would change; add --check"
        )
    if backup is None:
        upgrade.check(processes, as_json=as_json)
    else:
        upgrade.check_backup(backup, processes, as_json=as_json)
