"""The built-in assessors by name: their options, checked before a search starts. Pure.

The advisor process creates them, by `search_assessor.make_rule`.
"""

from collections.abc import Collection, Iterator, Mapping
from itertools import islice
from typing import Any

from trackside.aggregates.search.space.options import (
    Either,
    Fault,
    Fraction,
    Integer,
    Number,
    OneOf,
    OptionTypes,
    WrappedAssessor,
    check_options,
    remote_name_faults,
)
from trackside.contracts.envelope.refusals import MAX_PROBLEMS

_INTERVAL: OptionTypes = {"n_warmup_steps": Integer(0), "interval_steps": Integer(1)}
_PERCENTILE: OptionTypes = {**_INTERVAL, "n_startup_trials": Integer(0), "n_min_trials": Integer(1)}
_AUTO = OneOf(("auto",))
_MODE = OneOf(("stop", "promote"))
_HALVING: OptionTypes = {
    "min_resource": Either(Integer(1), _AUTO),
    "reduction_factor": Integer(2, 1_000),
    "min_early_stopping_rate": Integer(0, 100),
    "bootstrap_count": Integer(0),
    "mode": _MODE,
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
        "mode": _MODE,
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


def check_assessor(assessor: Mapping[str, object], plugins: Collection[str] = ()) -> list[Fault]:
    """Returns what is wrong with an assessor's name and options: JSON paths and messages.

    `plugins` are the names of installed assessors, which check their options themselves, as remote ones do.
    """
    if assessor.get("remote"):
        return remote_name_faults("$.assessor", assessor.get("name"))
    if assessor.get("name") in plugins and assessor.get("name") not in ASSESSORS:
        return []
    return list(islice(_faults("$.assessor", assessor, plugins), MAX_PROBLEMS))


def _faults(path: str, assessor: Mapping[str, object], plugins: Collection[str]) -> Iterator[Fault]:
    place = path.removeprefix("$.")
    wrong, options = check_options(place, assessor, ASSESSORS, plugins=plugins, kind="assessor")
    yield from wrong
    if options is None:
        return
    name = str(assessor["name"])
    needed = _REQUIRED.get(name)
    if needed is not None and needed not in options:
        yield f"{path}.options.{needed}", f"missing option {needed!r} of assessor {name}"
    if name == "threshold" and not {"lower", "upper"} & options.keys():
        yield f"{path}.options", "assessor threshold needs lower, upper or both"
    yield from _option_conflicts(f"{path}.options", name, options)


def _option_conflicts(path: str, name: str, options: Mapping[str, Any]) -> Iterator[Fault]:
    """Yields options that exclude each other, and what is wrong with a wrapped assessor."""
    bootstraps = bool(options.get("bootstrap_count"))
    if options.get("mode") == "promote":
        tuner = "hyperband" if name == "hyperband" else "asha"
        yield (
            f"{path}.mode",
            f"an assessor stops trials; the tuner {tuner} promotes them: leave the assessor out, and write "
            f"tuner: {{name: {tuner}, options: {{max_resource: STEPS}}}}",
        )
    match name:
        case "successive-halving" | "asha" if bootstraps and options.get("min_resource", "auto") == "auto":
            yield f"{path}.bootstrap_count", "bootstrap_count needs a number as min_resource"
        case "hyperband":
            yield from _hyperband_faults(path, options, bootstraps)
        case "threshold":
            lower, upper = options.get("lower"), options.get("upper")
            if lower is not None and upper is not None and lower > upper:
                yield f"{path}.upper", f"upper {upper} is below lower {lower}"
        case "patient" if options.get("wrapped") is not None:
            yield from _wrapped_faults(f"{path}.wrapped", options["wrapped"])


def _hyperband_faults(path: str, options: Mapping[str, Any], bootstraps: bool) -> Iterator[Fault]:
    least, most = options.get("min_resource", 1), options.get("max_resource", "auto")
    if bootstraps and most == "auto":
        yield f"{path}.bootstrap_count", "bootstrap_count needs a number as max_resource"
    if isinstance(least, int) and isinstance(most, int) and most < least:
        yield f"{path}.max_resource", f"max_resource {most} is below min_resource {least}"


def _wrapped_faults(path: str, wrapped: Mapping[str, Any]) -> Iterator[Fault]:
    if wrapped.get("name") == "patient":
        yield f"{path}.name", "patient wraps another assessor, not itself"
    else:
        yield from _faults(path, wrapped, ())
