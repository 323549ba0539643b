"""The files in static/: their addresses have a digest, so that browsers may keep them without asking."""

import mimetypes
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib import resources
from importlib.resources.abc import Traversable

DIGEST_CHARACTERS = 12
_TYPES = {".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml"}


@dataclass(frozen=True, slots=True)
class Asset:
    """A file of static/ with its media type."""

    body: bytes
    media_type: str


@cache
def assets() -> dict[str, Asset]:
    """Returns all files by their path in static/."""
    found: dict[str, Asset] = {}

    def add(folder: Traversable, prefix: str) -> None:
        for each in folder.iterdir():
            if each.is_dir():
                add(each, f"{prefix}{each.name}/")
            else:
                found[prefix + each.name] = Asset(each.read_bytes(), _media_type(each.name))

    add(resources.files("trackside.console") / "static", "")
    return found


@cache
def release() -> str:
    """Returns a digest of all files: it is in their addresses, since modules import each other by path."""
    digest = sha256()
    for path, asset in sorted(assets().items()):
        digest.update(path.encode() + b"\0" + asset.body)
    return digest.hexdigest()[:DIGEST_CHARACTERS]


def address(path: str) -> str:
    """Returns the address of a file; raises KeyError if there is none."""
    assets()[path]
    return f"/static/{release()}/{path}"


def _media_type(name: str) -> str:
    suffix = name[name.rfind(".") :]
    return _TYPES.get(suffix) or mimetypes.guess_type(name)[0] or "application/octet-stream"
