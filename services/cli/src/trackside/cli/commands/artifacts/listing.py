"""Lists artifacts and shows one."""

from trackside.artifacts.errors import ArtifactError
from trackside.cli.commands.artifacts.finding import (
    ALL,
    artifact_called,
    artifacts_at,
    installed_store,
    place_of,
    reference_of,
)
from trackside.cli.render import screen
from trackside.cli.runtime.addresses import Addresses
from trackside.cli.runtime.failures import BadUsage, CommandFailed
from trackside.cli.runtime.run import run
from trackside.contracts.envelope.memory import shown
from trackside.contracts.tasks.artifacts import STORED, ArtifactReference
from trackside.domain.display.text import Column, counted
from trackside.domain.rows.table import ViewRow
from trackside.projections.reading.reads import json_row, open_read_models

DIGITS = 12
"""How many digits of a digest a table shows; `artifacts show` and JSON have all."""
COLUMNS = (
    Column("artifact", keep=True),
    Column("kind"),
    Column("size", right=True),
    Column("step", right=True),
    Column("digest"),
    Column("saved", optional=True),
    Column("forgotten", optional=True),
)


def ls(where: str, every: bool, limit: int, as_json: bool) -> None:
    """Prints the artifacts of all streams, of one, or of a task; `every` version if wanted."""
    run(_ls(where, every, limit, as_json))


def show(reference: str, as_json: bool) -> None:
    """Prints all that is known of an artifact."""
    run(_show(reference, as_json))


def newest(rows: list[ViewRow]) -> list[ViewRow]:
    """Returns the newest version of each artifact that is not forgotten, in their order."""
    found: dict[tuple[str, str, str], ViewRow] = {}
    for row in rows:
        if row["forgotten_at"] is None:
            found.setdefault((row["stream_id"], row["task_id"], row["name"]), row)
    return list(found.values())


async def _ls(where: str, every: bool, limit: int, as_json: bool) -> None:
    place = place_of(where)
    async with open_read_models(Addresses().dsn) as models:
        rows = await artifacts_at(models, place, limit if every else ALL)
    if not rows and place.stream:
        raise BadUsage(f"{where} has no artifacts; `trackside artifacts ls` lists those that there are")
    listed = (rows if every else newest(rows))[:limit]
    if as_json:
        screen.emit([json_row(row) for row in listed])
        return
    columns = COLUMNS if every else COLUMNS[:-1]
    screen.show_table(columns, [_cells(row)[: len(columns)] for row in listed])
    if not listed:
        screen.complain("no artifacts")


def _is_there(reference: ArtifactReference) -> bool | None:
    """Returns whether the store, or a copy, has the bytes of an artifact in it; None if it can't be asked."""
    if not reference.uri.startswith(STORED):
        return None
    try:
        store = installed_store()
        store.check_reachable()
        return store.exists(reference)
    except (ArtifactError, CommandFailed):
        return None


def _place_text(uri: str, is_there: bool | None) -> str:
    """Returns where the bytes of an artifact are, for a person."""
    if not uri.startswith(STORED):
        return uri
    if is_there is None:
        return "in the store, which can't be asked here"
    return "in the store" if is_there else "not here: the store does not have them"


def _cells(row: ViewRow) -> list[object]:
    return [
        row["source"],
        row["kind"],
        shown(row["size_bytes"]),
        row["step"],
        row["sha256"][:DIGITS],
        row["saved_at"],
        row["forgotten_at"],
    ]


async def _show(text: str, as_json: bool) -> None:
    async with open_read_models(Addresses().dsn) as models:
        row = await artifact_called(models, text)
        used = await models.rows("inputs_by_digest", row["sha256"])
        same = await models.rows("artifacts_by_digest", row["sha256"])
    others = [each for each in same if each["source"] != row["source"]]
    is_there = _is_there(reference_of(row))
    if as_json:
        reference = reference_of(row).model_dump(mode="json")
        lists = {
            "used_by": [json_row(each) for each in used],
            "same_bytes": [each["source"] for each in others],
        }
        screen.emit(json_row(row) | {"reference": reference, "is_there": is_there} | lists)
        return
    named = ("kind", "step", "media_type", "sha256", "saved_at", "forgotten_at", "metadata")
    facts: list[tuple[str, object]] = [("artifact", row["source"])]
    facts += [
        ("size", f"{shown(row['size_bytes'])} ({row['size_bytes']} B)"),
        ("bytes", _place_text(row["uri"], is_there)),
    ]
    facts += [(name, row[name]) for name in named if row.get(name) not in (None, {}, "")]
    if row.get("attempt"):
        facts.append(("saved by", f"attempt {row['attempt']}.{row['placement']} of {row['task_id']}"))
    screen.show_table([Column(""), Column("", keep=True)], facts)
    if used:
        screen.say(f"\ngiven to {counted(len(used), 'task')}")
        screen.show_table(
            [Column("task", keep=True), Column("as"), Column("name"), Column("submitted", optional=True)],
            [[each["task_id"], each["use"], each["name"], each["submitted_at"]] for each in used[:50]],
        )
    if others:
        names = ", ".join(each["source"] for each in others[:5])
        screen.say(f"\nthe same bytes as {names}" + (" and others" if len(others) > 5 else ""))
