"""Runs a page of the documentation as a reader would: its files are written, its commands typed, in order.

A block is a file if the line before it ends with a name in backticks and a colon, as in "Write `fit.py`:". A
block without a language is a session: its lines that begin with `$ ` are typed, with the lines `> ` below
them, and what follows must be their output.
"""

import re
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

BLOCK = re.compile(r"^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"`(?P<name>[\w.-]+)`:\s*\Z")
TYPED, CONTINUED = "$ ", "> "
PROGRESS = re.compile(r"  \d+/\d+ \w+ ended|  still waiting for ")
"""Lines whose number depends on how busy the machine is."""
GAP = "..."
"""A line of a session that stands for any number of lines."""


@dataclass(frozen=True)
class PageFile:
    """A file that the page shows whole."""

    name: str
    text: str


@dataclass(frozen=True)
class Session:
    """Commands as typed, each with the lines that the page shows below it; `span`: its place in the page."""

    commands: list[tuple[str, list[str]]]
    span: tuple[int, int]


def steps(page: str) -> Iterator[PageFile | Session]:
    """Yields the files and the sessions of a page in their order; blocks of other kinds are passed over."""
    for block in BLOCK.finditer(page):
        named = FILE.search(page[: block.start()])
        if named is not None:
            yield PageFile(named["name"], block["text"])
        elif not block["language"] and block["text"].startswith(TYPED):
            yield Session(_commands(block["text"]), block.span("text"))


def run(
    session: Session, folder: Path, environment: Mapping[str, str], options: Mapping[str, str]
) -> list[tuple[str, list[str]]]:
    """Types the commands of a session in a folder; returns each with its output, standard error included.

    `options` are added to commands by their whole text.
    """
    return [
        (command, _output(f"{command}{options.get(command, '')}", folder, environment))
        for command, _ in session.commands
    ]


def same(shown: list[str], printed: list[str]) -> bool:
    """Returns whether an output has the shown lines, whatever their numbers, times, ids and order are.

    How many reports of progress come, and in which order processes are ready, depends on the machine.
    """
    expected, found = _shapes(shown), _shapes(printed)
    return expected <= found if GAP in shown else expected == found


def written(page: str, results: Mapping[tuple[int, int], list[tuple[str, list[str]]]]) -> str:
    """Returns the page with these outputs in place of those it shows; its gaps are left out again."""
    for (start, end), outputs in sorted(results.items(), reverse=True):
        shown = dict(_commands(page[start:end]))
        text = "".join(
            "".join(f"{line}\n" for line in [_typed(command), *_with_gap(shown[command], lines)])
            for command, lines in outputs
        )
        page = page[:start] + text + page[end:]
    return page


def _commands(text: str) -> list[tuple[str, list[str]]]:
    commands: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        if line.startswith(TYPED):
            commands.append((line.removeprefix(TYPED), []))
        elif line.startswith(CONTINUED) and not commands[-1][1]:
            commands[-1] = (commands[-1][0] + "\n" + line.removeprefix(CONTINUED), [])
        else:
            commands[-1][1].append(line)
    return commands


def _typed(command: str) -> str:
    return TYPED + command.replace("\n", f"\n{CONTINUED}")


def _output(command: str, folder: Path, environment: Mapping[str, str]) -> list[str]:
    ended = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        check=False,
    )
    return [line.rstrip().replace(str(folder), "~/mine") for line in ended.stdout.rstrip().splitlines()]


def _shapes(lines: list[str]) -> set[str]:
    shapes = set()
    for line in lines:
        shape = re.sub(r"\b[0-9a-f]{32}\b|-?\b\d[\d.:e-]*", "#", line)
        shape = re.sub(r"# (?:ms|s|B|KiB|MiB|GiB)\b", "# UNIT", shape)
        if line != GAP and not PROGRESS.match(line):
            shapes.add(" ".join(re.sub(r"[━─█▏▎▍▌▋▊▉]+", "", shape).split()))
    return shapes


def _with_gap(shown: list[str], printed: list[str]) -> list[str]:
    """Leaves out of an output as many lines as the page did: all but those above and below its gap."""
    if GAP not in shown:
        return printed
    above = shown.index(GAP)
    below = len(shown) - above - 1
    return [*printed[:above], GAP, *(printed[-below:] if below else [])]
