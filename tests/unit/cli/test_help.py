"""Help texts: fast, because nothing is imported for them, and wrapped at the width of the terminal."""

import inspect
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version

import pytest

from trackside.cli.app import (
    COMMANDS,
    DATASET_COMMANDS,
    MODEL_COMMANDS,
    PIPELINE_COMMANDS,
    REPLAY_COMMANDS,
    SCHEDULE_COMMANDS,
    SUMMARY_COMMANDS,
    call,
)
from trackside.cli.interface.help_text import KEEP_LINES, help_text
from trackside.domain.task import TaskState

ALL: dict[str, Callable[..., None]] = {
    **{name: command for panel in COMMANDS.values() for name, command in panel.items()},
    **{f"replay {name}": command for name, command in REPLAY_COMMANDS.items()},
    **{f"datasets {name}": command for name, command in DATASET_COMMANDS.items()},
    **{f"models {name}": command for name, command in MODEL_COMMANDS.items()},
    **{f"pipelines {name}": command for name, command in PIPELINE_COMMANDS.items()},
    **{f"schedules {name}": command for name, command in SCHEDULE_COMMANDS.items()},
    **{f"summaries {name}": command for name, command in SUMMARY_COMMANDS.items()},
}
# pydantic is not among them: typer imports it to read the arguments.
HEAVY = {"aiokafka", "asyncpg", "faust", "matplotlib", "numpy", "optuna", "scipy", "sklearn", "torch"}
PRINT_IMPORTS = """
import sys
from trackside.cli.app import call
assert call(sys.argv[1:]) == 0
sys.stderr.write("\\n".join(sys.modules))
"""


def paragraphs(command: Callable[..., None]) -> list[str]:
    """Returns the paragraphs of a command's help that are wrapped, each in one line."""
    return [text for text in help_text(command).split("\n\n") if not text.startswith(KEEP_LINES)]


@pytest.mark.parametrize(
    "arguments", [["--help"], ["submit", "--help"], ["replay", "whatif", "--help"], ["--version"]]
)
def test_help_imports_no_service_and_no_large_library(arguments: list[str]) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", PRINT_IMPORTS, *arguments], capture_output=True, text=True, check=True
    )
    imported = ended.stderr.splitlines()
    assert HEAVY & {name.split(".")[0] for name in imported} == set()
    packages = {name.split(".")[1] for name in imported if name.startswith("trackside.")}
    assert packages == {"cli"}


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("width", [60, 100, 200])
def test_help_is_wrapped_at_any_width_and_nowhere_else(
    name: str, width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    assert call([*name.split(), "--help"]) == 0
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    for paragraph in paragraphs(ALL[name]):
        words = paragraph.split()
        begin = next(at for at, line in enumerate(lines) if line and paragraph.startswith(line))
        for at in range(begin, len(lines)):
            shown = lines[at].split()
            assert shown == words[: len(shown)], f"{lines[at]!r} is not the text of {paragraph!r}"
            words = words[len(shown) :]
            if not words:
                break
            assert len(lines[at]) + 1 + len(words[0]) > width - 4, f"broken too early: {lines[at]!r}"


@pytest.mark.parametrize("name", ALL)
def test_help_begins_with_one_sentence_that_begins_with_a_verb(name: str) -> None:
    first = paragraphs(ALL[name])[0]
    assert first[0].isupper() and first.endswith((".", ")."))
    assert first.split()[0].rstrip(",") in {
        "Add", "Approve", "Archive", "Cancel", "Change", "Check", "Compare", "Copy", "Create", "Define",
        "Delete", "Draw", "Find", "Import", "List", "Load", "Measure", "Pause", "Place", "Print", "Publish",
        "Re-evaluate", "End", "Read", "Rebuild", "Register", "Restart",
        "Reject", "Replace", "Restore", "Resume", "Retire", "Run", "Send", "Serve", "Set", "Show", "Simulate",
        "Skip", "Start", "Stop", "Submit", "Watch", "Write",
    }  # fmt: skip


@pytest.mark.parametrize("name", ALL)
def test_every_option_and_argument_is_explained(name: str) -> None:
    for parameter in inspect.signature(ALL[name]).parameters.values():
        [declared] = parameter.annotation.__metadata__
        assert declared.help and declared.help[0].isupper() and declared.help.endswith("."), parameter


def test_the_help_of_tasks_names_every_state(capsys: pytest.CaptureFixture[str]) -> None:
    assert call(["tasks", "--help"]) == 0
    text = capsys.readouterr().out
    assert all(state.value in text for state in TaskState)


def test_the_version_is_that_of_the_distribution(capsys: pytest.CaptureFixture[str]) -> None:
    assert call(["--version"]) == 0
    assert capsys.readouterr().out == f"trackside {version('trackside')}\n"


def test_a_shell_completes_commands_and_options(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    completions = {"trackside sub": "submit", "trackside replay wh": "whatif", "trackside ls --js": "--json"}
    for typed, expected in completions.items():
        monkeypatch.setenv("_TRACKSIDE_COMPLETE", "complete_bash")
        monkeypatch.setenv("COMP_WORDS", typed)
        monkeypatch.setenv("COMP_CWORD", str(len(typed.split()) - 1))
        assert call([]) == 0
        assert expected in capsys.readouterr().out.split()
