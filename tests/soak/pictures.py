"""Pictures of a run as PNG: memory, disk, events and faults over time."""

import base64
import io
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tests.soak.records import FaultRecord
from tests.soak.slopes import MOST_SAMPLES

MIB = 2**20
WIDTH, HEIGHT = 11.0, 3.6
Sample = dict[str, Any]


def pictures(samples: Sequence[Sample], faults: Sequence[FaultRecord]) -> dict[str, str]:
    """Returns the pictures by their titles, as URLs that contain them."""
    if len(samples) < 2:
        return {}
    thin = samples[:: max(1, len(samples) // (4 * MOST_SAMPLES))]
    drawn: dict[str, Callable[[Axes], None]] = {
        "Memory of each process (PSS, MiB)": lambda axes: _memory(axes, thin),
        "Open files of each process": lambda axes: _files(axes, thin),
        "Disk by what it is for (MiB)": lambda axes: _disk(axes, thin),
        "Events a second, lag, and faults": lambda axes: _events(axes, thin, faults),
    }
    return {title: _png(draw) for title, draw in drawn.items()}


def _minutes(samples: Sequence[Sample]) -> list[float]:
    return [each["at_s"] / 60 for each in samples]


def _memory(axes: Axes, samples: Sequence[Sample]) -> None:
    _lines_of_processes(axes, samples, "pss", MIB)


def _files(axes: Axes, samples: Sequence[Sample]) -> None:
    _lines_of_processes(axes, samples, "files", 1)


def _lines_of_processes(axes: Axes, samples: Sequence[Sample], field: str, scale: int) -> None:
    names = sorted({name for each in samples for name in each["processes"]})
    for name in names:
        values = [
            each["processes"][name][field] / scale if name in each["processes"] else float("nan")
            for each in samples
        ]
        axes.plot(_minutes(samples), values, label=name, linewidth=1)
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), fontsize=8)


def _disk(axes: Axes, samples: Sequence[Sample]) -> None:
    names = sorted({name for each in samples for name in each["disk"]})
    rows = [[each["disk"].get(name, 0) / MIB for each in samples] for name in names]
    axes.stackplot(_minutes(samples), rows, labels=names)
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), fontsize=8)


def _events(axes: Axes, samples: Sequence[Sample], faults: Sequence[FaultRecord]) -> None:
    minutes = _minutes(samples)
    rates = [
        (after["events"] - before["events"]) / max(0.1, after["at_s"] - before["at_s"])
        for before, after in pairwise(samples)
    ]
    axes.plot(minutes[1:], rates, label="events/s", linewidth=1)
    axes.plot(minutes, [each["lag_s"] for each in samples], label="lag, s", linewidth=1)
    top = max([*rates, 1.0])
    kinds = sorted({each.kind for each in faults})
    for number, kind in enumerate(kinds):
        at = [each.at_s / 60 for each in faults if each.kind == kind]
        axes.plot(at, [-top * 0.05 * (number + 1)] * len(at), "|", label=kind, markersize=6)
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), fontsize=8)


def _png(draw: Callable[[Axes], None]) -> str:
    figure = Figure(figsize=(WIDTH, HEIGHT), layout="constrained")
    axes = figure.subplots()
    draw(axes)
    axes.set_xlabel("minutes")
    axes.grid(visible=True, alpha=0.3)
    written = io.BytesIO()
    figure.savefig(written, format="png", dpi=110)
    return "data:image/png;base64," + base64.b64encode(written.getvalue()).decode()
