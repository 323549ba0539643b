"""YAML as users expect it: the core schema of YAML 1.2, with unique keys and no aliases; so JSON too.

PyYAML follows YAML 1.1, where `1e-4` is a text, `on` is true, `1:30` is 90 and a repeated key wins silently.
"""

import math
import re
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import yaml

MAX_NODES = 50_000


class YamlError(Exception):
    """A text that isn't YAML, or has unsupported features; `line` counts from 1, 0 if unknown."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.line = line


@dataclass(frozen=True, slots=True)
class Document:
    """The values of a YAML text, and the line of each."""

    value: Any
    lines: dict[str, int]

    def line_of(self, path: str) -> int:
        """Returns the line of a JSON path, or of the nearest path around it; 1 for the whole document."""
        while path and path not in self.lines:
            path = path[: max(path.rfind("."), path.rfind("["), 0)]
        return self.lines.get(path, 1)


_COLLECTIONS = frozenset({"tag:yaml.org,2002:map", "tag:yaml.org,2002:seq"})
_SCALARS = (
    ("tag:yaml.org,2002:null", re.compile(r"~|null|Null|NULL|"), [*"~nN", ""]),
    ("tag:yaml.org,2002:bool", re.compile(r"true|True|TRUE|false|False|FALSE"), list("tTfF")),
    ("tag:yaml.org,2002:int", re.compile(r"[-+]?[0-9]+"), list("-+0123456789")),
    (
        "tag:yaml.org,2002:float",
        re.compile(
            r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
        ),
        list("-+.0123456789"),
    ),
)


class _Loader(yaml.SafeLoader):
    yaml_implicit_resolvers = {}  # noqa: RUF012 - PyYAML's own shape

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise YamlError("aliases (*name) are not supported; write the value out", mark.line + 1)
        return super().compose_node(parent, index)

    def scan_to_next_token(self) -> None:
        super().scan_to_next_token()
        # JSON is YAML, and may be indented with tabs; PyYAML skips none, though YAML permits these.
        while self.flow_level and self.peek() == "\t":
            self.forward()
            super().scan_to_next_token()


for _tag, _pattern, _first in _SCALARS:
    _Loader.add_implicit_resolver(_tag, re.compile(f"^(?:{_pattern.pattern})$"), _first)


def read_yaml(octets: bytes) -> Document:
    """Reads one YAML document; raises YamlError."""
    try:
        text = octets.decode("utf-8")
    except UnicodeDecodeError as error:
        raise YamlError(f"byte {error.start} is not UTF-8", octets[: error.start].count(b"\n") + 1) from error
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        lines: dict[str, int] = {}
        return Document(None if node is None else _value(node, "$", lines), lines)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise YamlError(error.problem or str(error), mark.line + 1 if mark else 0) from error
    except yaml.YAMLError as error:
        raise YamlError(str(error).replace("\n", " "), 0) from error
    except RecursionError as error:
        raise YamlError("nested too deep", 0) from error
    finally:
        loader.dispose()


def _value(node: yaml.Node, path: str, lines: dict[str, int]) -> Any:
    line = node.start_mark.line + 1
    lines.setdefault(path, line)
    if len(lines) > MAX_NODES:
        raise YamlError(f"more than {MAX_NODES:,} values", line)
    if not isinstance(node, yaml.ScalarNode) and node.tag not in _COLLECTIONS:
        raise YamlError(f"tag {node.tag!r} is not supported", line)
    if isinstance(node, yaml.MappingNode):
        return _mapping(node, path, lines)
    if isinstance(node, yaml.SequenceNode):
        return [_value(inner, f"{path}[{at}]", lines) for at, inner in enumerate(node.value)]
    return _scalar(node.tag, str(node.value), line)


def _mapping(node: yaml.MappingNode, path: str, lines: dict[str, int]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key_node, inner in node.value:
        line = key_node.start_mark.line + 1
        key: Hashable = key_node.value
        if not isinstance(key_node, yaml.ScalarNode) or not isinstance(key, str):
            raise YamlError("a key must be a plain text", line)
        if key in found:
            raise YamlError(f"key {key!r} is repeated", line)
        lines[f"{path}.{key}"] = line
        found[key] = _value(inner, f"{path}.{key}", lines)
    return found


def _scalar(tag: str, text: str, line: int) -> Any:
    match tag.removeprefix("tag:yaml.org,2002:"):
        case "str":
            # JSON escapes a character beyond U+FFFF as two surrogates.
            return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
        case "null":
            return None
        case "bool":
            return text.lower() == "true"
        case "int":
            if len(text) > 40:
                raise YamlError("an integer has too many digits", line)
            return int(text)
        case "float":
            number = float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
            if not math.isfinite(number):
                raise YamlError(f"{text} is not a finite number", line)
            return number
        case other:
            raise YamlError(f"tag {other!r} is not supported", line)
