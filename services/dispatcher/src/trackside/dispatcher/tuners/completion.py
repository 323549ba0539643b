"""Draws the parameters that a user has left out of a trial: from the tuner's suggestion for it. Pure."""

import hashlib
import math
from collections.abc import Mapping
from typing import Any

from trackside.aggregates.search.space.axes import Axes, Axis
from trackside.aggregates.search.space.space import NAME


def complete(
    axes: Axes, given: Mapping[str, Any], suggested: Mapping[str, Any], seed: int, path: str = ""
) -> dict[str, Any]:
    """Returns given parameters, with what is missing from what a tuner suggests for the trial.

    What the suggestion lacks, such as the parameters of a sub-space that it didn't choose, is drawn at
    random, each parameter by the seed and its path alone.
    """
    found: dict[str, Any] = {}
    for name, axis in axes.items():
        here = f"{path}.{name}"
        if name not in given:
            found[name] = suggested[name] if name in suggested else _drawn(axis, seed, here)
            continue
        value, branch = given[name], _branch_of(axis, given[name])
        found[name] = value
        if branch is not None:
            other = suggested.get(name)
            same = isinstance(other, Mapping) and other.get(NAME) == value[NAME]
            members = complete(branch, _members(value), _members(other) if same else {}, seed, here)
            found[name] = {NAME: value[NAME], **members}
    return {**given, **found}


def _members(value: Any) -> dict[str, Any]:
    return {name: member for name, member in value.items() if name != NAME}


def _branch_of(axis: Axis, value: Any) -> Axes | None:
    """Returns the axes of the sub-space that a value chooses; None for another value, or one outside."""
    if not axis.branches:
        return None
    try:
        return axis.branches.get(axis.encode(value))
    except (ValueError, TypeError, OverflowError):
        return None


def _drawn(axis: Axis, seed: int, path: str) -> Any:
    share = _share(seed, path)
    match axis.scale:
        case "index" | "integer":
            code: Any = int(axis.low) + int(share * (int(axis.high) - int(axis.low) + 1))
        case "linear":
            code = axis.low + share * (axis.high - axis.low)
        case "log":
            log_low, log_high = math.log(axis.low), math.log(axis.high)
            code = min(max(math.exp(log_low + share * (log_high - log_low)), axis.low), axis.high)
    branch = (axis.branches or {}).get(code)
    value = axis.decode(code)
    return value if branch is None else {NAME: value, **complete(branch, {}, {}, seed, path)}


def _share(seed: int, path: str) -> float:
    """Returns a number from 0 to 1, without 1: the first 53 bits of BLAKE2b("seed/path")."""
    digest = hashlib.blake2b(f"{seed}/{path}".encode(), digest_size=8).digest()
    return (int.from_bytes(digest, "big") >> 11) / 2**53
