"""The command `forget`: has an encrypted stream forgotten, and what is known of one that was."""

import sys

import typer

from trackside.cli.commands.publishing import Publishing
from trackside.cli.commands.submit import ROWS_S, check_id, publish_and_print, valid_command
from trackside.cli.render import follow, screen
from trackside.cli.runtime.addresses import Addresses
from trackside.cli.runtime.failures import BadUsage, CommandFailed
from trackside.cli.runtime.run import run
from trackside.contracts.envelope.message import Command
from trackside.contracts.envelope.topics import Topics
from trackside.contracts.streams.forgetting import ForgetStream
from trackside.sdk.client import Client

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
    """Gets a stream forgotten once that is confirmed, and prints what remains; raises BadUsage."""
    if not yes:
        if not sys.stdin.isatty():
            raise BadUsage("a stream that is forgotten can't be brought back: confirm that with --yes")
        typer.confirm(f"Forget {stream_id}? Its content can't be brought back.", abort=True, err=True)
    check_id(stream_id)
    command = valid_command(ForgetStream, {"reason": reason})
    run(_forget(stream_id, command, publishing.identified()))
    if publishing.as_json:
        return
    screen.say(f"the content of {stream_id} can't be read any more; what remains:")
    for each in REMAINS:
        screen.say(f"  - {each}")


async def _forget(stream_id: str, command: Command, publishing: Publishing) -> None:
    """Gets a stream forgotten, and waits until its rows and its key are deleted; raises CommandFailed."""
    addresses = Addresses()
    async with Client(addresses.kafka, addresses.prefix, name="cli", keys=addresses.keys) as client:
        answer = await publish_and_print(client, command, stream_id, publishing)
    topics = Topics(prefix=addresses.prefix)
    try:
        await follow.wait_for_rows(addresses.dsn, topics, stream_id, answer.offset, ROWS_S)
    except CommandFailed as failure:
        raise CommandFailed(
            f"{failure}\n{stream_id} is forgotten in the log, but its rows and its key are not deleted yet"
        ) from failure
