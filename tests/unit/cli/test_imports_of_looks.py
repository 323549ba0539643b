"""What people look at first begins soon: `status`, `ls` and `show` import no large library."""

import subprocess
import sys

import pytest

LARGE = {
    "aiokafka", "fastapi", "faust", "fsspec", "grpc", "jsonschema", "matplotlib", "numpy", "opentelemetry",
    "optuna", "pandas", "prometheus_client", "scipy", "sklearn", "starlette", "torch", "uvicorn", "uvloop",
}  # fmt: skip
MODELS = {"trackside.contracts.message"}
"""Making the models of all messages takes longer than all else that a list needs."""


def imported(code: str) -> set[str]:
    """Returns the modules that a fresh interpreter has imported after some code, with their packages."""
    code = f"import sys\n{code}\nprint(*sys.modules)"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    names = ended.stdout.split()
    return {".".join(name.split(".")[:parts]) for name in names for parts in (1, 2, 3)}


@pytest.mark.parametrize("command", ["ls", "status"])
def test_a_first_look_imports_no_messages_and_no_large_library(command: str) -> None:
    code = f"import trackside.cli.app, trackside.cli.commands.{command}, trackside.embedded.stack"
    found = imported(code)
    assert found & (LARGE | MODELS) == set()
    assert {name for name in found if name.startswith("trackside.aggregates.")} <= {
        *("trackside.aggregates.batch", "trackside.aggregates.dataset", "trackside.aggregates.listings"),
        *("trackside.aggregates.model", "trackside.aggregates.pipeline", "trackside.aggregates.rounds"),
        *("trackside.aggregates.run", "trackside.aggregates.search", "trackside.aggregates.summary"),
    }


def test_the_page_of_a_stream_imports_the_view_of_its_kind_and_no_decisions() -> None:
    code = "import trackside.cli.app, trackside.cli.commands.show, trackside.embedded.stack\n"
    found = imported(code + "from trackside.aggregates.listings import view_of\nview_of('search')")
    assert found & LARGE == set()
    assert "trackside.aggregates.registry" not in found


def test_a_command_that_fails_as_expected_imports_nothing_to_say_so() -> None:
    code = "from trackside.cli.app import call\ncall(['ls'])"
    found = imported(f"import os\nos.chdir('/')\n{code}")
    assert found & (LARGE | MODELS) == set()
