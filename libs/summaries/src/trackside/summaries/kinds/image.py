"""The kind image: an encoded picture, always an artifact; its body has type and size."""

import hashlib
import struct
from typing import NamedTuple

from trackside.summaries.event_files.values import Image
from trackside.summaries.kinds.bodies import LEAST_INT64, MAX_DATA_BYTES, to_integer, to_list
from trackside.summaries.kinds.kind import BadValue, Body, Packed, SummaryKind
from trackside.summaries.kinds.text_lines import clip, size_text


def pack(image: Image) -> Packed:
    """Returns an image as it is stored; `data` are its bytes as they were written.

    The body has `width` and `height` in pixels and `media_type`, all from the first bytes of the image,
    `size_bytes` and `sha256`. Bytes that are not a PNG, JPEG, GIF, WebP or BMP have the media type
    "application/octet-stream" and the size that their writer stated. `stated` is that size where it differs.
    Raises BadValue for an image of more than MAX_DATA_BYTES.
    """
    _check_length(image.data)
    header = image_header(image.data)
    stated = [image.width, image.height]
    size = stated if header.media_type == UNKNOWN_TYPE else [header.width, header.height]
    body: Body = {
        "width": size[0],
        "height": size[1],
        "media_type": header.media_type,
        "size_bytes": len(image.data),
        "sha256": hashlib.sha256(image.data).hexdigest(),
    }
    if size != stated:
        body["stated"] = stated
    return Packed(body, image.data, header.media_type)


def unpack(body: Body, data: bytes | None) -> Image:
    """Returns the image. Raises BadValue, also for bytes of another digest than the body has."""
    if data is None:
        raise BadValue("an image without data", "the bytes of its artifact")
    _check_length(data)
    digest = hashlib.sha256(data).hexdigest()
    if body.get("sha256") != digest:
        raise BadValue(f"an image with the digest {digest}", f"the digest {clip(body.get('sha256'), 64)}")
    size = to_list(body.get("stated", [body.get("width"), body.get("height")]), "the stated size")
    if len(size) != 2:
        raise BadValue(f"a stated size of {len(size)} numbers", "width and height")
    width, height = (to_integer(each, "a stated size", least=LEAST_INT64) for each in size)
    return Image(data, width, height)


def lines(body: Body, width: int) -> list[str]:
    """Returns type, size and digest as a line: `640x480 PNG, 12.3 KiB, sha256 1f2e3d4c5b6a`."""
    media_type = str(body.get("media_type"))
    name = media_type.removeprefix("image/").upper() if media_type.startswith("image/") else media_type
    size = f"{body.get('width')}x{body.get('height')}"
    length = size_text(to_integer(body.get("size_bytes"), "the size of an image"))
    return [clip(f"{size} {name}, {length}, sha256 {str(body.get('sha256'))[:12]}", width)]


def _check_length(data: bytes) -> None:
    if len(data) > MAX_DATA_BYTES:
        raise BadValue(f"an image of {len(data)} bytes", f"at most {MAX_DATA_BYTES} bytes")


IMAGE = SummaryKind("image", page_size=10, pack=pack, unpack=unpack, lines=lines)


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
