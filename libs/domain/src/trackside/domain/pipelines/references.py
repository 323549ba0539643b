"""References in the templates of pipelines: `${STEP.KIND.PATH}`, parsed once, and resolved to values.

The grammar is that of ClearML's pipelines: a reference may be anywhere in a text, and a text may have
several. `\\.` is a dot within a name. `${...:-TEXT}` is TEXT where there is no value; a reference ends at the
first `}`. Templates become trees:

    "${prepare.result.rows}"          {"$ref": ["prepare", "result", "rows"]}
    "${prepare.result.rows:-10}"      {"$ref": ["prepare", "result", "rows"], "$default": "10"}
    "rows: ${prepare.result.rows}"    {"$text": ["rows: ", {"$ref": ["prepare", "result", "rows"]}]}
    {"$ref": 1}                       {"$object": [["$ref", 1]]}

A text that is one reference keeps the type of its value. Values are filled in in one pass: a value that looks
like a reference is a text.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from pydantic_core import to_json

PIPELINE, ITEM, INDEX = "pipeline", "item", "index"
RUN = "run:"
KINDS = ("artifacts", "parameters", "models", "id", "result", "status")
"""What of a step can be referenced."""
_REFERENCE = re.compile(r"\$\{([^}]*)\}")
_DOT = re.compile(r"(?<!\\)\.")
_INDEX = re.compile(r"-?[0-9]{1,9}")
_REF, _DEFAULT, _TEXT, _OBJECT = "$ref", "$default", "$text", "$object"
Tree = Any
"""A template as it is kept: JSON with the objects above."""


class MissingValueError(LookupError):
    """A reference has no value, or one that can't be used; the message says why."""


class Reference(NamedTuple):
    """A reference: its path, from the name of the step, and the text where there is no value."""

    path: tuple[str, ...]
    default: str | None = None

    @property
    def base(self) -> str:
        """The step, `pipeline`, `item`, `index`, or `run:ID`."""
        return self.path[0]

    @property
    def text(self) -> str:
        """The reference as users write it, without its default."""
        return "${" + ".".join(part.replace(".", "\\.") for part in self.path) + "}"


def parse_reference(inner: str) -> Reference:
    """Parses what is between the braces. Anything parses; `step_checks` checks what it names."""
    path, found, default = inner.partition(":-")
    parts = (part.replace("\\.", ".") for part in _DOT.split(path))
    return Reference(tuple(parts), default if found else None)


def parse(template: Any) -> Tree:
    """Parses a template into a tree."""
    return _parse(template, _parse_text)


def literal(value: Any) -> Tree:
    """Returns the tree of JSON in which no text has references, whatever it looks like."""
    return _parse(value, lambda text: text)


def _parse(template: Any, parse_text: Callable[[str], Tree]) -> Tree:
    if isinstance(template, str):
        return parse_text(template)
    if isinstance(template, list):
        return [_parse(each, parse_text) for each in template]
    if isinstance(template, dict):
        inner = {name: _parse(each, parse_text) for name, each in template.items()}
        if any(name.startswith("$") for name in inner):
            return {_OBJECT: [[name, each] for name, each in inner.items()]}
        return inner
    return template


def _parse_text(text: str) -> Tree:
    parts: list[Tree] = []
    end = 0
    for found in _REFERENCE.finditer(text):
        if found.start() > end:
            parts.append(text[end : found.start()])
        parts.append(_tree_of(parse_reference(found[1])))
        end = found.end()
    if not parts:
        return text
    if end < len(text):
        parts.append(text[end:])
    return parts[0] if len(parts) == 1 else {_TEXT: parts}


def _tree_of(reference: Reference) -> Tree:
    tree: dict[str, Any] = {_REF: list(reference.path)}
    return tree if reference.default is None else tree | {_DEFAULT: reference.default}


def is_reference(tree: Tree) -> bool:
    """Returns whether a tree is one reference and nothing else, so that its value may have any type."""
    return isinstance(tree, dict) and _REF in tree


def is_object(tree: Tree) -> bool:
    """Returns whether a tree is that of an object, so that its value is one."""
    return isinstance(tree, dict) and _REF not in tree and _TEXT not in tree


def is_text(tree: Tree) -> bool:
    """Returns whether a tree is that of a text, so that its value is one."""
    return isinstance(tree, str) or (isinstance(tree, dict) and _TEXT in tree)


def _reference_of(tree: Mapping[str, Any]) -> Reference | None:
    return Reference(tuple(tree[_REF]), tree.get(_DEFAULT)) if _REF in tree else None


def references(tree: Tree) -> Iterator[Reference]:
    """Yields the references of a tree, in its order, as often as they are there."""
    return (reference for _, reference in located(tree, ""))


def located(tree: Tree, path: str) -> Iterator[tuple[str, Reference]]:
    """Yields the references of a tree as `references` does, each with the JSON path of its text."""
    if isinstance(tree, list):
        for at, each in enumerate(tree):
            yield from located(each, f"{path}[{at}]")
    elif isinstance(tree, dict):
        if (reference := _reference_of(tree)) is not None:
            yield path, reference
        elif _TEXT in tree:
            for each in tree[_TEXT]:
                yield from located(each, path)
        else:
            for name, each in tree.get(_OBJECT, tree.items()):
                yield from located(each, f"{path}.{name}")


def unclosed(tree: Tree, path: str) -> Iterator[tuple[str, str]]:
    """Yields what begins as a reference and does not end as one, with the JSON path of its text.

    It is in a text without a `}` behind it, or in the path or the default of the reference that has taken its
    `}`: references don't have others in them.
    """
    if isinstance(tree, str):
        if (at := tree.find("${")) >= 0:
            yield path, tree[at:]
    elif isinstance(tree, list):
        for index, each in enumerate(tree):
            yield from unclosed(each, f"{path}[{index}]")
    elif isinstance(tree, dict):
        if (reference := _reference_of(tree)) is not None:
            if any("${" in part for part in (*reference.path, reference.default or "")):
                yield path, source(tree)
        elif _TEXT in tree:
            for each in tree[_TEXT]:
                yield from unclosed(each, path)
        else:
            for name, each in tree.get(_OBJECT, tree.items()):
                yield from unclosed(each, f"{path}.{name}")


def source(tree: Tree) -> Any:
    """Returns the template that a tree was parsed from."""
    if isinstance(tree, list):
        return [source(each) for each in tree]
    if not isinstance(tree, dict):
        return tree
    if (reference := _reference_of(tree)) is not None:
        default = "" if reference.default is None else f":-{reference.default}"
        return reference.text[:-1] + default + "}"
    if _TEXT in tree:
        return "".join(source(each) for each in tree[_TEXT])
    if _OBJECT in tree:
        return {name: source(each) for name, each in tree[_OBJECT]}
    return {name: source(each) for name, each in tree.items()}


def resolve(tree: Tree, value_of: Callable[[Reference], Any]) -> Any:
    """Fills in the values of a tree: in one pass, so that a value with `${` in it is a text.

    A value within a text is the text itself, or JSON. `value_of` raises MissingValueError for one that there
    is not; this goes through, unless the reference has a default.
    """
    if isinstance(tree, list):
        return [resolve(each, value_of) for each in tree]
    if not isinstance(tree, dict):
        return tree
    if (reference := _reference_of(tree)) is not None:
        try:
            return value_of(reference)
        except MissingValueError:
            if reference.default is None:
                raise
            return reference.default
    if _TEXT in tree:
        return "".join(_as_text(resolve(each, value_of)) for each in tree[_TEXT])
    if _OBJECT in tree:
        return {name: resolve(each, value_of) for name, each in tree[_OBJECT]}
    return {name: resolve(each, value_of) for name, each in tree.items()}


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else to_json(value).decode()


def step_into(value: Any, path: tuple[str, ...], name: str) -> Any:
    """Returns what is at a path of a JSON value: keys of objects, and indexes of lists.

    A negative index counts from the end. Raises MissingValueError, whose message calls the value by `name`.
    """
    for at, part in enumerate(path):
        key = int(part) if isinstance(value, list) and _INDEX.fullmatch(part) else part
        value = item_of(value, key, ".".join((name, *path[:at])))
    return value


def item_of(value: Any, key: Any, name: str) -> Any:
    """Returns an item of a JSON value by its key or index; raises MissingValueError as `step_into` does."""
    if isinstance(value, Mapping):
        if isinstance(key, str) and key in value:
            return value[key]
    elif isinstance(value, list | str) and isinstance(key, int) and not isinstance(key, bool):
        if -len(value) <= key < len(value):
            return value[key]
        raise MissingValueError(f"{name} has {len(value)} items, none at {key}")
    raise MissingValueError(f"{name} has no {key!r:.200}: {_shown(value)}")


def _shown(value: Any) -> str:
    """Returns what stands for an item that is missing in a value."""
    if not isinstance(value, Mapping):
        return f"it is {_JSON_NAMES.get(type(value), type(value).__name__)}"
    names = ", ".join(f"{name:.100}" for name in list(value)[:10])
    return f"it has {names}{', ...' if len(value) > 10 else ''}" if names else "it is empty"


_JSON_NAMES = {
    type(None): "null",
    bool: "a boolean",
    int: "a number",
    float: "a number",
    str: "a text",
    list: "a list",
}
