"""The kind image: an encoded picture, always an artifact; its body has type and size."""

import hashlib

from trackside.summaries.event_files.values import Image
from trackside.summaries.kinds.bodies import LEAST_INT64, MAX_DATA_BYTES, to_integer, to_list
from trackside.summaries.kinds.image_headers import UNKNOWN_TYPE, image_header
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
