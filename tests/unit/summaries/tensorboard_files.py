from pathlib import Path
from typing import Any

import numpy as np
from tensorboard.backend.event_processing.event_file_loader import LegacyEventFileLoader
from tensorboard.util import tensor_util

from trackside.summaries.event_files.milliseconds import milliseconds
from trackside.summaries.event_files.reading import Piece, read
from trackside.summaries.event_files.values import Columns

Points = dict[str, list[tuple[int, int, float]]]


def scalars_of_tensorboard(path: Path) -> Points:
    """Returns (step, milliseconds, value) of each scalar by tag, as TensorBoard reads the file."""
    points: Points = {}
    plugins: dict[str, str] = {}
    for event in LegacyEventFileLoader(str(path)).Load():
        for value in event.summary.value:
            plugin = value.metadata.plugin_data.plugin_name or plugins.get(value.tag, "")
            plugins[value.tag] = plugin
            if value.HasField("simple_value"):
                number = value.simple_value
            elif plugin == "scalars":
                number = float(tensor_util.make_ndarray(value.tensor))
            else:
                continue
            row = (event.step, milliseconds(event.wall_time), number)
            points.setdefault(value.tag, []).append(row)
    return points


def values_of_tensorboard(path: Path) -> list[Any]:
    return [value for event in LegacyEventFileLoader(str(path)).Load() for value in event.summary.value]


def scalars_of(pieces: list[Piece]) -> Points:
    columns: dict[str, Columns] = {}
    for piece in pieces:
        for segment in piece.decoded.segments:
            for tag, found in segment.scalars.items():
                column = columns.setdefault(tag, Columns())
                column.steps += found.steps
                column.times_ms += found.times_ms
                column.values += found.values
    return {tag: list(zip(it.steps, it.times_ms, it.values, strict=True)) for tag, it in columns.items()}


def items_of(pieces: list[Piece]) -> list[Any]:
    return [item for piece in pieces for segment in piece.decoded.segments for item in segment.items]


def only_file(folder: Path) -> Path:
    (path,) = folder.glob("events.out.tfevents.*")
    return path


def same(first: Points, second: Points) -> bool:
    """Returns whether two files hold the same points; NaN equals NaN."""
    return first.keys() == second.keys() and all(
        np.array_equal(np.array(first[tag]), np.array(second[tag]), equal_nan=True) for tag in first
    )


def whole(path: Path) -> list[Piece]:
    return list(read(str(path)))
