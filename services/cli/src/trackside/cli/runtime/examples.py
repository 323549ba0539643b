"""The example searches: below deploy/examples in a clone, in `trackside/cli/examples` once installed."""

from importlib.util import find_spec
from pathlib import Path

from trackside.cli.runtime.failures import CommandFailed

CATALOGUE = "catalogue.yaml"
SPEC = "search.yaml"
DIGITS = "digits"
"""Trains a small network on scikit-learn's digits; needs torch and scikit-learn."""
FIRST_SEARCH = "first_search"
"""Fits a curve with NumPy, which is always installed; `trackside init` writes it."""


def folder(name: str) -> Path:
    """Returns the folder of an example; the wheel and the clone hold the same files in different places."""
    package = Path(__file__).resolve().parents[1]
    installed = package / "examples" / name
    return installed if installed.is_dir() else package.parents[4] / "deploy" / "examples" / name


def runnable() -> str:
    """Returns the example that can run here: the digits where torch and scikit-learn are installed."""
    has_torch = find_spec("torch") is not None and find_spec("sklearn") is not None
    return DIGITS if has_torch else FIRST_SEARCH


def catalogue(given: Path | None) -> Path:
    """Returns the worker's catalogue: the one given, else ./catalogue.yaml, else that of an example."""
    if given is not None:
        if not given.is_file():
            raise CommandFailed(
                f"{given}: no such file; expected a catalogue of the tasks that the worker may run"
            )
        return given.resolve()
    own = Path(CATALOGUE)
    return own.resolve() if own.is_file() else folder(runnable()) / CATALOGUE
