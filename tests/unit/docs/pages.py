import re

from tests.house.source import ROOT


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text("utf-8")


def rows(text: str, heading: str, table: int = 0) -> list[list[str]]:
    below = text[text.index(f"\n{heading}\n") + len(heading) + 2 :]
    part = re.split(r"^#+ ", below, maxsplit=1, flags=re.MULTILINE)[0]
    lines = re.findall(r"(?:^\|.*\n)+", part, re.MULTILINE)[table].splitlines()[2:]
    return [[cell.strip() for cell in line.strip()[1:-1].split(" | ")] for line in lines]


def rows_below(text: str, head: str) -> list[list[str]]:
    lines = text[text.index(head) :].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def named(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)
