"""Text for a terminal and for descriptions: without control characters, cut to a width."""

_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(10), *range(11, 32), *range(127, 160))} | {9: "\\t"}
BAR = "█"


def printable(text: str) -> str:
    """Returns a text with its control characters escaped and lone surrogates replaced; lines stay lines."""
    if text.isprintable():
        return text
    return text.translate(_CONTROLS).encode("utf-8", "replace").decode()


def clip(text: object, characters: int) -> str:
    """Returns a text as one printable line of at most that many characters; one that is cut ends in `...`."""
    line = printable(str(text)[: characters + 1]).replace("\n", "\\n")
    return line if len(line) <= characters else f"{line[: max(characters - 3, 0)]}..."[:characters]


def bar(share: float, characters: int) -> str:
    """Returns a bar as long as a share, 0 to 1, of a width; a share above 0 is seen."""
    return BAR * max(round(share * characters), 1 if share > 0 and characters > 0 else 0)


def size_text(size_bytes: int) -> str:
    """Returns a number of bytes with its unit: `512 B`, `12.3 KiB`, `4.0 MiB`."""
    if size_bytes < 1024:
        return f"{size_bytes} B"
    if size_bytes < 1024 * 1024:
        return f"{size_bytes / 1024:.1f} KiB"
    return f"{size_bytes / (1024 * 1024):.1f} MiB"


def counted(count: int, what: str) -> str:
    """Returns a number of things: `1 node`, `1,200 nodes`."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def table(rows: list[tuple[str, str]], width: int) -> list[str]:
    """Returns lines of two columns, the first as wide as its longest cell, but not over half the width."""
    left = min(max((len(name) for name, _ in rows), default=0), max(width // 2, 1))
    return [f"{clip(name, left):<{left}}  {value}"[:width].rstrip() for name, value in rows]
