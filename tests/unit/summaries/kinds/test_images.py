"""S21: the metadata of an image come from its first bytes; nothing is decoded."""

import io
import struct
import tracemalloc
import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image as Pictures

from trackside.summaries.event_files.values import Image
from trackside.summaries.kinds.image import IMAGE, NOT_AN_IMAGE, image_header

SAVED: list[tuple[str, dict[str, Any], str]] = [
    ("PNG", {}, "image/png"),
    ("JPEG", {}, "image/jpeg"),
    ("JPEG", {"progressive": True, "exif": b"Exif\0\0" + bytes(60_000)}, "image/jpeg"),
    ("JPEG", {"icc_profile": bytes(200_000)}, "image/jpeg"),
    ("GIF", {}, "image/gif"),
    ("WEBP", {}, "image/webp"),
    ("WEBP", {"lossless": True}, "image/webp"),
    ("WEBP", {"exif": b"Exif\0\0" + bytes(100)}, "image/webp"),
    ("BMP", {}, "image/bmp"),
]


def picture(name: str, size: tuple[int, int], **options: Any) -> bytes:
    file = io.BytesIO()
    Pictures.new("RGB", size, "red").save(file, name, **options)
    return file.getvalue()


@pytest.mark.parametrize(("name", "options", "media_type"), SAVED)
@pytest.mark.parametrize("size", [(1, 1), (3, 700), (640, 480), (1025, 2)])
def test_type_and_size_are_those_that_an_image_library_reads(
    name: str, options: dict[str, Any], media_type: str, size: tuple[int, int]
) -> None:
    assert image_header(picture(name, size, **options)) == (media_type, *size)


def test_a_bitmap_with_an_odd_header_and_a_jpeg_with_fill_bytes_before_its_size_have_their_size() -> None:
    rest = b"BM" + bytes(12)
    assert image_header(rest + struct.pack("<Iii", 40, 7, -5)) == ("image/bmp", 7, 5)
    assert image_header(rest + struct.pack("<IHH", 12, 7, 5)) == ("image/bmp", 7, 5)
    table = b"\xff\xc4\x00\x06\x11\x22\x33\x44"
    data = picture("JPEG", (7, 5))
    assert image_header(data[:2] + table + b"\xff\xff" + data[2:]) == ("image/jpeg", 7, 5)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b'<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><script>alert(1)</script></svg>',
        b'<?xml version="1.0"?><svg/>',
        b"<html><script>alert(1)</script></html>",
        b"\x89PNG\r\n\x1a\n<svg>",
        b"GIF8<svg width='100' height='100'><script>alert(1)</script></svg>",
        b"RIFF<svg width='100' height='100'><script>alert(1)</script></svg>",
        b"BM<svg width='100' height='100'><script>alert(1)</script></svg>",
        b"\xff\xd8\xff" + b"\xff" * 100_000,
        b"\xff\xd8" + b"\xff\xe0\x00\x02" * 100_000,
        b"\xff\xd8\xff\xe0\x00\x00",
        picture("PNG", (5, 5))[:20],
        b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII", 13, b"IHDR", 0, 5),
        b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII", 13, b"IHDR", 1 << 31, 5),
    ],
)
def test_what_is_no_image_has_no_image_type(data: bytes) -> None:
    """An SVG can hold a script: it is never given a type with which a browser would run it."""
    assert image_header(data) == NOT_AN_IMAGE
    packed = IMAGE.pack(Image(data, 30, 20))
    assert packed.media_type == packed.body["media_type"] == "application/octet-stream"
    assert (packed.body["width"], packed.body["height"]) == (30, 20)
    assert IMAGE.unpack(packed.body, packed.data) == Image(data, 30, 20)


@given(st.sampled_from([picture(name, (9, 8), **options) for name, options, _ in SAVED]), st.data())
def test_an_image_cut_at_any_byte_or_changed_has_a_type_or_none(whole: bytes, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, min(len(whole), 300)))
    image_header(whole[:at])
    image_header(whole[:at] + data.draw(st.binary(min_size=1, max_size=4)) + whole[at + 1 :])


def test_an_image_of_a_gigabyte_once_unpacked_costs_no_memory() -> None:
    side = 18_000  # 18,000 x 18,000 pixels of 3 bytes are 0.97 GB
    rows = zlib.compressobj()
    squeezed = b"".join(rows.compress(bytes(1 + 3 * side)) for _ in range(200)) + rows.flush()

    def chunk(name: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))

    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    bomb = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", squeezed) + chunk(b"IEND", b"")
    tracemalloc.start()
    try:
        packed = IMAGE.pack(Image(bomb, side, side))
        IMAGE.unpack(packed.body, packed.data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (packed.body["width"], packed.body["height"]) == (side, side)
    assert peak < 100_000


def test_the_size_that_the_writer_stated_is_kept_next_to_the_real_one() -> None:
    data = picture("PNG", (640, 480))
    packed = IMAGE.pack(Image(data, 0, 0))
    assert packed.body["stated"] == [0, 0] and (packed.body["width"], packed.body["height"]) == (640, 480)
    assert IMAGE.unpack(packed.body, packed.data) == Image(data, 0, 0)
    assert "stated" not in IMAGE.pack(Image(data, 640, 480)).body
