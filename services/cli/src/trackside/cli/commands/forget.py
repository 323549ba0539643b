"""The command `forget`: has an encrypted stream forgotten, and what is known of one that was."""

import sys

import typer

from trackside.cli.commands.publishing import Publishing
from trackside.cli.commands.submit import send
from trackside.cli.render import screen
from trackside.cli.runtime.failures import BadUsage
from trackside.contracts.forgetting import ForgetStream

REMAINS = (
    "its id, kind, status, times and counts, and the reason: `trackside show` has them",
    "its commands in the topic trackside.commands, until its retention removes them (7 days)",
    "commands to devices in the topics trackside.device.* (1 day), and output of tasks (7 days)",
    "files in the store of artifacts, until `trackside artifacts gc --delete`",
    "what its parent, models and other streams have taken from it, and its children: they are streams of "
    "their own",
    "exported copies, and the keys in backups of Postgres and in its write-ahead log: delete these too",
)
"""What is left once a stream is forgotten, and until when."""


def forget(stream_id: str, reason: str, publishing: Publishing, *, yes: bool) -> None:
    """Has a stream forgotten once that is confirmed, and prints what remains; raises BadUsage."""
    if not yes:
        if not sys.stdin.isatty():
            raise BadUsage("a stream that is forgotten can't be brought back: confirm that with --yes")
        typer.confirm(f"Forget {stream_id}? Its content can't be brought back.", abort=True, err=True)
    send(stream_id, ForgetStream, {"reason": reason}, publishing)
    if publishing.as_json:
        return
    screen.say(f"the content of {stream_id} can't be read any more; what remains:")
    for each in REMAINS:
        screen.say(f"  - {each}")
