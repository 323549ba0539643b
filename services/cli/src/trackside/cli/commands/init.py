"""The command `init`: the files of a first search."""

from pathlib import Path

from trackside.cli.render import screen
from trackside.cli.runtime import examples
from trackside.cli.runtime.failures import CommandFailed

FILES = ("train.py", examples.CATALOGUE, examples.SPEC)


def init(folder: Path) -> None:
    """Writes the files into a folder, all or none; raises CommandFailed if one is there."""
    existing = [name for name in FILES if (folder / name).exists()]
    if existing:
        raise CommandFailed(f"{folder} already has {', '.join(existing)}; nothing was written")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in FILES:
            text = (examples.folder(examples.FIRST_SEARCH) / name).read_text("utf-8")
            with (folder / name).open("x", encoding="utf-8") as file:
                file.write(text)
    except OSError as error:
        raise CommandFailed(
            f"{error.filename or folder}: cannot be written: {error.strerror or error}"
        ) from error
    screen.say(f"written to {folder.resolve()}: {', '.join(FILES)}")
    enter = "" if folder.resolve() == Path.cwd() else f"cd {folder} && "
    screen.say(f"next: {enter}trackside up && trackside submit {examples.SPEC} --wait")
