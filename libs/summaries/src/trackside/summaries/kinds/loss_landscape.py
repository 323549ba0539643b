"""The kind loss landscape: the loss around the weights of a training, in two directions."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from trackside.summaries.event_files.values import LossLandscape
from trackside.summaries.kinds import arrays
from trackside.summaries.kinds.bodies import (
    LEAST_INT64,
    numbers,
    pack_json,
    to_float,
    to_floats,
    to_integer,
    to_list,
    to_object,
    to_text,
    unpack_json,
)
from trackside.summaries.kinds.kind import BadValue, Body, Packed, SummaryKind
from trackside.summaries.kinds.text_lines import clip, counted

UNIT_CHARACTERS = 100


def pack(landscape: LossLandscape) -> Packed:
    """Returns a loss landscape as it is stored. Raises BadValue.

    The body has, as far as the landscape does: `shape` of the surface, `minimum` and `maximum` of its finite
    losses, `points` of the path, `converged`, `decomposition`, `unit` and `steps_per_epoch`.
    """
    description: Body = {
        "decomposition": clip(landscape.decomposition, UNIT_CHARACTERS),
        "unit": clip(landscape.unit, UNIT_CHARACTERS),
    }
    if landscape.z is not None:
        facts = arrays.statistics(landscape.z)
        description |= {"shape": list(landscape.z.shape), "minimum": facts.minimum, "maximum": facts.maximum}
    if landscape.path is not None:
        description["points"] = len(landscape.path[0])
    if landscape.converged is not None:
        description["converged"] = numbers(landscape.converged)
    if landscape.steps_per_epoch is not None:
        description["steps_per_epoch"] = landscape.steps_per_epoch
    return pack_json(description, _encode(landscape))


def _encode(landscape: LossLandscape) -> Body:
    value: Body = {"decomposition": landscape.decomposition, "unit": landscape.unit}
    for name, axis in (("x", landscape.x), ("y", landscape.y), ("z", landscape.z)):
        if axis is not None:
            value[name] = arrays.encode(axis)
    if landscape.path is not None:
        intervals, *coordinates = landscape.path
        value["path"] = [intervals, *map(numbers, coordinates)]
    if landscape.converged is not None:
        value["converged"] = numbers(landscape.converged)
    if landscape.steps_per_epoch is not None:
        value["steps_per_epoch"] = landscape.steps_per_epoch
    return value


def unpack(body: Body, data: bytes | None) -> LossLandscape:
    """Returns the loss landscape. Raises BadValue."""
    found = to_object(unpack_json(body, data), "a loss landscape")
    steps = found.get("steps_per_epoch")
    return LossLandscape(
        x=_axis(found.get("x")),
        y=_axis(found.get("y")),
        z=_axis(found.get("z")),
        path=None if found.get("path") is None else _path(found["path"]),
        converged=None if found.get("converged") is None else _point(found["converged"]),
        decomposition=to_text(found.get("decomposition"), "a decomposition"),
        unit=to_text(found.get("unit"), "the unit of a loss landscape"),
        steps_per_epoch=None if steps is None else to_integer(steps, "steps_per_epoch", least=LEAST_INT64),
    )


def lines(body: Body, width: int) -> list[str]:
    """Returns what the body has, a line for each fact."""
    found = []
    if "shape" in body:
        sizes = " x ".join(str(to_integer(size, "a size")) for size in to_list(body["shape"], "the shape"))
        losses = [body.get("minimum"), body.get("maximum")]
        span = "" if None in losses else " to ".join(f"{to_float(loss, 'a loss'):.5g}" for loss in losses)
        found.append(f"surface of {sizes}, loss {span or 'not finite'}")
    if "points" in body:
        found.append(f"path of {counted(to_integer(body['points'], 'points of the path'), 'point')}")
    if "converged" in body:
        x, y, loss = _point(body["converged"])
        found.append(f"converged at ({x:.5g}, {y:.5g}), loss {loss:.5g}")
    if body.get("decomposition"):
        found.append(f"directions by {body['decomposition']}")
    if body.get("unit"):
        steps = f", {body['steps_per_epoch']} steps in an epoch" if "steps_per_epoch" in body else ""
        found.append(f"intervals in {body['unit']}{steps}")
    return [clip(line, width) for line in found]


def _axis(value: object) -> NDArray[np.float64] | None:
    if value is None:
        return None
    array: NDArray[Any] = arrays.decode(value)
    if array.dtype != np.float64:
        raise BadValue(f"an axis of {array.dtype.name}", "float64")
    return array


def _path(value: object) -> tuple[list[int], list[float], list[float], list[float]]:
    parts = to_list(value, "the path")
    if len(parts) != 4:
        raise BadValue(f"a path of {counted(len(parts), 'list')}", "intervals, x, y and losses")
    intervals = [
        to_integer(each, "an interval", least=LEAST_INT64) for each in to_list(parts[0], "intervals")
    ]
    x, y, losses = (to_floats(part, "the path") for part in parts[1:])
    return intervals, x, y, losses


def _point(value: object) -> tuple[float, float, float]:
    coordinates = to_floats(value, "the end of the path")
    if len(coordinates) != 3:
        raise BadValue(f"an end of the path of {counted(len(coordinates), 'number')}", "x, y and loss")
    return coordinates[0], coordinates[1], coordinates[2]


LOSS_LANDSCAPE = SummaryKind("loss_landscape", page_size=500, pack=pack, unpack=unpack, lines=lines)
