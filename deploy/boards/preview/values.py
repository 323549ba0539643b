"""Values as text, with the units of Grafana, and the colours of thresholds and mappings."""

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

COLOURS: Mapping[str, str] = {
    "green": "#73bf69",
    "blue": "#5794f2",
    "light-blue": "#8ab8ff",
    "super-light-blue": "#c0d8ff",
    "orange": "#ff9830",
    "red": "#f2495c",
    "dark-red": "#c4162a",
    "purple": "#b877d9",
    "yellow": "#fade2a",
    "text": "#343741",
}
PALETTE = (
    *("#73bf69", "#f2cc0c", "#8ab8ff", "#ff780a", "#f2495c", "#5794f2", "#b877d9", "#705da0", "#37872d"),
    *("#fade2a", "#447ebc", "#c15c17", "#890f02", "#0a437c", "#6d1f62", "#584477", "#b7dbab", "#f4d598"),
)
_TIMES = ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s"), (0.001, "ms"), (0.000001, "µs"))
_BYTES = ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"), (1, "B"))
_COUNTS = ((1e9, "B"), (1e6, "M"), (1e3, "K"))


def colour(name: str) -> str:
    """Returns a colour of Grafana as CSS has it."""
    return COLOURS.get(name, name)


def shown(value: Any, unit: str | None) -> str:
    """Returns a value as text in a unit of Grafana."""
    if value is None:
        return ""
    if isinstance(value, datetime):
        return value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")
    if isinstance(value, bool) or (not isinstance(value, int | float) and not hasattr(value, "as_tuple")):
        return str(value)
    number = float(value)
    match unit:
        case "s" | "ms":
            return _scaled(number / (1000 if unit == "ms" else 1), _TIMES)
        case "bytes" | "Bps":
            return _scaled(number, _BYTES) + ("/s" if unit == "Bps" else "")
        case "percentunit":
            return f"{_rounded(100 * number)}%"
        case "cps" | "cpm":
            return f"{_counted(number)} /{'s' if unit == 'cps' else 'min'}"
        case "short":
            return _counted(number)
        case _:
            return f"{number:.6g}" if abs(number) < 1e6 else f"{number:.0f}"


def _scaled(number: float, steps: Sequence[tuple[float, str]]) -> str:
    size, name = next((step for step in steps if abs(number) >= step[0]), steps[-1])
    return f"{_rounded(number / size)} {name}" if number else f"0 {'s' if steps is _TIMES else 'B'}"


def _counted(number: float) -> str:
    for size, name in _COUNTS:
        if abs(number) >= size:
            return f"{_rounded(number / size)} {name}"
    return _rounded(number)


def _rounded(number: float) -> str:
    return f"{number:.3g}" if abs(number) < 1000 else f"{number:.0f}"


def by_threshold(value: float | None, config: Mapping[str, Any]) -> str:
    """Returns the colour that the thresholds of a panel give a value."""
    found = "text"
    for step in config.get("thresholds", {}).get("steps", ()):
        if step.get("value") is None or (value is not None and value >= step["value"]):
            found = step["color"]
    return colour(found)


def mapped(value: Any, mappings: Sequence[Mapping[str, Any]]) -> tuple[str | None, str | None]:
    """Returns the text and the colour that the mappings of a panel give a value, each None without one."""
    key = f"{value:g}" if isinstance(value, float) else str(value)
    for mapping in mappings:
        result = mapping["options"].get(key)
        if result:
            return result.get("text"), colour(result["color"]) if "color" in result else None
    return None, None


def ticks(low: float, high: float, count: int = 5, unit: str | None = None) -> list[float]:
    """Returns round numbers of a unit between two others, about `count` of them."""
    if high <= low:
        return [low]
    sizes = {"s": _TIMES, "bytes": _BYTES, "Bps": _BYTES}.get(unit or "", ())
    one = next((size for size, _ in sizes if high >= size), 1.0)
    exact = (high - low) / one / count
    power = 10.0 ** math.floor(math.log10(exact))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= exact) * one
    first = math.ceil(low / step)
    return [(first + number) * step for number in range(count + 1) if (first + number) * step <= high]
