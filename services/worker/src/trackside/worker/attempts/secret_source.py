"""The secrets of the host: files that only the worker can read, or what a command writes."""

import asyncio
import contextlib
import os
import signal
from dataclasses import dataclass
from pathlib import Path

from trackside.artifacts.blobs.private_files import PrivateFileError, read_private
from trackside.contracts.envelope.ids import IDENTIFIER_RULE, is_identifier
from trackside.contracts.envelope.redaction import redact
from trackside.telemetry.process_start import end_core_dumps
from trackside.worker.settings import WorkerSettings

MAX_BYTES = 65_536
MAX_REASON_CHARACTERS = 500


class SecretMissingError(Exception):
    """A secret can't be had; the message has its name, what was expected and why it isn't so."""


@dataclass(frozen=True, slots=True)
class SecretSource:
    """Where the host has secrets: in files of a folder by their names, else from a command."""

    folder: Path | None = None
    command: tuple[str, ...] = ()
    """A program and its arguments, which gets the name as its last one and writes the value."""
    timeout_s: float = 10.0

    @property
    def exists(self) -> bool:
        """Whether the host has secrets."""
        return self.folder is not None or bool(self.command)

    async def value(self, name: str) -> str:
        """Returns a secret, without the line break at its end. Raises SecretMissingError."""
        if not is_identifier(name):
            raise SecretMissingError(f"{name!r} is not the name of a secret: expected {IDENTIFIER_RULE}")
        if self.folder is not None and (self.folder / name).exists():
            return _text(name, await asyncio.to_thread(_read, name, self.folder / name))
        if self.command:
            return _text(name, await self._run(name))
        if self.folder is not None:
            path = self.folder / name
            raise SecretMissingError(f"{name}: expected {path} with mode 0600, there is no such file")
        raise SecretMissingError(
            f"{name}: this host has no secrets: set TRACKSIDE_WORKER_SECRETS_DIR to a folder with a file of "
            "this name, mode 0600, or TRACKSIDE_WORKER_SECRET_COMMAND"
        )

    async def _run(self, name: str) -> bytes:
        program = self.command[0]
        try:
            process = await asyncio.create_subprocess_exec(
                *self.command,
                name,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            raise SecretMissingError(f"{name}: {program} can't be run: {error.strerror}") from None
        try:
            async with asyncio.timeout(self.timeout_s):
                found, errors = await process.communicate()
        except (TimeoutError, asyncio.CancelledError) as error:
            with contextlib.suppress(ProcessLookupError):  # with all that it has started
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
            if isinstance(error, asyncio.CancelledError):
                raise
            raise SecretMissingError(
                f"{name}: {program} did not end within {self.timeout_s:g} s and was killed; see "
                "TRACKSIDE_WORKER_SECRET_TIMEOUT_S"
            ) from None
        if process.returncode != 0:
            last = redact(errors.decode("utf-8", "replace").strip().rpartition("\n")[2])
            reason = f": {last[:MAX_REASON_CHARACTERS]}" if last else ""
            raise SecretMissingError(f"{name}: {program} ended with exit code {process.returncode}{reason}")
        return found


def secret_source(settings: WorkerSettings) -> SecretSource:
    """Returns the secrets of the host by the settings; a worker with secrets writes no core dump."""
    folder = None if settings.secrets_dir is None else settings.secrets_dir.absolute()
    source = SecretSource(folder, settings.secret_argv, settings.secret_timeout_s)
    if source.exists:
        end_core_dumps()
    return source


def _read(name: str, path: Path) -> bytes:
    try:
        return read_private(path, MAX_BYTES + 1)
    except PrivateFileError as error:
        raise SecretMissingError(f"{name}: {path}: {error}") from None


def _text(name: str, octets: bytes) -> str:
    if len(octets) > MAX_BYTES:
        raise SecretMissingError(f"{name}: the value has more than {MAX_BYTES:,} bytes")
    try:
        text = octets.decode("utf-8")
    except UnicodeDecodeError:
        raise SecretMissingError(f"{name}: the value is not UTF-8; have it in base64") from None
    if "\x00" in text:
        raise SecretMissingError(f"{name}: the value has a NUL character; have it in base64")
    text = text.removesuffix("\n").removesuffix("\r")
    if not text:
        raise SecretMissingError(f"{name}: the value is empty")
    return text
