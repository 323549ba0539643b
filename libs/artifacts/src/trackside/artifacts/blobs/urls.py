"""URLs of stores: a path, `file://`, `s3://` or any protocol of fsspec, and never a secret in one."""

from pathlib import Path
from urllib.parse import unquote, urlsplit

from pydantic_core import PydanticCustomError

from trackside.contracts.tasks.artifacts import check_url

EXPECTED = "expected an absolute path, file:///path, s3://bucket/prefix or another URL of fsspec"


def check_store_url(url: str) -> str:
    """Returns the URL of a store, or an empty one; ValueError, which repeats no secret, for another text."""
    if not url:
        return url
    check_url(url)
    if "://" not in url and not url.startswith("/"):
        raise PydanticCustomError("bad_url", "not the URL of a store: {expected}", {"expected": EXPECTED})
    if path := local_path(url):
        if not path.is_absolute() or ".." in path.parts:
            raise PydanticCustomError("bad_url", "not an absolute path: {expected}", {"expected": EXPECTED})
    elif urlsplit(url).query or urlsplit(url).fragment:
        raise PydanticCustomError(
            "bad_url", "the URL has a query or a fragment: {expected}", {"expected": EXPECTED}
        )
    return url


def local_path(url: str) -> Path | None:
    """Returns the path that a URL names on this host, None for one of another protocol."""
    if url.startswith("/"):
        return Path(url)
    parts = urlsplit(url)
    if parts.scheme == "file" and parts.netloc in ("", "localhost"):
        return Path(unquote(parts.path))
    return None
