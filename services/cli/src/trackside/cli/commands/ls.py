"""The command `ls`. It imports no messages and no views: a list of streams begins sooner."""

from collections.abc import Mapping, Sequence

from trackside.cli.render import screen
from trackside.cli.runtime.addresses import Addresses
from trackside.cli.runtime.run import run
from trackside.domain.display.listing import StreamListing
from trackside.domain.display.text import Column, duration
from trackside.domain.rows.table import ViewRow
from trackside.projections.reading.reads import json_row, newest_streams, open_read_models, parked_text


def ls(limit: int, tags: Sequence[str], as_json: bool, *, archived: bool) -> None:
    """Prints streams that have begun, such as searches and batches, the newest first.

    Only those with all `tags`, and archived ones only with `archived`.
    """
    run(_ls(limit, tags, archived, as_json))


async def _ls(limit: int, tags: Sequence[str], archived: bool, as_json: bool) -> None:
    async with open_read_models(Addresses().dsn) as models:
        found = await newest_streams(models, limit, tags, archived=archived)
        parked = {row["stream_id"]: parked_text(row) for row in await models.rows("parked_streams")}
        forgotten = [] if tags else await models.rows("forgotten_streams", limit)
    if as_json:
        gone = [{"id": row["stream_id"], **row, "forgotten": True} for row in forgotten]
        screen.emit([json_row(row) for row in (*(_named(*each, parked) for each in found), *gone)])
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
    cells = [_cells(listing, row, tagged, parked) for listing, row in found]
    screen.show_table(columns, [*cells, *(_forgotten_cells(row, tagged) for row in forgotten)])
    for name, text in parked.items():
        screen.say(f"{name} is {text}; see `trackside repair --list`")
    if not found and not forgotten and tags:
        screen.complain(f"nothing has the tags {', '.join(tags)}; --archived lists archived streams too")
    elif not found and not forgotten:
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


def _forgotten_cells(row: ViewRow, tagged: bool) -> list[object]:
    """Returns the line of a stream that was forgotten: how many of its parts have ended."""
    ended = str(row["ended"]) if row["total"] is None else f"{row['ended']}/{row['total']}"
    special = [ended, None, "", *([""] if tagged else []), "", ""]
    took = None
    if row["started_at"] is not None and row["ended_at"] is not None:
        took = duration((row["ended_at"] - row["started_at"]).total_seconds())
    return [row["stream_id"], row["kind"], "FORGOTTEN", *special, row["started_at"], took]
