"""Text that leaves a task: without characters that can't be stored, cut to size."""

import re
from functools import lru_cache
from hashlib import blake2b

from trackside.contracts.envelope.redaction import LineRedactor, mask_secrets, redact

MAX_LINE_CHARACTERS = 8_192
LAST_CHARACTERS = 2_048
"""How much of its end is kept of a longer line."""
MAX_TAG_CHARACTERS = 256
"""Characters of a tag; a longer one has its beginning, and a digest that keeps it apart from others."""
NO_TAG = "(no tag)"
_DIGEST_BYTES = 4
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def printable(text: str) -> str:
    """Returns text without NUL and lone surrogates, which Postgres and UTF-8 can't store."""
    return text.encode("utf-8", "replace").decode("utf-8").replace("\x00", "\\0")


@lru_cache(maxsize=1_024)
def tag_text(tag: str) -> str:
    """Returns a tag as it is published: a record with one that can't be indexed would be a dead letter.

    Control characters become `\\n` or `\\x1b`, what looks like a secret `[redacted]`. A tag without
    characters is "(no tag)".
    """
    shown = _CONTROL.sub(lambda found: repr(found[0])[1:-1], mask_secrets(printable(tag))) or NO_TAG
    if len(shown) <= MAX_TAG_CHARACTERS:
        return shown
    digest = blake2b(shown.encode(), digest_size=_DIGEST_BYTES).hexdigest()
    return f"{shown[: MAX_TAG_CHARACTERS - len(digest) - 1]}~{digest}"


def keep_end(text: str, limit_bytes: int) -> str:
    """Returns the end of a text, at most `limit_bytes` of UTF-8; one that is cut begins with `[cut]`."""
    octets = text.encode()
    if len(octets) <= limit_bytes:
        return text
    mark = "[cut]\n"
    return mark + octets[len(octets) - limit_bytes + len(mark) :].decode("utf-8", "ignore")


def shown_line(line: str, redactor: LineRedactor) -> str:
    """Returns a line as it is published: without secrets; of a long one the beginning and the end."""
    first = redactor.redact(printable(line[:MAX_LINE_CHARACTERS]))
    if len(line) <= MAX_LINE_CHARACTERS:
        return first
    last = redact(printable(line[-MAX_LINE_CHARACTERS:]))[-LAST_CHARACTERS:]
    left_out = len(line) - MAX_LINE_CHARACTERS
    return f"{first[: MAX_LINE_CHARACTERS - LAST_CHARACTERS]} [{left_out} characters left out] {last}"
