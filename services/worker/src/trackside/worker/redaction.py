"""Text that leaves a task: without unstorable characters and secrets, cut to size."""

import re

REDACTED = "[redacted]"
_SECRET = re.compile(
    r"AKIA[0-9A-Z]{16}|gh[pousr]_[A-Za-z0-9]{30,}|sk-[A-Za-z0-9_-]{20,}|xox[baprs]-[A-Za-z0-9-]{10,}"
    r"|hf_[A-Za-z0-9]{30,}|eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}"
    r"|(?<=://)[^/\s:@]+:[^/\s@]+(?=@)"
)
_ASSIGNED = re.compile(r"(?i)\b([\w-]*(?:password|passwd|secret|token|api[_-]?key))(\s*[=:]\s*)\S+")


def printable(text: str) -> str:
    """Returns text without NUL and lone surrogates, which Postgres and UTF-8 can't store."""
    return text.encode("utf-8", "replace").decode("utf-8").replace("\x00", "\\0")


def keep_end(text: str, limit_bytes: int) -> str:
    """Returns the end of a text, at most `limit_bytes` of UTF-8; one that is cut begins with `[cut]`."""
    octets = text.encode()
    if len(octets) <= limit_bytes:
        return text
    mark = "[cut]\n"
    return mark + octets[len(octets) - limit_bytes + len(mark) :].decode("utf-8", "ignore")


def redact(text: str) -> str:
    """Returns text without what looks like a secret: known prefixes, passwords in URLs, `password=...`."""
    return _ASSIGNED.sub(rf"\1\2{REDACTED}", _SECRET.sub(REDACTED, text))
