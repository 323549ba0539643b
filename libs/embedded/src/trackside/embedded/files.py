"""Small files that are replaced atomically, and the folder that caches downloads."""

import os
import re
import tempfile
from contextlib import suppress
from pathlib import Path

from trackside.embedded.errors import StackError

REASON = re.compile(r"(?:error|Error|ERROR|FATAL|PANIC|Exception|could not|cannot)\b.*")


def write_whole(path: Path, text: str, mode: int = 0o600) -> None:
    """Replaces a file atomically: a reader sees the old text or the new one, never a part.

    An OSError names the file, not the temporary one.
    """
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as out:
                out.write(text)
            Path(name).chmod(mode)
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


def cache_folder() -> Path:
    """Returns the folder that keeps downloads between runs: `TRACKSIDE_CACHE`, else `~/.cache/trackside`.

    StackError if the user has no home folder, or may not write there.
    """
    given = os.environ.get("TRACKSIDE_CACHE")
    try:
        folder = Path(given).expanduser() if given else Path.home() / ".cache" / "trackside"
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError) as error:
        raise StackError(
            f"there is no folder for downloads: {error}; set HOME or TRACKSIDE_CACHE to a folder that you "
            "may write"
        ) from error
    return folder


def last_lines(path: Path) -> str:
    """Returns the last dozen lines of a log file, to be shown when its process failed."""
    try:
        with path.open("rb") as log:
            log.seek(0, os.SEEK_END)
            log.seek(max(0, log.tell() - 16_384))
            text = log.read().decode("utf-8", "replace")
    except OSError as error:
        return f"(no log: {error})"
    return "\n".join(text.splitlines()[-12:])


def summarised(output: str, log: Path) -> str:
    """Appends the output of a program that failed to a log; returns its reason, and the name of the log.

    The reason is the first line that reads like one, else the last; empty if there was no output.
    """
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    reasons = [found[0] for line in lines if (found := REASON.search(line))]
    reason = (reasons or lines[-1:] or [""])[0]
    with suppress(OSError):
        log.parent.mkdir(mode=0o700, exist_ok=True)
        with os.fdopen(os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "a") as opened:
            opened.write(output)
        return f"{reason}; all that it printed is in {log}"
    return reason
