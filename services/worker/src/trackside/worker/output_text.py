"""Text that leaves a task: without characters that can't be stored, cut to size."""


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
