"""Reads artifacts back from the store and compares their digests."""

from trackside.artifacts.store import Condition
from trackside.cli.commands.artifacts.finding import artifacts_at, installed_store, place_of, reference_of
from trackside.cli.render import screen
from trackside.cli.render.progress import late_progress
from trackside.cli.runtime.addresses import Addresses
from trackside.cli.runtime.failures import BadUsage, FailureReported
from trackside.cli.runtime.run import run
from trackside.contracts.envelope.memory import shown
from trackside.contracts.tasks.artifacts import STORED
from trackside.domain.display.text import Column, counted
from trackside.domain.rows.table import ViewRow
from trackside.projections.reading.reads import open_read_models


def verify(where: str, as_json: bool) -> None:
    """Prints which artifacts are missing or damaged; raises FailureReported if there are any."""
    rows = run(_rows(where))
    if not rows and where:
        raise BadUsage(f"{where} has no artifacts; `trackside artifacts ls` lists those that there are")
    by_digest: dict[str, list[ViewRow]] = {}
    for row in rows:
        by_digest.setdefault(row["sha256"], []).append(row)
    conditions = _conditions(by_digest)
    wrong = [row for row in rows if conditions[row["sha256"]] != "ok"]
    total = sum(found[0]["size_bytes"] for found in by_digest.values())
    if as_json:
        found = [
            {"artifact": row["source"], "sha256": row["sha256"], "condition": conditions[row["sha256"]]}
            for row in wrong
        ]
        screen.emit({"artifacts": len(rows), "digests": len(by_digest), "bytes": total, "wrong": found})
    else:
        if wrong:
            cells = [[conditions[row["sha256"]], row["source"], row["sha256"]] for row in wrong]
            screen.show_table([Column("condition"), Column("artifact", keep=True), Column("digest")], cells)
        said = f"{len(wrong)} missing or damaged" if wrong else "all there"
        screen.say(
            f"{said}: {counted(len(rows), 'artifact')}, {counted(len(by_digest), 'digest')}, {shown(total)}"
        )
    if wrong:
        raise FailureReported()


def _conditions(by_digest: dict[str, list[ViewRow]]) -> dict[str, Condition]:
    store, found = installed_store(), dict[str, Condition]()
    with late_progress("reading") as report:
        for number, (digest, rows) in enumerate(by_digest.items(), 1):
            found[digest] = store.verify(reference_of(rows[0]))
            report(number, len(by_digest))
    return found


async def _rows(where: str) -> list[ViewRow]:
    async with open_read_models(Addresses().dsn) as models:
        rows = await artifacts_at(models, place_of(where))
    return [row for row in rows if row["forgotten_at"] is None and row["uri"].startswith(STORED)]
