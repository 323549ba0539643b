import inspect
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version

import pytest

from trackside.cli import app
from trackside.cli.interface.help_text import KEEP_LINES, help_text
from trackside.domain.tasks.task import TaskState

ALL: dict[str, Callable[..., None]] = {
    **{name: command for panel in app.COMMANDS.values() for name, command in panel.items()},
    **{f"replay {name}": command for name, command in app.REPLAY_COMMANDS.items()},
    **{f"datasets {name}": command for name, command in app.DATASET_COMMANDS.items()},
    **{f"models {name}": command for name, command in app.MODEL_COMMANDS.items()},
    **{f"pipelines {name}": command for name, command in app.PIPELINE_COMMANDS.items()},
    **{f"schedules {name}": command for name, command in app.SCHEDULE_COMMANDS.items()},
    **{f"summaries {name}": command for name, command in app.SUMMARY_COMMANDS.items()},
}
VERBS = {
    "Add", "Approve", "Archive", "Cancel", "Change", "Check", "Compare", "Copy", "Create", "Define", "Delete",
    "Draw", "End", "Find", "Import", "List", "Load", "Measure", "Pause", "Place", "Print", "Publish",
    "Re-evaluate", "Read", "Rebuild", "Register", "Reject", "Replace", "Restart", "Restore", "Resume",
    "Retire", "Run", "Send", "Serve", "Set", "Show", "Simulate", "Skip", "Start", "Stop", "Submit", "Watch",
    "Write",
}  # fmt: skip
PRINT_IMPORTS = """
import sys
from trackside.cli.app import call
for arguments in (["--help"], ["submit", "--help"], ["replay", "whatif", "--help"], ["--version"]):
    assert call(arguments) == 0
sys.stderr.write("\\n".join(sys.modules))
"""


def paragraphs(command: Callable[..., None]) -> list[str]:
    """Returns the paragraphs of a command's help that are wrapped, each in one line."""
    return [text for text in help_text(command).split("\n\n") if not text.startswith(KEEP_LINES)]


@pytest.mark.thorough
def test_help_imports_no_service_and_no_large_library() -> None:
    ended = subprocess.run([sys.executable, "-c", PRINT_IMPORTS], capture_output=True, text=True, check=True)
    imported = ended.stderr.splitlines()
    assert (LARGE | {"asyncpg"}) & {name.split(".")[0] for name in imported} == set()
    assert {name.split(".")[1] for name in imported if name.startswith("trackside.")} == {"cli"}


def broken(paragraph: str, lines: list[str], width: int) -> str:
    words = paragraph.split()
    begin = next((at for at, line in enumerate(lines) if line and paragraph.startswith(line)), len(lines))
    for line in lines[begin:]:
        shown = line.split()
        if shown != words[: len(shown)]:
            return f"{line!r} is not the text of {paragraph!r}"
        words = words[len(shown) :]
        if not words:
            return ""
        if len(line) + 1 + len(words[0]) <= width - 4:
            return f"broken too early: {line!r}"
    return f"{paragraph!r} is not there to its end"


@pytest.mark.parametrize(
    ("width", "every"),
    [(60, 12), *(pytest.param(width, 1, marks=pytest.mark.thorough) for width in (60, 100, 200))],
)
def test_help_is_wrapped_at_any_width_and_nowhere_else(
    width: int, every: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    found = []
    for name in list(ALL)[::every]:
        assert app.call([*name.split(), "--help"]) == 0
        lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
        found += [fault for text in paragraphs(ALL[name]) if (fault := broken(text, lines, width))]
    assert found == []


def test_help_begins_with_one_sentence_that_begins_with_a_verb() -> None:
    begins = {name: paragraphs(command)[0] for name, command in ALL.items()}
    assert [name for name, text in begins.items() if text.split()[0].rstrip(",") not in VERBS] == []
    assert [name for name, text in begins.items() if not text.endswith((".", ")."))] == []


def test_every_option_and_argument_is_explained() -> None:
    unexplained = []
    for name, command in ALL.items():
        for parameter in inspect.signature(command).parameters.values():
            [declared] = parameter.annotation.__metadata__
            if not (declared.help and declared.help[0].isupper() and declared.help.endswith(".")):
                unexplained.append((name, parameter.name))
    assert unexplained == []


def test_help_names_every_state_of_tasks_and_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.call(["tasks", "--help"]) == 0
    text = capsys.readouterr().out
    assert all(state.value in text for state in TaskState)
    assert app.call(["--version"]) == 0
    assert capsys.readouterr().out == f"trackside {version('trackside')}\n"


def test_a_shell_completes_commands_and_options(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    completions = {"trackside sub": "submit", "trackside replay wh": "whatif", "trackside ls --js": "--json"}
    for typed, expected in completions.items():
        monkeypatch.setenv("_TRACKSIDE_COMPLETE", "complete_bash")
        monkeypatch.setenv("COMP_WORDS", typed)
        monkeypatch.setenv("COMP_CWORD", str(len(typed.split()) - 1))
        assert app.call([]) == 0
        assert expected in capsys.readouterr().out.split()


# pydantic is not among them: typer imports it to read the arguments.
LARGE = {
    "aiokafka", "fastapi", "faust", "fsspec", "grpc", "jsonschema", "matplotlib", "numpy", "opentelemetry",
    "optuna", "pandas", "prometheus_client", "scipy", "sklearn", "starlette", "torch", "uvicorn", "uvloop",
}  # fmt: skip
MODELS = {"trackside.contracts.envelope.message"}
"""Making the models of all messages takes longer than all else that a list needs."""


def imported(code: str) -> set[str]:
    code = f"import sys\n{code}\nprint(*sys.modules)"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    names = ended.stdout.split()
    return {".".join(name.split(".")[:parts]) for name in names for parts in (1, 2, 3)}


@pytest.mark.thorough
def test_a_first_look_imports_no_messages_and_no_large_library() -> None:
    commands = ", ".join(f"trackside.cli.commands.{command}" for command in ("ls", "status"))
    found = imported(f"import trackside.cli.app, {commands}, trackside.embedded.stack")
    assert found & (LARGE | MODELS) == set()
    assert {name for name in found if name.startswith("trackside.aggregates.")} <= {
        *("trackside.aggregates.batch", "trackside.aggregates.dataset", "trackside.aggregates.listings"),
        *("trackside.aggregates.model", "trackside.aggregates.pipeline", "trackside.aggregates.rounds"),
        *("trackside.aggregates.run", "trackside.aggregates.search", "trackside.aggregates.summary"),
    }
    code = "from trackside.cli.app import call\ncall(['ls'])"  # which fails as expected
    assert imported(f"import os\nos.chdir('/')\n{code}") & (LARGE | MODELS) == set()


@pytest.mark.thorough
def test_the_page_of_a_stream_imports_the_view_of_its_kind_and_no_decisions() -> None:
    code = "import trackside.cli.app, trackside.cli.commands.show, trackside.embedded.stack\n"
    found = imported(code + "from trackside.aggregates.listings import view_of\nview_of('search')")
    assert found & LARGE == set()
    assert "trackside.aggregates.registry" not in found
