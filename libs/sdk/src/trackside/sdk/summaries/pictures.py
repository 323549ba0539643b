"""Pictures from arrays, encoded as PNG by the standard library (https://www.w3.org/TR/png-3/)."""

import struct
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trackside.sdk.summaries.arrays import array_of
from trackside.summaries.event_files.values import Image

GRID_COLUMNS = 8
"""How many pictures of a batch are next to each other."""
_COLOR_TYPES = {1: 0, 2: 4, 3: 2, 4: 6}
"""The colour type of PNG by the number of channels: gray, gray and alpha, RGB, RGB and alpha."""
_FILTER_UP = 2
_COMPRESSION = 6


def image_of(value: Any, dataformats: str) -> Image:
    """Returns an array as a picture: bytes as they are, other numbers from 0 to 1.

    `dataformats` names its axes: HW, CHW, HWC, NCHW, NHWC or others of these letters. A batch becomes a grid
    of 8 columns. Raises ValueError for axes that don't fit.
    """
    pixels = _as_bytes(_height_width_channels(array_of(value), dataformats.upper()))
    return encoded_image(pixels)


def figure_image(figures: Any, close: bool) -> Image:
    """Returns a figure of matplotlib as a picture, a list of them as a grid; closes them if `close`."""
    if not isinstance(figures, Sequence):
        return encoded_image(_drawn(figures, close))
    drawn = np.stack([_drawn(figure, close) for figure in figures])
    return encoded_image(_grid(drawn))


def encoded_image(pixels: NDArray[np.uint8]) -> Image:
    """Returns pixels of shape (height, width, channels) as a PNG; 1 to 4 channels."""
    height, width, _ = pixels.shape
    return Image(png(pixels), width, height)


def png(pixels: NDArray[np.uint8]) -> bytes:
    """Returns a PNG of 8 bits per channel; each row is stored as its difference to the one above."""
    height, width, channels = pixels.shape
    rows = np.ascontiguousarray(pixels).reshape(height, width * channels)
    filtered = np.empty((height, width * channels + 1), np.uint8)
    filtered[:, 0] = _FILTER_UP
    filtered[:1, 1:] = rows[:1]
    filtered[1:, 1:] = rows[1:] - rows[:-1]  # modulo 256, as the format has it
    header = struct.pack(">IIBBBBB", width, height, 8, _COLOR_TYPES[channels], 0, 0, 0)
    data = zlib.compress(filtered.tobytes(), _COMPRESSION)
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", header) + _chunk(b"IDAT", data) + _chunk(b"IEND", b"")


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def _height_width_channels(array: NDArray[Any], axes: str) -> NDArray[Any]:
    """Returns a picture with its axes in this order; a batch becomes one picture."""
    known = {"HW", "CHW", "NCHW"}
    wanted = next((each for each in known if sorted(each) == sorted(axes)), None)
    if wanted is None:
        raise ValueError(f"dataformats: expected the letters HW, CHW or NCHW in any order, got {axes!r}")
    if array.ndim != len(axes):
        raise ValueError(f"an image of shape {array.shape} doesn't have the axes {axes!r} of dataformats")
    order = {"HW": "HW", "CHW": "HWC", "NCHW": "NHWC"}[wanted]
    array = array.transpose([axes.index(axis) for axis in order])
    if wanted == "HW":
        array = array[:, :, None]
    if array.shape[-1] not in _COLOR_TYPES or 0 in array.shape:
        raise ValueError(
            f"an image has 1 to 4 channels and at least a pixel; the axes {order} have {array.shape}"
        )
    return _grid(array) if wanted == "NCHW" else array


def _grid(pictures: NDArray[Any]) -> NDArray[Any]:
    """Returns pictures of shape (number, height, width, channels) as one, row by row; what is left is 0."""
    number, height, width, channels = pictures.shape
    columns = min(number, GRID_COLUMNS)
    rows = -(-number // columns)
    cells = np.zeros((rows * columns, height, width, channels), pictures.dtype)
    cells[:number] = pictures
    grid = cells.reshape(rows, columns, height, width, channels).swapaxes(1, 2)
    return grid.reshape(rows * height, columns * width, channels)


def _as_bytes(pixels: NDArray[Any]) -> NDArray[np.uint8]:
    if pixels.dtype == np.uint8:
        return pixels
    return (np.nan_to_num(pixels.astype(np.float32)).clip(0, 1) * 255).astype(np.uint8)


def _drawn(figure: Any, close: bool) -> NDArray[np.uint8]:
    """Returns the pixels of a figure; whichever canvas it has, matplotlib draws it for this once with Agg."""
    import io
    import sys

    buffer = io.BytesIO()
    figure.savefig(buffer, format="rgba", dpi=figure.dpi, bbox_inches=figure.bbox_inches)
    width, height = (int(size) for size in figure.bbox.size)
    if close and (pyplot := sys.modules.get("matplotlib.pyplot")) is not None:
        pyplot.close(figure)
    pixels = np.frombuffer(buffer.getvalue(), np.uint8).reshape(height, width, 4)
    return np.ascontiguousarray(pixels[:, :, :3])
