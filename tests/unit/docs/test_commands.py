import re
import shlex
from collections.abc import Iterator

import pytest
import typer

from tests.house.source import ROOT
from tests.unit.docs.test_links import pages
from trackside.cli.app import app

BLOCK = re.compile(r"^```\w*\n(.*?)^```|((?:^    .+\n)+)", re.MULTILINE | re.DOTALL)
TYPED = re.compile(r"(?:^|&& |\| )\s*(?:\$ )?trackside (.+?)(?=$| && | \| )")


def shown_commands() -> Iterator[tuple[str, list[str]]]:
    """Yields the arguments of each command in a code block, with the page that shows it."""
    for page in pages():
        for block in BLOCK.finditer(page.read_text("utf-8")):
            for line in (block[1] or block[2]).splitlines():
                if line.lstrip().startswith(("trackside ", "$ ", "some-program ", "cp ")):
                    for typed in TYPED.findall(line.split("  #")[0].split("          ")[0]):
                        arguments = shlex.split(re.split(r" [<>] ", typed)[0], comments=True)
                        yield str(page.relative_to(ROOT)), arguments


COMMANDS = sorted({(page, tuple(arguments)) for page, arguments in shown_commands()})


def test_the_pages_show_commands() -> None:
    assert len(COMMANDS) > 40
    assert {page for page, _ in COMMANDS} >= {"README.md", "docs/quickstart.md", "docs/replay.md"}


@pytest.mark.parametrize(("page", "arguments"), COMMANDS, ids=lambda value: " ".join(value)[:60])
def test_a_command_of_a_page_is_known_with_its_options(page: str, arguments: tuple[str, ...]) -> None:
    command, rest = typer.main.get_command(app), list(arguments)
    while inner := getattr(command, "commands", None):
        assert rest and rest[0] in inner, f"{page}: trackside has no command {' '.join(arguments)}"
        command = inner[rest.pop(0)]
    with command.make_context("trackside", rest, resilient_parsing=True) as context:
        assert context.args == [], f"{page}: {' '.join(arguments)}"
