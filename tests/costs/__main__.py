"""`python -m tests.costs`: counts what work costs, beside the ledger; `--write` replaces the ledger."""

import argparse
import asyncio
import json
from pathlib import Path

from rich.console import Console

from tests.costs import ledger
from tests.costs.counting import counted_table


def main() -> None:
    """Prints each count with that of the ledger."""
    options = argparse.ArgumentParser(prog="python -m tests.costs", description=__doc__)
    options.add_argument("--write", action="store_true", help="replace the ledger by these counts")
    options.add_argument("--functions", type=Path, help="write the calls by work, service and function there")
    given = options.parse_args()
    table, functions = asyncio.run(counted_table())
    known = ledger.read()
    console = Console(highlight=False, width=120)
    for work, counts in table.items():
        console.print(work)
        for what, count in sorted(counts.items()):
            held = "" if ledger.allowed(work, what) else "  not held"
            console.print(f"  {what:40}{count:12.2f}{known.get(work, {}).get(what, 0.0):12.2f}{held}")
    if given.functions is not None:
        given.functions.write_text(json.dumps(functions))
    if given.write:
        ledger.write(table)
    console.print("\n".join(ledger.differences(known, table)) or "as the ledger has it")


if __name__ == "__main__":
    main()
