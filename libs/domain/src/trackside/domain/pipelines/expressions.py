"""Expressions of pipelines: `train.result.accuracy > 0.9 and pipeline.mode == "full"`. Pure.

They are evaluated by simpleeval, with less than it has: names of the run, comparison, arithmetic, boolean
words, indexes, `a if b else c`, and five functions. An attribute is a key of JSON and nothing else.
"""

import ast
import operator
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from simpleeval import InvalidExpression, SimpleEval

from trackside.domain.pipelines.references import MissingValueError, item_of

MAX_CHARACTERS = 1_000
MAX_DEPTH = 30
MAX_TEXT = 100_000
"""How many characters a text may get."""
MAX_BITS = 1_024
"""How large an integer may get on the way to a value."""
STEPS = "steps"
"""The name under which an expression has all steps, also those whose names are no words: steps['a-b']."""


def _arithmetic(name: str, calculate: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def checked(left: Any, right: Any) -> Any:
        for value in (left, right):
            if not isinstance(value, int | float):
                raise TypeError(f"{name} takes numbers, not {type(value).__name__}")
        value = calculate(left, right)
        if isinstance(value, int) and value.bit_length() > MAX_BITS:
            raise ValueError(f"an integer has more than {MAX_BITS:,} bits")
        return value

    return checked


def _add(left: Any, right: Any) -> Any:
    if isinstance(left, str) and isinstance(right, str):
        if len(left) + len(right) > MAX_TEXT:
            raise ValueError(f"a text has more than {MAX_TEXT:,} characters")
        return left + right
    return _ADD(left, right)


_ADD = _arithmetic("+", operator.add)


def _is_same(left: Any, right: Any) -> bool:
    """Returns whether values are equal and of one type: identity would depend on the interpreter."""
    return type(left) is type(right) and bool(left == right)


def _sum(values: Any) -> Any:
    """Returns the sum of numbers; a start value, as Python's has, could be a list that gets long."""
    return sum(values)


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "len": len,
    "min": min,
    "max": max,
    "sum": _sum,
    "abs": abs,
}
_OPERATORS: Mapping[type[ast.AST], Callable[..., Any]] = {
    ast.Add: _add,
    ast.Sub: _arithmetic("-", operator.sub),
    ast.Mult: _arithmetic("*", operator.mul),
    ast.Div: _arithmetic("/", operator.truediv),
    ast.FloorDiv: _arithmetic("//", operator.floordiv),
    ast.Mod: _arithmetic("%", operator.mod),
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
    ast.Is: _is_same,
    ast.IsNot: lambda left, right: not _is_same(left, right),
}
_NODES: tuple[type[ast.AST], ...] = (
    *(ast.Expr, ast.Constant, ast.Name, ast.UnaryOp, ast.BinOp, ast.BoolOp, ast.Compare, ast.IfExp),
    *(ast.Call, ast.Attribute, ast.Subscript),
)
_AVAILABLE = frozenset({*_NODES, ast.And, ast.Or, ast.Load, *_OPERATORS})
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
        hint = "; did you mean '=='?" if len(body) == 1 and isinstance(body[0], ast.Assign) else ""
        raise ExpressionError("bad_expression", f"{text!r} is not one expression{hint}")
    waiting: list[tuple[ast.AST, int]] = [(body[0].value, 1)]
    while waiting:
        node, depth = waiting.pop()
        if depth > MAX_DEPTH:
            message = f"the expression has more than {MAX_DEPTH} levels"
            raise ExpressionError("expression_too_deep", message)
        _check_node(node)
        inner = ast.iter_child_nodes(node)
        waiting.extend((child, depth + isinstance(child, ast.expr)) for child in inner)
    return body[0]


def _check_node(node: ast.AST) -> None:
    if isinstance(node, ast.Call):
        if not isinstance(node.func, ast.Name) or node.func.id not in FUNCTIONS:
            named = f"{node.func.id}() is" if isinstance(node.func, ast.Name) else "methods are"
            message = f"{named} not available; functions are {', '.join(FUNCTIONS)}"
            raise ExpressionError("bad_expression", message)
        if node.keywords or any(isinstance(each, ast.Starred) for each in node.args):
            raise ExpressionError("bad_expression", f"{node.func.id}() takes no named arguments")
    elif isinstance(node, ast.Constant):
        if not isinstance(node.value, str | int | float | None):
            raise ExpressionError("bad_expression", f"{node.value!r} is not a JSON value")
    elif type(node) not in _AVAILABLE:
        what = type(node).__name__
        message = (
            f"{what} is not available in an expression: it has names, comparison, arithmetic, and/or/not, "
            f"indexes and {', '.join(FUNCTIONS)}"
        )
        raise ExpressionError("bad_expression", message)


def paths_of(text: str) -> list[tuple[str, ...]]:
    """Returns the paths of all names: `a.result.x > b[0]` has ("a", "result", "x") and ("b", "0").

    A path ends before an index that is not a constant. Raises ExpressionError as `check_expression` does.
    """
    return list(dict.fromkeys(_paths(check_expression(text).value)))


def _paths(node: ast.expr) -> Iterator[tuple[str, ...]]:
    """Yields the paths of the names in an expression, each as far as it is constant."""
    keys: list[str] = []
    outer: ast.expr = node
    while not isinstance(outer, ast.Name):
        if isinstance(outer, ast.Attribute):
            keys.append(outer.attr)
            outer = outer.value
        elif isinstance(outer, ast.Subscript):
            key = _constant_key(outer)
            keys = [] if key is None else [*keys, key]
            if key is None:
                yield from _paths(outer.slice)
            outer = outer.value
        else:
            inner = outer.args if isinstance(outer, ast.Call) else ast.iter_child_nodes(outer)
            for each in inner:
                if isinstance(each, ast.expr):
                    yield from _paths(each)
            return
    if outer.id not in _CONSTANTS:
        yield (outer.id, *reversed(keys))


def _constant_key(node: ast.Subscript) -> str | None:
    """Returns the key or index of a subscript if it is a constant; the steps have names only."""
    key, sign = node.slice, ""
    if isinstance(key, ast.UnaryOp) and isinstance(key.op, ast.USub):
        key, sign = key.operand, "-"
    if not isinstance(key, ast.Constant) or isinstance(key.value, bool):
        return None
    if isinstance(key.value, str):
        return None if sign else key.value
    of_steps = isinstance(node.value, ast.Name) and node.value.id == STEPS
    return f"{sign}{key.value}" if isinstance(key.value, int) and not of_steps else None


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
        return self._item(node.value, node.attr)

    def _eval_subscript(self, node: ast.Subscript) -> Any:
        return self._item(node.value, self._eval(node.slice))

    def _item(self, node: ast.expr, key: Any) -> Any:
        return item_of(self._eval(node), key, ast.unparse(node))


def evaluate(text: str, names: Mapping[str, Any]) -> Any:
    """Returns the value of an expression over JSON values: a boolean, number, text or None, never an object.

    `names` raises MissingValueError for a name that has no value; this goes through. Raises ExpressionError
    if the expression is none, or its values don't go with each other.
    """
    node = check_expression(text)
    evaluator = _Evaluator(names)
    try:
        value = evaluator.eval(text, previously_parsed=node)
    except MissingValueError:
        raise
    except (InvalidExpression, TypeError, ValueError, ArithmeticError, LookupError, RecursionError) as error:
        message = f"{text!r} can't be evaluated: {error or type(error).__name__}"
        raise ExpressionError("bad_expression", message) from error
    if not isinstance(value, str | int | float | None):
        message = f"the value of {text!r} is a list or an object: compare it, or use len()"
        raise ExpressionError("bad_expression", message)
    if isinstance(value, int) and value.bit_length() > 63:
        raise ExpressionError("bad_expression", f"the value of {text!r} does not fit 64 bits")
    if isinstance(value, float) and value - value != 0:
        raise ExpressionError("bad_expression", f"the value of {text!r} is not finite")
    return value
