"""Text that leaves a task: without characters that can't be stored, cut to size."""

from trackside.contracts.redaction import LineRedactor, redact

MAX_LINE_CHARACTERS = 8_192
LAST_CHARACTERS = 2_048
"""How much of its end is kept of a longer line."""


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


def shown_line(line: str, redactor: LineRedactor) -> str:
    """Returns a line as it is published: without secrets; of a long one the beginning and the end."""
    first = redactor.redact(printable(line[:MAX_LINE_CHARACTERS]))
    if len(line) <= MAX_LINE_CHARACTERS:
        return first
    last = redact(printable(line[-MAX_LINE_CHARACTERS:]))[-LAST_CHARACTERS:]
    left_out = len(line) - MAX_LINE_CHARACTERS
    return f"{first[: MAX_LINE_CHARACTERS - LAST_CHARACTERS]} [{left_out} characters left out] {last}"
