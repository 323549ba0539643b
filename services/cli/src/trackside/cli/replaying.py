"""Commands that read the whole log again: `replay rebuild`, `verify-log`."""

from typing import Annotated

import typer

replay = typer.Typer(help="Read the log again: rebuild the read models from it.", no_args_is_help=True)
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]


@replay.command()
def rebuild(
    swap: Annotated[bool, typer.Option("--swap", help="Put the rebuilt read models in place.")] = False,
    as_json: AsJson = False,
) -> None:
    """Rebuild."""


def verify_log(as_json: AsJson = False) -> None:
    """Verify."""


def replayed(bootstrap: str, dsn: str) -> None:
    """Rebuilds and compares."""
