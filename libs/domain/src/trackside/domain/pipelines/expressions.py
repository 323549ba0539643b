"""Expressions of pipelines: `train.result.accuracy > 0.9 and pipeline.mode == "full"`. Pure.

They are evaluated by simpleeval, with less than it has: names of the run, comparison, arithmetic, boolean
words, indexes, `a if b else c`, and five functions. An attribute is a key of JSON and nothing else.
"""

import ast
import operator
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from simpleeval import InvalidExpression, SimpleEval, safe_add, safe_mult

from trackside.domain.pipelines.references import MissingValueError

MAX_CHARACTERS = 1_000
MAX_DEPTH = 30
FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "len": len,
    "min": min,
    "max": max,
    "sum": sum,
    "abs": abs,
}
_OPERATORS: Mapping[type[ast.AST], Callable[..., Any]] = {
    ast.Add: safe_add,
    ast.Sub: operator.sub,
    ast.Mult: safe_mult,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: lambda left, right: _number(left) % _number(right),
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Not: operator.not_,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda left, right: left in right,
    ast.NotIn: lambda left, right: left not in right,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
}
_NODES: tuple[type[ast.AST], ...] = (
    *(ast.Expr, ast.Constant, ast.Name, ast.UnaryOp, ast.BinOp, ast.BoolOp, ast.Compare, ast.IfExp),
    *(ast.Call, ast.Attribute, ast.Subscript),
)
_OTHERS: tuple[type[ast.AST], ...] = (ast.And, ast.Or, ast.Load, *_OPERATORS)
_CONSTANTS = {"true": True, "false": False, "null": None}


class ExpressionError(ValueError):
    """An expression that can't be evaluated; `code` is that of a problem, the message says why."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def check_expression(text: str) -> ast.Expr:
    """Parses an expression. Raises ExpressionError if it is too long or deep, or has what there is not."""
    if len(text) > MAX_CHARACTERS:
        message = f"the expression has {len(text):,} characters, at most {MAX_CHARACTERS:,} are allowed"
        raise ExpressionError("expression_too_long", message)
    try:
        body = ast.parse(text.strip(), mode="exec").body
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        reason = error.msg if isinstance(error, SyntaxError) else str(error) or type(error).__name__
        raise ExpressionError("bad_expression", f"{text!r} is not an expression: {reason}") from None
    if len(body) != 1 or not isinstance(body[0], ast.Expr):
        raise ExpressionError("bad_expression", f"{text!r} is not one expression")
    if (depth := _depth(body[0].value)) > MAX_DEPTH:
        message = f"the expression has {depth} levels, at most {MAX_DEPTH} are allowed"
        raise ExpressionError("expression_too_deep", message)
    for node in ast.walk(body[0]):
        _check_node(node)
    return body[0]


def _check_node(node: ast.AST) -> None:
    if isinstance(node, ast.Call):
        if not isinstance(node.func, ast.Name) or node.func.id not in FUNCTIONS:
            message = f"{ast.unparse(node.func)}() is not available; functions are {', '.join(FUNCTIONS)}"
            raise ExpressionError("bad_expression", message)
        if node.keywords or any(isinstance(each, ast.Starred) for each in node.args):
            raise ExpressionError("bad_expression", f"{node.func.id}() takes no named arguments")
    elif isinstance(node, ast.Constant):
        if not isinstance(node.value, str | int | float | None):
            raise ExpressionError("bad_expression", f"{node.value!r} is not a JSON value")
    elif not isinstance(node, (*_NODES, *_OTHERS)):
        what = type(node).__name__
        message = (
            f"{what} is not available in an expression: it has names, comparison, arithmetic, and/or/not, "
            f"indexes and {', '.join(FUNCTIONS)}"
        )
        raise ExpressionError("bad_expression", message)


def _depth(node: ast.AST) -> int:
    deepest = 1
    waiting = [(node, 1)]
    while waiting:
        each, depth = waiting.pop()
        deepest = max(deepest, depth)
        inner = (child for child in ast.iter_child_nodes(each) if isinstance(child, ast.expr))
        waiting.extend((child, depth + 1) for child in inner)
    return deepest


def paths_of(text: str) -> list[tuple[str, ...]]:
    """Returns the paths of all names: `a.result.x > b[0]` has ("a", "result", "x") and ("b", "0").

    A path ends where an index is not a constant. Raises ExpressionError as `check_expression` does.
    """
    return list(dict.fromkeys(_paths(check_expression(text).value)))


def _paths(node: ast.expr) -> Iterator[tuple[str, ...]]:
    path, inner = _path(node)
    if path and path[0] not in _CONSTANTS:
        yield path
    for each in inner:
        yield from _paths(each)


def _path(node: ast.expr) -> tuple[tuple[str, ...], list[ast.expr]]:
    """Returns the path that a node is, if it is one, and the nodes within it that are not part of it."""
    if isinstance(node, ast.Name):
        return (node.id,), []
    if isinstance(node, ast.Attribute):
        path, inner = _path(node.value)
        return ((*path, node.attr) if path else ()), inner if path else [node.value]
    if isinstance(node, ast.Subscript):
        path, inner = _path(node.value)
        if path and isinstance(node.slice, ast.Constant):
            return (*path, str(node.slice.value)), inner
        return path, [*(inner if path else [node.value]), node.slice]
    if isinstance(node, ast.Call):
        return (), list(node.args)
    return (), [each for each in ast.iter_child_nodes(node) if isinstance(each, ast.expr)]


class _Evaluator(SimpleEval):  # type: ignore[misc]  # it has no types
    """Evaluates JSON values, and gives no access to anything of Python's."""

    nodes: dict[type[ast.AST], Callable[..., Any]]

    def __init__(self, names: Mapping[str, Any]) -> None:
        super().__init__(operators=dict(_OPERATORS), functions=dict(FUNCTIONS), names={})
        for unwanted in self.nodes.keys() - set(_NODES):
            del self.nodes[unwanted]
        self._values = names

    def _check_disallowed_items(self, item: Any) -> None:
        """Accepts all: the values are JSON."""

    def _eval_name(self, node: ast.Name) -> Any:
        if node.id in _CONSTANTS:
            return _CONSTANTS[node.id]
        return self._values[node.id]

    def _eval_attribute(self, node: ast.Attribute) -> Any:
        return _item(self._eval(node.value), node.attr, ast.unparse(node.value))

    def _eval_subscript(self, node: ast.Subscript) -> Any:
        return _item(self._eval(node.value), self._eval(node.slice), ast.unparse(node.value))


def _item(value: Any, key: Any, name: str) -> Any:
    if isinstance(value, Mapping):
        if isinstance(key, str) and key in value:
            return value[key]
        known = ", ".join(str(each) for each in list(value)[:10])
        raise MissingValueError(f"{name} has no {key!r}; it has {known or 'nothing'}")
    if isinstance(value, list | str) and isinstance(key, int) and not isinstance(key, bool):
        if -len(value) <= key < len(value):
            return value[key]
        raise MissingValueError(f"{name} has {len(value)} items, none at {key}")
    raise MissingValueError(f"{name} has no {key!r}: it is {type(value).__name__}")


def _number(value: Any) -> Any:
    if isinstance(value, str):
        raise TypeError("% takes numbers, not a text")
    return value


def evaluate(text: str, names: Mapping[str, Any]) -> Any:
    """Returns the value of an expression over JSON values.

    `names` raises MissingValueError for a name that has no value; this goes through. Raises ExpressionError
    if the expression is none, or its values don't go with each other.
    """
    node = check_expression(text)
    evaluator = _Evaluator(names)
    try:
        value = evaluator.eval(text, previously_parsed=node)
    except MissingValueError:
        raise
    except (InvalidExpression, TypeError, ValueError, ArithmeticError, LookupError) as error:
        message = f"{text!r} can't be evaluated: {error or type(error).__name__}"
        raise ExpressionError("bad_expression", message) from error
    if isinstance(value, int) and value.bit_length() > 63:
        raise ExpressionError("bad_expression", f"the value of {text!r} does not fit 64 bits")
    if isinstance(value, float) and value - value != 0:
        raise ExpressionError("bad_expression", f"the value of {text!r} is not finite")
    return value
