"""How far the newest samples of a dataset differ from earlier ones, as one number: detectors, by their names.

A detector compares columns of numbers. `ks` and `psi` are built in; an installed package adds another one
under the entry-point group `trackside.drift`.
"""

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import EntryPoint
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from trackside.contracts.envelope.message import Json
from trackside.contracts.envelope.refusals import nearest
from trackside.contracts.fleet.plugins import check_plugin_name, load_plugins, package_of

GROUP = "trackside.drift"
"""The entry-point group of detectors: name = "module:function", the function a Detector."""
DriftColumns = Sequence[Sequence[float]]
"""A sequence for each column, of as many numbers as there are samples; NaN where a sample has none."""
Detector = Callable[[DriftColumns, DriftColumns, Json], float]
"""Returns how far the columns of a window differ from those of the reference, with parameters of its own.

The larger the number, the more they differ; 0 if they don't. Both have the same columns. It raises ValueError
for parameters that it doesn't have.
"""
_Numbers = np.ndarray[Any, np.dtype[np.float64]]
_LEAST_SHARE = 1e-4
"""What psi takes for the share of a bin that has no number: the logarithm of 0 is infinite."""

_log = logging.getLogger("trackside.incremental")


class _KsParameters(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    combine: Literal["max", "mean"] = "max"


class _PsiParameters(_KsParameters):
    bins: int = Field(default=10, ge=2, le=1_000)


def ks(reference: DriftColumns, window: DriftColumns, parameters: Json) -> float:
    """Returns the statistic of the Kolmogorov-Smirnov test of two samples, from 0 to 1: `combine` of columns.

    That is the largest distance between the shares of numbers up to a value. What is not finite is left out;
    a column that has numbers on one side only has 1.
    """
    from scipy.stats import ks_2samp  # type: ignore[import-untyped]  # takes a second

    given = _KsParameters.model_validate(parameters)
    found = []
    for earlier, newest in zip(reference, window, strict=True):
        one, other = _finite(earlier), _finite(newest)
        if one.size and other.size:
            found.append(float(ks_2samp(one, other, method="asymp").statistic))
        else:
            found.append(float(one.size != other.size))
    return _combined(found, given.combine)


def psi(reference: DriftColumns, window: DriftColumns, parameters: Json) -> float:
    """Returns the population stability index, from 0: `combine` of columns. Over 0.25 is a large shift.

    The reference is divided into `bins` of as many numbers each. A value that fills one has a bin of its own,
    and so has what is not finite.
    """
    given = _PsiParameters.model_validate(parameters)
    found = []
    for earlier, newest in zip(reference, window, strict=True):
        edges = _edges(_finite(earlier), given.bins)
        one, other = _shares(earlier, edges), _shares(newest, edges)
        found.append(float(np.sum((other - one) * np.log(other / one))))
    return _combined(found, given.combine)


def _finite(column: Sequence[float]) -> _Numbers:
    numbers = np.asarray(column, dtype=np.float64)
    return numbers[np.isfinite(numbers)]


def _edges(known: _Numbers, bins: int) -> _Numbers:
    """Returns where bins begin that have as many numbers each."""
    if not known.size:
        return known
    found, counts = np.unique(np.quantile(known, np.linspace(0, 1, bins + 1)), return_counts=True)
    repeated = found[counts > 1]
    return np.unique(np.concatenate([found[1:-1], repeated, np.nextafter(repeated, np.inf)]))


def _shares(column: Sequence[float], edges: _Numbers) -> _Numbers:
    """Returns the share of a column in each bin, and last of what is not finite."""
    known = _finite(column)
    counts = np.bincount(np.searchsorted(edges, known, side="right"), minlength=edges.size + 1)
    shares = np.append(counts, len(column) - known.size) / max(1, len(column))
    return np.maximum(shares, _LEAST_SHARE)


def _combined(found: Sequence[float], combine: str) -> float:
    return max(found) if combine == "max" else math.fsum(found) / len(found)


BUILT_IN: Mapping[str, Detector] = {"ks": ks, "psi": psi}


def detectors() -> dict[str, Detector]:
    """Returns the built-in detectors and those of installed packages, by their names.

    One of a package that fails to load, or has the name of another one, is left out; a line of the log has
    the reason.
    """
    found, broken = load_plugins(GROUP, BUILT_IN, _loaded)
    for point, error in broken:
        _log.error("drift detector %r%s is not available: %s", point.name, package_of(point), error)
    return found


def _loaded(point: EntryPoint, found: Mapping[str, Detector]) -> Detector:
    check_plugin_name(point, found, BUILT_IN, "detector")
    detector = point.load()
    if not callable(detector):
        raise ValueError(f"{point.value} is a {type(detector).__name__}; expected a function")
    return detector  # type: ignore[no-any-return]  # what it takes shows when it is called


def find_detector(name: str) -> Detector:
    """Returns the detector of a name; raises ValueError if there is none, with the names that there are."""
    found = detectors()
    if name not in found:
        listed = ", ".join(sorted(found))
        raise ValueError(
            f"there is no drift detector {name!r}; expected one of: {listed}{nearest(name, found)}"
        )
    return found[name]


def measure_drift(name: str, reference: DriftColumns, window: DriftColumns, parameters: Json) -> float:
    """Returns what a detector finds, as a finite number from 0.

    Raises ValueError if there is no such detector, columns are missing, the detector doesn't have these
    parameters, or what it returns is no such number.
    """
    detector = find_detector(name)
    if not reference or len(reference) != len(window):
        message = f"the reference has {len(reference)} columns, the window {len(window)}"
        raise ValueError(f"{message}; expected the same columns, at least one")
    sizes = {len(column) for column in reference}, {len(column) for column in window}
    if any(len(size) != 1 or 0 in size for size in sizes):
        raise ValueError("the columns of the reference, or of the window, are empty or of several lengths")
    try:
        found = detector(reference, window, parameters)
    except ValidationError as error:
        first = error.errors()[0]
        at = ".".join(map(str, first["loc"]))
        raise ValueError(f"drift detector {name!r} has no such parameter: {at}: {first['msg']}") from None
    if isinstance(found, bool) or not isinstance(found, float | int) or not 0 <= found < math.inf:
        raise ValueError(f"drift detector {name!r} has returned {found!r}; expected a finite number from 0")
    return float(found)
