"""Help texts from docstrings: paragraphs that wrap at the width of the terminal, examples that don't."""

import inspect
from collections.abc import Callable

KEEP_LINES = "\b"
"""The first line of a paragraph whose line breaks stay, such as a list of examples."""


def help_text(command: Callable[..., None]) -> str:
    """Returns the help of a command: its docstring with each paragraph in one line."""
    paragraphs = inspect.cleandoc(command.__doc__ or "").split("\n\n")
    return "\n\n".join(
        paragraph if paragraph.startswith(KEEP_LINES) else " ".join(paragraph.split("\n"))
        for paragraph in paragraphs
    )
