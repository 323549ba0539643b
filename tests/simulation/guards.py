"""The guards of a module, found in its source: each condition that refuses an event, and the code without it.

A function guards if its annotation says that it returns an outcome, or if it is named. Each `if` in it that
does nothing but return is a guard; of `a or b` each part is one. So is each part of `return a and b`, and the
states that a step must be in. The name of a guard is its function and condition.
"""

import ast
import copy
import inspect
import textwrap
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from types import FunctionType, ModuleType
from typing import Any

import pytest

from trackside.domain.outcome import Outcome

_Slot = tuple[Any, Any]
"""Where an expression is: a node and its field, or a list and an index."""


@dataclass(frozen=True)
class Guard:
    """A condition of a function of a module or class, and the function without it."""

    owner: ModuleType | type
    function: str
    condition: str
    without: ast.FunctionDef

    @property
    def name(self) -> str:
        """The function and the condition."""
        return f"{self.function}: {self.condition}"

    def remove(self, patch: pytest.MonkeyPatch, handlers: dict[Any, Callable[..., Outcome]]) -> None:
        """Replaces the function by the one without the condition, also among the handlers of events."""
        guarded = getattr(self.owner, self.function)
        tree = ast.fix_missing_locations(ast.Module([self.without], []))
        made: dict[str, Any] = {}
        exec(compile(tree, f"<without {self.name}>", "exec"), guarded.__globals__, made)  # noqa: S102 - a function of ours
        lax = made[self.function]
        patch.setattr(self.owner, self.function, lax)
        for kind in [kind for kind, handler in handlers.items() if handler is guarded]:
            patch.setitem(handlers, kind, lax)


def guards_of(owner: ModuleType | type, named: Collection[str] = ()) -> Iterator[Guard]:
    """Yields the guards of the functions of a module or class that return an outcome, or are named."""
    for name, function in inspect.getmembers(owner, inspect.isfunction):
        own = isinstance(owner, type) or function.__module__ == owner.__name__
        if own and ("Outcome" in str(function.__annotations__.get("return")) or name in named):
            yield from _guards_in(owner, name, function)


def unguarded(guards: Iterable[Guard]) -> Iterator[Guard]:
    """Yields each function of guards without any of its conditions."""
    for first in {guard.function: guard for guard in guards}.values():
        without = _tree(getattr(first.owner, first.function))
        for slot, instead in list(_conditions(without)):
            _put(slot, instead)
        yield Guard(first.owner, first.function, "all conditions", without)


def _guards_in(owner: ModuleType | type, name: str, function: FunctionType) -> Iterator[Guard]:
    tree = _tree(function)
    for at, (slot, _) in enumerate(_conditions(tree)):
        without = copy.deepcopy(tree)
        _put(*list(_conditions(without))[at])
        condition = _text(slot)
        yield Guard(owner, name, condition, without)


def _tree(function: FunctionType) -> ast.FunctionDef:
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    assert isinstance(tree, ast.FunctionDef)
    inner = (each for statement in tree.body if isinstance(statement, ast.If) for each in statement.body)
    seen = {*tree.body, *inner}
    hidden = [node for node in ast.walk(tree) if isinstance(node, ast.Return) and node not in seen]
    assert hidden == [], f"{function.__name__} returns deeper inside, where no guard is looked for"
    return tree


def _conditions(function: ast.FunctionDef) -> Iterator[tuple[_Slot, ast.expr]]:
    """Yields each condition of a function with what takes its place when it is removed."""
    for statement in function.body:
        match statement:
            case ast.If(body=[ast.Return(value=ast.Attribute() | ast.Constant() | ast.Name())]):
                if ast.unparse(statement.test) != "isinstance(step, Outcome)":  # what _step_in has refused
                    yield from _refusing((statement, "test"))
            case ast.Return(value=ast.BoolOp(op=ast.And(), values=parts)):
                yield from (((parts, at), ast.Constant(True)) for at in range(len(parts)))
            case ast.Return(value=ast.BoolOp(op=ast.Or(), values=parts)):
                yield (parts, 0), ast.Constant(None)
            case ast.Return(value=ast.IfExp() as choice):
                yield (choice, "test"), ast.Constant(True)
            case ast.Assign(value=ast.Call(func=ast.Name("_step_in"), args=arguments)):
                yield (arguments, 3), ast.Name("StepState", ast.Load())
            case ast.Assign(value=ast.Dict(values=rules)):
                for at, rule in enumerate(rules):
                    if not isinstance(rule, ast.Constant):
                        yield (rules, at), ast.Constant(True)


def _refusing(slot: _Slot) -> Iterator[tuple[_Slot, ast.expr]]:
    """Yields the parts of a condition each of which refuses, or the whole of one without parts."""
    match _get(slot):
        case ast.BoolOp(op=ast.Or(), values=parts):
            for at in range(len(parts)):
                yield from _refusing((parts, at))
        case ast.BoolOp(op=ast.And(), values=[*_, ast.BoolOp(op=ast.Or())] as parts):
            yield from _refusing((parts, len(parts) - 1))
        case _:
            yield slot, ast.Constant(False)


def _get(slot: _Slot) -> Any:
    holder, at = slot
    return holder[at] if isinstance(holder, list) else getattr(holder, at)


def _put(slot: _Slot, instead: ast.expr) -> None:
    holder, at = slot
    if isinstance(holder, list):
        holder[at] = instead
    else:
        setattr(holder, at, instead)


def _text(slot: _Slot) -> str:
    return ast.unparse(_get(slot))
