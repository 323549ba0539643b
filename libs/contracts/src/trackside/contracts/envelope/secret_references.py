"""References to secrets: the value `{"secret": "NAME"}` among the parameters of a task.

Only the name is in the log. The worker resolves it for the task's process, from its own host.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from trackside.contracts.envelope.ids import Identifier, is_identifier

SECRET = "secret"
_BELOW = ("parameters", "each")
"""The fields of a message below which there are references, wherever they are."""
_RESOLVED = ("values", "items")
"""The fields of an event that have them for the parameters of steps."""

Location = tuple[int | str, ...]


class SecretRef(BaseModel):
    """Names a secret of the worker's host: 1 to 128 letters, digits, '.', '_' or '-'."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)
    secret: Annotated[Identifier, Field(description="The name of a secret that the worker's host has.")]


def is_reference(value: object) -> bool:
    """Returns whether a JSON value is a reference to a secret: an object with `secret` alone, a name."""
    if not isinstance(value, dict) or len(value) != 1:
        return False
    name = value.get(SECRET)
    return isinstance(name, str) and is_identifier(name)


def may_refer(path: Sequence[int | str]) -> bool:
    """Returns whether the value at a path of a message may be a reference: a parameter, or what fills one."""
    above = path[:-1]
    return any(field in above for field in _BELOW) or (len(above) > 0 and above[0] in _RESOLVED)


def references_in(parameters: Any, at: Location = ()) -> Iterator[tuple[Location, str]]:
    """Yields the place and the name of each reference below a JSON value, without that value itself."""
    inner = parameters.items() if isinstance(parameters, dict) else ()
    for step, value in enumerate(parameters) if isinstance(parameters, list) else inner:
        if is_reference(value):
            yield (*at, step), value[SECRET]
        else:
            yield from references_in(value, (*at, step))


def resolve(parameters: Any, value_of: Callable[[str], str]) -> Any:
    """Returns a copy of a JSON value with the value of each secret in the place of its reference."""
    if isinstance(parameters, dict):
        return {name: _resolved(value, value_of) for name, value in parameters.items()}
    if isinstance(parameters, list):
        return [_resolved(value, value_of) for value in parameters]
    return parameters


def _resolved(value: Any, value_of: Callable[[str], str]) -> Any:
    return value_of(value[SECRET]) if is_reference(value) else resolve(value, value_of)
