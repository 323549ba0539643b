"""The command that makes and changes the keys that events are signed with: `setup keys`."""

from pathlib import Path
from typing import Annotated

import typer

from trackside.cli.interface.options import JsonOption


def keys(
    folder: Annotated[
        Path,
        typer.Option(
            "--folder", metavar="DIR", help="Folder with the private keys; only its user may read it."
        ),
    ] = Path("keys"),
    init: Annotated[
        bool,
        typer.Option("--init", help="Make the keys that are missing, and let the log trust them."),
    ] = False,
    worker: Annotated[
        list[str] | None,
        typer.Option("--worker", metavar="ID", help="With --init: id of a worker; repeat for each."),
    ] = None,
    rotate: Annotated[
        str,
        typer.Option(
            "--rotate",
            metavar="NAME",
            help="Replace a key: setup, dispatcher, scheduler, summary-indexer or worker-ID.",
        ),
    ] = "",
    revoke: Annotated[
        str, typer.Option("--revoke", metavar="KEY", help="Id of a key that is trusted no longer.")
    ] = "",
    require: Annotated[
        bool, typer.Option("--require", help="Let events without a valid signature have no effect.")
    ] = False,
    off: Annotated[bool, typer.Option("--off", help="Check signatures no longer.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Make the keys that services and workers sign their events with, and let the log trust them.

    Without an option that changes something, the keys are listed that the log trusts. A service signs with
    the key that TRACKSIDE_SIGNING_KEY_FILE names: give each its file, restart it, and run --require last, for
    a service without a key can write nothing from then on. A key is rotated in three steps: --rotate makes a
    new one that the log trusts too, its service is restarted with that, and --revoke ends the old one. The
    folder has the installation's own key, setup.key, which all this is signed with: keep it away from the
    services. keys.json in it lists the public keys, for `trackside verify-log --keys`.

    Exit 0 if the log has it in all partitions, 1 if not: repeat the command then.

    \b
    Examples:
      trackside setup keys --folder /etc/trackside/keys --init --worker gpu-1 --worker gpu-2
      trackside setup keys --folder /etc/trackside/keys --require
      trackside setup keys --folder /etc/trackside/keys --rotate dispatcher
      trackside setup keys --folder /etc/trackside/keys --revoke 3f0c2a9d51e7b846
    """
    from trackside.cli.commands import keys as command

    wanted = command.WantedKeys(init, worker or [], rotate, revoke, require=require, off=off)
    command.keys(folder, wanted, as_json=as_json)
