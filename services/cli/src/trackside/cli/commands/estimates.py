"""The command `estimates`: the memory that task types request, use, and are learned to need."""

from trackside.cli.render import screen
from trackside.cli.runtime.addresses import Addresses
from trackside.cli.runtime.run import run
from trackside.contracts.envelope.memory import shown
from trackside.domain.display.text import Column
from trackside.domain.rows.table import ViewRow
from trackside.projections.reading.reads import json_row, open_read_models


def estimates(as_json: bool) -> None:
    """Prints for each task type the memory that was requested, used and learned."""
    run(_estimates(as_json))


async def _estimates(as_json: bool) -> None:
    async with open_read_models(Addresses().dsn) as models:
        rows = await models.rows("task_types")
    if as_json:
        screen.emit([json_row(row) for row in rows])
        return
    columns = [
        Column("task type", keep=True),
        Column("finished", right=True),
        Column("out of memory", right=True, optional=True),
        Column("memory asked", right=True),
        Column("used", right=True, optional=True),
        Column("learned", right=True),
    ]
    cells = [_cells(row, "memory") for row in rows]
    if any(row["estimate_cuda_memory_bytes"] or row["peak_cuda_memory_max_bytes"] for row in rows):
        columns += [
            Column("GPU asked", right=True),
            Column("used", right=True, optional=True),
            Column("learned", right=True),
        ]
        cells = [[*cell, *_sizes(row, "cuda_memory")] for cell, row in zip(cells, rows, strict=True)]
    screen.show_table(columns, cells)
    if not rows:
        screen.complain("no task has been submitted yet")


def _cells(row: ViewRow, what: str) -> list[object]:
    return [row["task_type"], row["finished"], row["out_of_memory"] or None, *_sizes(row, what)]


def _sizes(row: ViewRow, what: str) -> list[object]:
    """Returns what was requested, the maximum that was used, and what is learned."""
    names = (f"estimate_{what}_bytes", f"peak_{what}_max_bytes", f"learned_{what}_bytes")
    return [shown(row[name]) if row[name] else None for name in names]


def learned_of(row: ViewRow | None) -> str:
    """Returns what is learned of a task type, empty for nothing: `590 MiB memory, 2 GiB CUDA memory`."""
    if row is None:
        return ""
    named = (("learned_memory_bytes", "memory"), ("learned_cuda_memory_bytes", "CUDA memory"))
    parts = [f"{shown(row[name])} {words}" for name, words in named if row[name]]
    return f"{', '.join(parts)} (of {row['finished']} finished)" if parts else ""
