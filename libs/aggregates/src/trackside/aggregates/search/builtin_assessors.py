"""The built-in assessors by name: their options, checked before a search starts. Pure.

The advisor process creates them, by `search_assessor.make_rule`.
"""

from collections.abc import Collection, Mapping
from itertools import combinations

from trackside.aggregates.search.options import (
    Either,
    Fault,
    Fraction,
    Integer,
    Number,
    OneOf,
    OptionTypes,
    WrappedAssessor,
    options_fault,
    remote_name_fault,
)

_INTERVAL: OptionTypes = {"n_warmup_steps": Integer(0), "interval_steps": Integer(1)}
_PERCENTILE: OptionTypes = {**_INTERVAL, "n_startup_trials": Integer(0), "n_min_trials": Integer(1)}
_AUTO = OneOf(("auto",))
_HALVING: OptionTypes = {
    "min_resource": Either(Integer(1), _AUTO),
    "reduction_factor": Integer(2, 1_000),
    "min_early_stopping_rate": Integer(0, 100),
    "bootstrap_count": Integer(0),
}
ASSESSORS: Mapping[str, OptionTypes] = {
    "median": _PERCENTILE,
    "percentile": {**_PERCENTILE, "percentile": Number(0, 100)},
    "successive-halving": _HALVING,
    "asha": _HALVING,
    "hyperband": {
        "min_resource": Integer(1),
        "max_resource": Either(Integer(1, 1_000_000_000), _AUTO),
        "reduction_factor": Integer(2, 1_000),
        "bootstrap_count": Integer(0),
    },
    "threshold": {**_INTERVAL, "lower": Number(), "upper": Number()},
    "patient": {"patience": Integer(0), "min_delta": Number(0), "wrapped": WrappedAssessor()},
    "wilcoxon": {"p_threshold": Fraction(), "n_startup_steps": Integer(0)},
    "curve-fitting": {
        "epochs": Integer(1, 1_000_000_000),
        "start_step": Integer(3),
        "threshold": Fraction(),
        "gap": Integer(1),
    },
}
"""The options that each may have; `asha` is another name of `successive-halving`."""
_REQUIRED = {"percentile": "percentile", "patient": "patience", "curve-fitting": "epochs"}


def check_assessor(assessor: Mapping[str, object], plugins: Collection[str] = ()) -> Fault | None:
    """Returns what is wrong with an assessor's name or options: a JSON path and a message, or None.

    `plugins` are the names of installed assessors, which check their options themselves, as remote ones do.
    """
    if assessor.get("remote"):
        return remote_name_fault("$.assessor", assessor.get("name"))
    if assessor.get("name") in plugins and assessor.get("name") not in ASSESSORS:
        return None
    return _check_assessor("$.assessor", assessor, plugins)


def _check_assessor(path: str, assessor: Mapping[str, object], plugins: Collection[str]) -> Fault | None:
    fault = options_fault(path.removeprefix("$."), assessor, ASSESSORS, plugins=plugins, kind="assessor")
    if fault:
        return fault
    name, options = str(assessor["name"]), assessor.get("options") or {}
    assert isinstance(options, Mapping)
    needed = _REQUIRED.get(name)
    if needed is not None and needed not in options:
        return f"{path}.options.{needed}", f"missing option {needed!r} of assessor {name}"
    return _special_fault(f"{path}.options", name, options)


def _special_fault(path: str, name: str, options: Mapping[str, object]) -> Fault | None:
    """Returns options that exclude each other."""
    bootstraps = bool(options.get("bootstrap_count"))
    match name:
        case "successive-halving" | "asha" if bootstraps and options.get("min_resource", "auto") == "auto":
            return f"{path}.bootstrap_count", "bootstrap_count needs a number as min_resource"
        case "hyperband":
            return _hyperband_fault(path, options, bootstraps)
        case "threshold":
            bounds = [options[bound] for bound in ("lower", "upper") if bound in options]
            if not bounds:
                return path, "assessor threshold needs lower, upper or both"
            if any(low > high for low, high in combinations(bounds, 2)):  # type: ignore[operator]
                return f"{path}.upper", f"upper {bounds[1]} is below lower {bounds[0]}"
        case "patient" if "wrapped" in options:
            return _wrapped_fault(f"{path}.wrapped", options["wrapped"])
    return None


def _hyperband_fault(path: str, options: Mapping[str, object], bootstraps: bool) -> Fault | None:
    least, most = options.get("min_resource", 1), options.get("max_resource", "auto")
    if bootstraps and most == "auto":
        return f"{path}.bootstrap_count", "bootstrap_count needs a number as max_resource"
    if isinstance(least, int) and isinstance(most, int) and most < least:
        return f"{path}.max_resource", f"max_resource {most} is below min_resource {least}"
    return None


def _wrapped_fault(path: str, wrapped: object) -> Fault | None:
    assert isinstance(wrapped, Mapping)
    if wrapped.get("name") == "patient":
        return f"{path}.name", "patient wraps another assessor, not itself"
    return _check_assessor(path, wrapped, ())
