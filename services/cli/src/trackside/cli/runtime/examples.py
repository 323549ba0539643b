"""Where the examples are: in the clone around the current folder, else in the one around this code."""

from pathlib import Path

from trackside.cli.runtime.failures import Failure

DIGITS = Path("deploy/examples/digits")
CATALOGUE = "catalogue.yaml"
SPEC = "search.yaml"


def digits(file: str) -> Path:
    """Gives a file of the digits example; raises Failure if it is nowhere to be found."""
    here = Path.cwd()
    for folder in (here, *here.parents, *Path(__file__).resolve().parents):
        found = folder / DIGITS / file
        if found.is_file():
            return found
    raise Failure(f"{DIGITS / file} is neither in {here} nor above it: run this in a clone of Trackside")


def catalogue(given: Path | None) -> Path:
    """Gives the worker's catalogue: the one given, else ./catalogue.yaml, else that of the digits example."""
    if given is not None:
        if not given.is_file():
            raise Failure(f"{given}: no such file; it names the tasks that the worker may run")
        return given.resolve()
    own = Path(CATALOGUE)
    return own.resolve() if own.is_file() else digits(CATALOGUE)
