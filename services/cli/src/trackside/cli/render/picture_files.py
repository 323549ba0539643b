"""Files that pictures are written to: what is drawn is told by the end of their names."""

from pathlib import Path
from typing import cast

from trackside.cli.render import screen
from trackside.cli.runtime.failures import BadUsage, CommandFailed
from trackside.summaries.pictures import PictureForm


def picture_form(path: Path) -> PictureForm:
    """Returns what a file is drawn as; raises BadUsage for a name without a known suffix."""
    form = path.suffix.lower().removeprefix(".")
    if form not in ("png", "svg"):
        raise BadUsage(f"--picture {path}: expected a file that ends in .png or .svg")
    return cast("PictureForm", form)


def new_picture_form(path: Path) -> PictureForm:
    """Returns what a new file is drawn as; raises BadUsage for one that exists, too."""
    if path.exists():
        raise BadUsage(f"{path} exists already: name another file")
    return picture_form(path)


def write_new_picture(path: Path, content: bytes) -> None:
    """Writes a file that doesn't exist yet and prints its size; raises CommandFailed if it can't."""
    try:
        with path.open("xb") as file:
            file.write(content)
    except OSError as error:
        raise CommandFailed(f"{path} can't be written: {error.strerror or error}") from error
    screen.say(f"{path}: {len(content):,} bytes")


def write_picture(path: Path, content: bytes) -> None:
    """Writes a file, over one of this name, and says so on stderr; raises CommandFailed if it can't."""
    try:
        path.write_bytes(content)
    except OSError as error:
        raise CommandFailed(f"{path}: {error.strerror or error}") from error
    screen.complain(f"{path} written")
