"""The command `repair`: streams that a record of a newer release has parked."""

from typing import TYPE_CHECKING, Annotated

import typer

from trackside.cli.interface.publishing_options import publishes

if TYPE_CHECKING:
    from trackside.cli.commands.publishing import Publishing


@publishes
def repair(
    publishing: "Publishing",
    place: Annotated[
        str, typer.Argument(metavar="[PARTITION/OFFSET]", help="Place of the record in the topic of events.")
    ] = "",
    skip: Annotated[
        bool, typer.Option("--skip", help="Let the stream continue without this record.")
    ] = False,
    reason: Annotated[
        str, typer.Option(metavar="TEXT", help="Why it is skipped; the log keeps it. Needed with --skip.")
    ] = "",
    list_parked: Annotated[
        bool, typer.Option("--list", help="List the parked streams, and the records that were skipped.")
    ] = False,
) -> None:
    """Show what parks a stream, or let the stream continue without that record.

    A record that only a newer release can interpret parks its stream: nothing more of it is decided, and
    events that follow wait in the log. A newer release continues it from there. Where there is none, because
    the record was written by mistake, skip it: the events that have come since count then, and the record
    does not. It stays in the log, and so does who skipped it, and why.

    Without --skip the record is shown.

    \b
    Examples:
      trackside repair --list
      trackside repair 3/17
      trackside repair 3/17 --skip --reason "written by a broken script"
    """
    from trackside.cli.commands import repair as repairing
    from trackside.cli.runtime.failures import BadUsage

    if list_parked and (place or skip):
        raise BadUsage("--list is about all streams: leave out the place and --skip")
    if list_parked:
        repairing.list_parked(as_json=publishing.as_json)
        return
    if not place:
        raise BadUsage("name the place of a record, PARTITION/OFFSET, or use --list")
    if skip and not reason:
        raise BadUsage("--skip needs --reason TEXT: the log keeps why a record was skipped")
    at = repairing.place(place)
    if skip:
        repairing.skip(at, reason, publishing)
    else:
        repairing.show(at, as_json=publishing.as_json)
