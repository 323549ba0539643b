"""The options of commands that publish: declared once, and given to each by `publishes`."""

import inspect
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trackside.cli.interface.options import JsonOption, TimeoutOption

if TYPE_CHECKING:
    from trackside.cli.commands.publishing import Publishing

CommandIdOption = Annotated[
    str,
    typer.Option(
        "--command-id",
        metavar="ID",
        help="Id of the command, to publish it again if it was not confirmed: it has an effect once.",
    ),
]


def publishes(command: Callable[..., None]) -> Callable[..., None]:
    """Returns a command the options of publishing, after its own: its first parameter is made of them."""
    own = list(inspect.signature(command).parameters.values())[1:]
    shared = inspect.signature(_publishing).parameters
    parameters = [*own, *shared.values()]

    @wraps(command)
    def with_options(**values: Any) -> None:
        publishing = _publishing(**{name: values.pop(name) for name in shared})
        command(publishing, **values)

    # What typer reads the arguments and options of a command from.
    with_options.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    with_options.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return with_options


def _publishing(
    timeout_s: TimeoutOption = 30.0, command_id: CommandIdOption = "", as_json: JsonOption = False
) -> "Publishing":
    from trackside.cli.commands.publishing import Publishing

    return Publishing(timeout_s, as_json, command_id)
