"""Files that are there once they are complete."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def new_file(path: Path) -> Iterator[BinaryIO]:
    """Yields a file to write; it has its name at the end of the block, and is removed if that fails."""
    part = path.with_name(f"{path.name}.part")
    with part.open("xb") as file:
        try:
            yield file
        except BaseException:
            part.unlink(missing_ok=True)
            raise
    part.rename(path)
