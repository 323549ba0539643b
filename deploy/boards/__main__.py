"""Writes the boards, or with `--check` compares them with the files: `PYTHONPATH=deploy python -m boards`."""

import argparse
import sys
from pathlib import Path

from boards.catalogue import boards

FOLDER = Path(__file__).resolve().parent.parent / "grafana" / "dashboards"


def differences(folder: Path) -> list[str]:
    """Returns one line for each file that is missing, differs from its board, or belongs to none."""
    wanted = {board.file_name: board.text() for board in boards()}
    found = {path.name: path.read_text("utf-8") for path in folder.glob("*.json")}
    return [
        *(f"{name}: missing" for name in sorted(wanted.keys() - found.keys())),
        *(f"{name}: belongs to no board" for name in sorted(found.keys() - wanted.keys())),
        *(f"{name}: differs" for name in sorted(wanted.keys() & found.keys()) if wanted[name] != found[name]),
    ]


def write(folder: Path) -> None:
    """Writes a file for each board, and removes those of boards that are gone."""
    folder.mkdir(parents=True, exist_ok=True)
    built = boards()
    for path in {*folder.glob("*.json")} - {folder / board.file_name for board in built}:
        path.unlink()
    for board in built:
        (folder / board.file_name).write_text(board.text(), "utf-8")


def main() -> int:
    """Writes or compares; returns 1 if a file differs from its board."""
    parser = argparse.ArgumentParser(prog="boards", description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="compare the files with the boards, write nothing"
    )
    options = parser.parse_args()
    if not options.check:
        write(FOLDER)
        return 0
    found = differences(FOLDER)
    for line in found:
        sys.stdout.write(f"{line}; write the boards again: PYTHONPATH=deploy python -m boards\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
