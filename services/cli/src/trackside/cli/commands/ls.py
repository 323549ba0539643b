"""The command `ls`. It imports no messages and no views: a list of streams begins sooner."""

from collections.abc import Mapping, Sequence

from trackside.cli.render import screen
from trackside.cli.runtime.addresses import Addresses
from trackside.cli.runtime.run import run
from trackside.domain.display.listing import StreamListing
from trackside.domain.display.text import Column, duration
from trackside.domain.table import ViewRow
from trackside.projections.reads import json_row, newest_streams, open_read_models, parked_text


def ls(limit: int, tags: Sequence[str], as_json: bool, *, archived: bool) -> None:
    """Prints streams that have begun, such as searches and batches, the newest first.

    Only those with all `tags`, and archived ones only with `archived`.
    """
    run(_ls(limit, tags, archived, as_json))


async def _ls(limit: int, tags: Sequence[str], archived: bool, as_json: bool) -> None:
    async with open_read_models(Addresses().dsn) as models:
        found = await newest_streams(models, limit, tags, archived=archived)
        parked = {row["stream_id"]: parked_text(row) for row in await models.rows("parked_streams")}
    if as_json:
        screen.emit([json_row(_named(listing, row, parked)) for listing, row in found])
        return
    tagged = any(row["stream_labels"]["tags"] for _, row in found)
    columns = [
        Column("id", keep=True),
        Column("kind"),
        Column("status"),
        Column("ended", right=True),
        Column("best", right=True),
        Column("name", optional=True),
        *([Column("tags", optional=True)] if tagged else []),
        Column("tuner", optional=True),
        Column("runs", optional=True),
        Column("started", optional=True),
        Column("took", right=True),
    ]
    screen.show_table(columns, [_cells(listing, row, tagged, parked) for listing, row in found])
    for name, text in parked.items():
        screen.say(f"{name} is {text}; see `trackside repair --list`")
    if not found and tags:
        screen.complain(f"nothing has the tags {', '.join(tags)}; --archived lists archived streams too")
    elif not found:
        screen.complain("nothing yet; start a search or tasks with `trackside submit SPEC.yaml`")


def _named(listing: StreamListing, row: ViewRow, parked: Mapping[str, str]) -> ViewRow:
    name = row[listing.id_column]
    return {"kind": listing.kind, "id": name, **row, "parked": parked.get(name)}


def _cells(listing: StreamListing, row: ViewRow, tagged: bool, parked: Mapping[str, str]) -> list[object]:
    own = listing.listed(row)
    tags = [", ".join(row["stream_labels"]["tags"])] if tagged else []
    special = [own.ended, own.best, row["name"], *tags, own.tuner, own.runs]
    took = duration(row["duration_s"])
    status = "PARKED" if row[listing.id_column] in parked else row["status"]
    return [row[listing.id_column], listing.kind, status, *special, row["started_at"], took]
