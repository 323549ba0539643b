"""Forms for commands: a field of the form for each field of the body.

The name of an input is the kind of its value and the path of the field: `number:concurrency`,
`json:parameters.layers`. An input that is empty is left out of the command.
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trackside.contracts.envelope.message import Command
from trackside.contracts.envelope.refusals import Problem

TEXT, NUMBER, FLAG, CHOICE, JSON, LIST = "text", "number", "flag", "choice", "json", "list"
DEVICES = "devices"
"""The name of the inputs that have the devices of a worker, each of which gets a command of its own."""


@dataclass(frozen=True, slots=True)
class Input:
    """An input of a form. `path` is where its value is in the body, with dots; `choices` are all it may have.

    `lowest` and `highest` are limits of a number that may be reached.
    """

    path: str
    kind: str
    label: str
    value: object = ""
    help: str = ""
    required: bool = False
    choices: Sequence[str] = ()
    lowest: float | None = None
    highest: float | None = None
    whole: bool = False

    @property
    def name(self) -> str:
        """Its name in the form: kind and path."""
        return f"{self.kind}:{self.path}"

    @property
    def text(self) -> str:
        """Its value as the text in the input."""
        if self.value is None or self.value == "":
            return ""
        return self.value if isinstance(self.value, str) else json.dumps(self.value, ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class Form:
    """A command that a user may publish: a button where it has no inputs, else a form with some.

    `fixed` are fields of the body that the user does not choose, and say which form of a page it is; `kept`
    are further ones. `confirm` is asked first. With `devices` there is a command for each device of a worker.
    """

    label: str
    stream_id: str
    command: type[Command]
    inputs: Sequence[Input] = ()
    fixed: Mapping[str, Any] | None = None
    confirm: str = ""
    is_danger: bool = False
    kept: Mapping[str, Any] | None = None
    devices: Sequence[str] = ()

    @property
    def type(self) -> str:
        """The type of the command in the log."""
        return self.command.wire_type()

    @property
    def hidden(self) -> list[tuple[str, str]]:
        """Name and text of the inputs that are not shown."""
        hidden = {**(self.fixed or {}), **(self.kept or {})}
        devices = [(DEVICES, each) for each in self.devices]
        return [*((f"{JSON}:{path}", json.dumps(value)) for path, value in hidden.items()), *devices]

    @property
    def key(self) -> str:
        """A name that is unique on a page."""
        all_devices = ("all",) if self.devices else ()
        fixed = (str(value) for value in (self.fixed or {}).values())
        return "-".join([self.command.__name__, *fixed, *all_devices])


def body_of(fields: Iterable[tuple[str, str]]) -> tuple[dict[str, Any], list[Problem]]:
    """Returns the body of a command from the inputs of a form, and what is wrong with single inputs."""
    body: dict[str, Any] = {}
    problems: list[Problem] = []
    for name, text in fields:
        kind, colon, path = name.partition(":")
        if not colon or (text.strip() == "" and kind != FLAG):
            continue
        try:
            _put(body, path.split("."), _value(kind, text))
        except ValueError as error:
            problems.append(Problem(code="bad_value", path=f"$.{path}", message=str(error)))
    return body, problems


def _value(kind: str, text: str) -> object:
    match kind:
        case "number":
            try:
                value = json.loads(text)
            except ValueError:
                value = None
            if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
                raise ValueError(f"{text[:50]!r} is not a number")
            return value
        case "flag":
            return text == "true"
        case "json":
            try:
                return json.loads(text)
            except ValueError as error:
                raise ValueError(f"not JSON: {error}; write a text in quotation marks") from None
        case "text" | "choice":
            return text
        case "list":
            return [each.strip() for each in text.split(",") if each.strip()]
    raise ValueError(f"{kind[:20]!r} is not a kind of input")


def _put(body: dict[str, Any], path: Sequence[str], value: object) -> None:
    for name in path[:-1]:
        inner = body.setdefault(name, {})
        if not isinstance(inner, dict):
            raise ValueError("an input within one that is a value")
        body = inner
    body[path[-1]] = value
