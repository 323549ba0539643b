"""Type and size of an encoded image, read from its first bytes: nothing is decoded.

Sources: the specifications of PNG 1.2 (IHDR), GIF89a (screen descriptor), JPEG (ITU T.81, B.1 and B.2), WebP
(RIFF container, VP8, VP8L) and BMP (BITMAPCOREHEADER, BITMAPINFOHEADER).
"""

import struct
from typing import NamedTuple

UNKNOWN_TYPE = "application/octet-stream"
"""The media type of bytes that are none of these images. SVG is one of them: it can hold scripts."""
MAX_JPEG_SEGMENTS = 1_000
"""Segments before the size of a JPEG; the profiles and previews of a camera need about a hundred."""

_JPEG_WITHOUT_LENGTH = frozenset({0x01, *range(0xD0, 0xD9)})
_JPEG_SIZES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}


class ImageHeader(NamedTuple):
    """What the first bytes of an image say: its media type, and its size in pixels."""

    media_type: str
    width: int
    height: int


NOT_AN_IMAGE = ImageHeader(UNKNOWN_TYPE, 0, 0)


def image_header(data: bytes) -> ImageHeader:
    """Returns type and size of an image; NOT_AN_IMAGE for other bytes, and for a header that is damaged."""
    for media_type, begins, size_of in _FORMATS:
        if data.startswith(begins):
            try:
                width, height = size_of(data)
            except struct.error:
                return NOT_AN_IMAGE
            return ImageHeader(media_type, width, height) if width > 0 and height > 0 else NOT_AN_IMAGE
    return NOT_AN_IMAGE


def _png(data: bytes) -> tuple[int, int]:
    length, name, width, height = struct.unpack_from(">I4sII", data, 8)
    if length != 13 or name != b"IHDR" or max(width, height) >= 1 << 31:
        return 0, 0
    return width, height


def _gif(data: bytes) -> tuple[int, int]:
    if data[4:6] not in (b"7a", b"9a"):
        return 0, 0
    width, height = struct.unpack_from("<HH", data, 6)
    return width, height


def _jpeg(data: bytes) -> tuple[int, int]:
    at = 2
    for _ in range(MAX_JPEG_SEGMENTS):
        mark, code = struct.unpack_from(">BB", data, at)
        if mark != 0xFF:
            return 0, 0
        if code == 0xFF:  # a fill byte
            at += 1
        elif code in _JPEG_WITHOUT_LENGTH:
            at += 2
        elif code in _JPEG_SIZES:
            _, _, height, width = struct.unpack_from(">HBHH", data, at + 2)
            return width, height
        else:
            (length,) = struct.unpack_from(">H", data, at + 2)
            if length < 2:
                return 0, 0
            at += 2 + length
    return 0, 0


def _webp(data: bytes) -> tuple[int, int]:
    if data[8:12] != b"WEBP":
        return 0, 0
    chunk = data[12:16]
    if chunk == b"VP8X":
        low_width, high_width, low_height, high_height = struct.unpack_from("<HBHB", data, 24)
        return 1 + low_width + (high_width << 16), 1 + low_height + (high_height << 16)
    if chunk == b"VP8L" and data[20:21] == b"\x2f":
        (bits,) = struct.unpack_from("<I", data, 21)
        return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    if chunk == b"VP8 " and data[23:26] == b"\x9d\x01\x2a":
        width, height = struct.unpack_from("<HH", data, 26)
        return width & 0x3FFF, height & 0x3FFF
    return 0, 0


def _bmp(data: bytes) -> tuple[int, int]:
    (header_bytes,) = struct.unpack_from("<I", data, 14)
    if header_bytes == 12:
        width, height = struct.unpack_from("<HH", data, 18)
    elif 16 <= header_bytes <= 256:
        width, height = struct.unpack_from("<ii", data, 18)
    else:
        return 0, 0
    return width, abs(height)  # a negative height: the first row is the top one


_FORMATS = (
    ("image/png", b"\x89PNG\r\n\x1a\n", _png),
    ("image/jpeg", b"\xff\xd8\xff", _jpeg),
    ("image/gif", b"GIF8", _gif),
    ("image/webp", b"RIFF", _webp),
    ("image/bmp", b"BM", _bmp),
)
